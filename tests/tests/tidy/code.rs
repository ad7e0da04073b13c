//! Rules for Rust files.

use crate::tree::Tree;

/// Longer files hold more than one idea.
const MAX_LINES: usize = 600;

pub(crate) fn files_are_short(tree: &Tree) -> Vec<String> {
    tree.texts(&[".rs"])
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines: split it, {MAX_LINES} are the most"))
        .collect()
}

/// Written in two halves, so that this file does not break its own rule.
const LEFT_OVERS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "build the real thing"),
    (concat!("unimple", "mented!("), "build the real thing"),
    (concat!("db", "g!("), "remove it"),
    (
        concat!("#[ig", "nore"),
        "a test that does not run checks nothing",
    ),
];

pub(crate) fn nothing_is_left_over(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts(&[".rs"]) {
        for (number, line) in (1..).zip(text.lines()) {
            for (left_over, advice) in LEFT_OVERS {
                if line.contains(left_over) {
                    found.push(format!("{path}:{number}: `{left_over}`: {advice}"));
                }
            }
        }
    }
    found
}

/// A test that waits for a clock is slow where it passes and fails where the machine is busy. With Tokio's
/// paused clock nothing waits.
pub(crate) fn tests_do_not_sleep(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts(&[".rs"]) {
        let paused = text.contains("start_paused = true") || text.contains("time::pause()");
        let mut in_tests = path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs");
        for (number, line) in (1..).zip(text.lines()) {
            in_tests |= line.trim_start().starts_with("#[cfg(test)]");
            let sleeps = calls(line, "sleep") && (line.contains("thread::sleep") || !paused);
            if in_tests && sleeps {
                found.push(format!(
                    "{path}:{number}: a test sleeps: wait for what it is about, or pause the clock"
                ));
            }
        }
    }
    found
}

/// Whether `line` calls a function `name`: not one whose name only ends so, not in words of a comment.
fn calls(line: &str, name: &str) -> bool {
    let call = format!("{name}(");
    line.match_indices(&call).any(|(at, _)| {
        let before = &line[..at];
        !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            && !before.ends_with("fn ")
            && !before.contains("//")
            && before.matches('"').count().is_multiple_of(2)
    })
}

/// A crate's README is what docs.rs shows first, and its example is compiled.
pub(crate) fn readmes_are_front_pages(tree: &Tree) -> Vec<String> {
    tree.texts(&["/src/lib.rs"])
        .filter(|(path, text)| {
            path.starts_with("crates/")
                && !text.contains("#![doc = include_str!(\"../README.md\")]")
        })
        .map(|(path, _)| format!("{path}: start with `#![doc = include_str!(\"../README.md\")]`"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Tree) -> Vec<String>, path: &str, text: &str) -> Vec<String> {
        rule(&Tree::of(&[(path, text)]))
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        let lines = |count| "x\n".repeat(count);
        assert!(found(files_are_short, "a.rs", &lines(MAX_LINES)).is_empty());
        assert_eq!(
            found(files_are_short, "a.rs", &lines(MAX_LINES + 1)).len(),
            1
        );
        assert!(found(files_are_short, "a.md", &lines(MAX_LINES + 1)).is_empty());
    }

    #[test]
    fn every_left_over_is_found_with_its_line() {
        for (left_over, _) in LEFT_OVERS {
            let text = format!("fn f() {{\n    {left_over}\n}}\n");
            let found = found(nothing_is_left_over, "a.rs", &text);
            assert_eq!(found.len(), 1, "{left_over}");
            assert!(found[0].starts_with("a.rs:2: "), "{found:?}");
        }
        assert!(found(nothing_is_left_over, "a.rs", "fn todo() {}\n").is_empty());
    }

    #[test]
    fn a_test_that_sleeps_is_found_wherever_tests_are() {
        let call = "    tokio::time::sleep(wait).await;\n";
        let unit = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{call}}}\n");
        assert_eq!(found(tests_do_not_sleep, "src/a.rs", &unit).len(), 1);
        for path in ["tests/a.rs", "crates/a/tests/b/c.rs", "src/a/tests.rs"] {
            assert_eq!(found(tests_do_not_sleep, path, call).len(), 1, "{path}");
        }
        assert!(found(tests_do_not_sleep, "src/a.rs", call).is_empty());
    }

    #[test]
    fn a_paused_clock_may_be_slept_on_but_a_thread_may_not() {
        let paused = "#[tokio::test(start_paused = true)]\n";
        let tokio = format!("{paused}sleep(wait).await;\n");
        assert!(found(tests_do_not_sleep, "tests/a.rs", &tokio).is_empty());
        let thread = format!("{paused}std::thread::sleep(wait);\n");
        assert_eq!(found(tests_do_not_sleep, "tests/a.rs", &thread).len(), 1);
    }

    #[test]
    fn what_only_looks_like_sleeping_is_not_found() {
        for line in [
            "fn sleep(&self) {}",
            "do_not_sleep(x);",
            "// never sleep(1) here",
            r#"assert_eq!(flow, "sleep(1)");"#,
        ] {
            assert!(
                found(tests_do_not_sleep, "tests/a.rs", line).is_empty(),
                "{line}"
            );
        }
    }

    #[test]
    fn a_library_that_does_not_show_its_readme_is_found() {
        let good = "#![doc = include_str!(\"../README.md\")]\n";
        assert!(found(readmes_are_front_pages, "crates/a/src/lib.rs", good).is_empty());
        assert_eq!(
            found(readmes_are_front_pages, "crates/a/src/lib.rs", "//! A\n").len(),
            1
        );
        assert!(found(readmes_are_front_pages, "tests/src/lib.rs", "//! A\n").is_empty());
    }
}
