//! Links between Markdown files.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// Every relative link leads to a file, and every fragment to a heading.
pub(crate) fn links_resolve(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.texts(&[".md"]) {
        for (number, line) in prose(text) {
            for target in targets(&line) {
                if let Some(problem) = problem(tree, path, target) {
                    found.push(format!("{path}:{number}: the link to `{target}` {problem}"));
                }
            }
        }
    }
    found
}

/// Lines with their numbers, without code blocks and code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let spans = line.split('`').enumerate();
            let words: String = spans
                .filter(|(n, _)| n % 2 == 0)
                .map(|(_, text)| text)
                .collect();
            lines.push((number, words));
        }
    }
    lines
}

/// Where `[text](target)`, `[text](target "title")` and `[text]: target` lead.
fn targets(line: &str) -> Vec<&str> {
    let inline = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, target)| target.trim());
    inline.chain(definition).collect()
}

/// What is wrong with a link in `path`, if anything.
fn problem(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") || is_item(path, target) {
        return None;
    }
    let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() {
        path.to_owned()
    } else {
        match resolve(path, file) {
            Some(file) if tree.exists(&file) => file,
            _ => return Some("leads nowhere".to_owned()),
        }
    };
    let headings = tree.text(&file).map(fragments).unwrap_or_default();
    let known = fragment.is_empty() || headings.iter().any(|heading| heading == fragment);
    (!known).then(|| format!("leads to no heading of {file}"))
}

/// Whether it names an item of Rust: the front page of a crate does, and rustdoc checks those.
fn is_item(path: &str, target: &str) -> bool {
    let identifier = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    path.starts_with("crates/") && target.split("::").all(identifier)
}

/// A path relative to the file `from`, as one from the root; `None` when it leads out of the project.
fn resolve(from: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The fragments of the headings, as GitHub makes them.
fn fragments(text: &str) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut in_block = false;
    let mut fragments = Vec::new();
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_block || heading == line || !heading.starts_with(' ') {
            continue;
        }
        let fragment: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let earlier = seen.entry(fragment.clone()).or_default();
        fragments.push(match *earlier {
            0 => fragment,
            n => format!("{fragment}-{n}"),
        });
        *earlier += 1;
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let other = "# Title\n\n## What `append` does, and why\n\n## Twice\n\n## Twice\n";
        links_resolve(&Tree::of(&[
            (path, text),
            ("docs/guides/other.md", other),
            ("Cargo.toml", ""),
        ]))
    }

    #[test]
    fn links_to_files_folders_headings_and_the_web_are_fine() {
        for target in [
            "guides/other.md",
            "guides",
            "guides/",
            "./guides/../guides/other.md",
            "../Cargo.toml",
            "../",
            "guides/other.md#title",
            "guides/other.md#what-append-does-and-why",
            "guides/other.md#twice-1",
            "#here",
            "https://example.org/nowhere.md",
            "mailto:someone@example.org",
        ] {
            let text =
                format!("# Here\n[a]({target}) and [b]({target} \"title\")\n\n[c]: {target}\n");
            assert_eq!(found("docs/a.md", &text), Vec::<String>::new(), "{target}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_with_its_line() {
        for target in [
            "guides/missing.md",
            "other.md",
            "../../outside.md",
            "guides/other.md#missing",
            "#missing",
            "guides/other.md#twice-2",
        ] {
            for text in [
                format!("\nsee [a]({target}), [b](https://b)\n"),
                format!("\n[a]: {target}\n"),
            ] {
                let found = found("docs/a.md", &text);
                assert_eq!(found.len(), 1, "{target}: {found:?}");
                assert!(found[0].starts_with("docs/a.md:2: "), "{found:?}");
            }
        }
    }

    #[test]
    fn code_is_not_searched_for_links() {
        let text = "`[a](missing.md)`\n\n```text\n[a](missing.md)\n```\n";
        assert_eq!(found("docs/a.md", text), Vec::<String>::new());
        let after = format!("{text}[a](missing.md)\n");
        assert_eq!(found("docs/a.md", &after).len(), 1);
    }

    #[test]
    fn items_of_rust_are_left_to_rustdoc_on_front_pages_alone() {
        let text = "[a](EventStore) [b](crate::EventStore)\n";
        assert_eq!(found("crates/a/README.md", text), Vec::<String>::new());
        assert_eq!(found("docs/a.md", text).len(), 2);
    }
}
