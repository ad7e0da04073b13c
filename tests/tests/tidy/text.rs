//! Rules for every text.

use crate::tree::Tree;

const WRITTEN_BY_HAND: &[&str] = &[
    ".rs",
    ".md",
    ".toml",
    ".sh",
    ".yml",
    ".ci/run",
    ".gitignore",
];

pub(crate) fn lines_end_cleanly(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts(WRITTEN_BY_HAND) {
        for (number, line) in (1..).zip(text.split('\n')) {
            if line.ends_with(char::is_whitespace) {
                found.push(format!(
                    "{path}:{number}: white space at the end of the line"
                ));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            found.push(format!("{path}: the last line does not end"));
        }
        if text.ends_with("\n\n") {
            found.push(format!("{path}: empty lines at the end"));
        }
    }
    found
}

/// Where people keep things on one machine. Written in two halves, so that this file does not break its own
/// rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/t", "mp/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("C:\\Us", "ers\\"),
];

/// What is true on one machine only has no place in a file of the project.
pub(crate) fn paths_are_relative(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts(&[""]) {
        for (number, line) in (1..).zip(text.lines()) {
            for machine in MACHINE_PATHS {
                if line
                    .match_indices(machine)
                    .any(|(at, _)| starts_a_path(&line[..at]))
                {
                    found.push(format!(
                        "{path}:{number}: a path of one machine: `{machine}…`"
                    ));
                }
            }
        }
    }
    found
}

/// Whether what follows `before` is the start of a path and not the middle of one.
fn starts_a_path(before: &str) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() || "._-/}>)~*".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_ends_in_white_space_is_found() {
        let found = lines_end_cleanly(&Tree::of(&[("a.rs", "a\nb \n"), ("b.md", "c\t\n")]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
    }

    #[test]
    fn a_file_ends_with_exactly_one_line_end() {
        let found = |text| lines_end_cleanly(&Tree::of(&[("a.md", text)])).len();
        assert_eq!(
            [found("a\n"), found(""), found("a"), found("a\n\n")],
            [0, 0, 1, 1]
        );
    }

    #[test]
    fn what_a_program_wrote_keeps_its_white_space() {
        let tree = Tree::of(&[("a.snap", "a \n\n"), ("LICENSE-MIT", "a ")]);
        assert_eq!(lines_end_cleanly(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_path_of_one_machine_is_found_in_any_file() {
        for machine in MACHINE_PATHS {
            let text = format!("first\nsee `{machine}x`\n");
            let found = paths_are_relative(&Tree::of(&[("a.json", &text)]));
            assert_eq!(found.len(), 1, "{machine}");
            assert!(found[0].starts_with("a.json:2: "), "{found:?}");
        }
    }

    #[test]
    fn a_folder_of_the_project_may_have_such_a_name() {
        for machine in &MACHINE_PATHS[..5] {
            let text = format!("target{machine}x and https://example.org{machine}\n");
            let tree = Tree::of(&[("a.md", &text)]);
            assert_eq!(paths_are_relative(&tree), Vec::<String>::new());
        }
    }
}
