//! Decision records.

use crate::tree::Tree;

const FOLDER: &str = "docs/adr/";
const SECTIONS: &[&str] = &[
    "## Context",
    "## Decision",
    "## Consequences",
    "## Alternatives",
];

/// Records are numbered without gaps, complete, and listed in the index.
pub(crate) fn decisions_are_found(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let index = tree.text("docs/adr/README.md").unwrap_or_default();
    let records = tree.texts(&[".md"]).filter_map(|(path, text)| {
        let file = path.strip_prefix(FOLDER)?;
        file.starts_with(|c: char| c.is_ascii_digit())
            .then_some((file, text))
    });
    for (expected, (file, text)) in (1..).zip(records) {
        let number = format!("{expected:04}");
        let mut miss = |problem: String| found.push(format!("{FOLDER}{file}: {problem}"));
        if !file.starts_with(&format!("{number}-")) {
            miss(format!(
                "expected the record {number} here: numbers have no gaps"
            ));
        }
        if !text.starts_with(&format!("# {number}: ")) {
            miss(format!("expected it to start with `# {number}: `"));
        }
        if !text.lines().any(|line| line.starts_with("- Status: ")) {
            miss("expected a line `- Status: …`".to_owned());
        }
        for section in SECTIONS {
            if !text.lines().any(|line| line == *section) {
                miss(format!("expected a section `{section}`"));
            }
        }
        if !index.contains(&format!("]({file})")) {
            miss("expected a link to it in docs/adr/README.md".to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: (&str, &str) = ("docs/adr/README.md", "- [a](0001-a.md)\n- [b](0002-b.md)\n");

    fn record(number: &str) -> String {
        format!(
            "# {number}: Title\n\n- Status: accepted\n\n{}\n",
            SECTIONS.join("\n\n")
        )
    }

    fn found(records: &[(&str, &str)]) -> Vec<String> {
        let template = ("docs/adr/template.md", "# NNNN: Title\n");
        decisions_are_found(&Tree::of(&[&[INDEX, template], records].concat()))
    }

    fn assert_one(found: &[String], expected: &str) {
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(expected), "{found:?}");
    }

    #[test]
    fn complete_records_in_order_are_fine() {
        let (a, b) = (record("0001"), record("0002"));
        let found = found(&[("docs/adr/0001-a.md", &a), ("docs/adr/0002-b.md", &b)]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_gap_and_a_number_given_twice_are_found() {
        let (a, c) = (record("0001"), record("0003"));
        assert!(!found(&[("docs/adr/0001-a.md", &a), ("docs/adr/0003-b.md", &c)]).is_empty());
        assert!(!found(&[("docs/adr/0001-a.md", &a), ("docs/adr/0001-b.md", &a)]).is_empty());
    }

    #[test]
    fn a_title_with_another_number_is_found() {
        let wrong = record("0002");
        assert_one(
            &found(&[("docs/adr/0001-a.md", &wrong)]),
            "start with `# 0001: `",
        );
    }

    #[test]
    fn a_missing_section_or_status_is_found() {
        for left_out in SECTIONS.iter().chain(&["- Status: accepted"]) {
            let text = record("0001").replace(left_out, "");
            assert_one(&found(&[("docs/adr/0001-a.md", &text)]), "expected a");
        }
    }

    #[test]
    fn a_record_that_the_index_does_not_list_is_found() {
        let text = record("0001");
        assert_one(&found(&[("docs/adr/0001-other.md", &text)]), "README.md");
    }
}
