use std::time::Duration;

use super::*;

fn report(group: &'static str, name: &'static str, outcome: Outcome) -> CaseReport {
    CaseReport {
        group,
        name,
        outcome,
        took: Duration::ZERO,
    }
}

fn failed(message: &str) -> Outcome {
    Outcome::Failed {
        message: message.to_owned(),
    }
}

fn example() -> Matrix {
    let missing = Need::Clock;
    let mut matrix = Matrix::new();
    matrix.add(
        "memory",
        &[
            report("append", "one", Outcome::Passed),
            report("append", "two", Outcome::Passed),
            report("leases", "three", Outcome::Skipped { missing }),
        ],
    );
    matrix.add(
        "broken",
        &[
            report("append", "one", failed("expected | 1,\nfound 2")),
            report("append", "two", Outcome::Passed),
        ],
    );
    matrix
}

#[test]
fn a_row_counts_a_group_of_a_store() {
    let matrix = example();
    let counts: Vec<_> = matrix
        .rows()
        .iter()
        .map(|row| (&*row.store, row.group, row.passed, row.failed, row.skipped))
        .collect();
    assert_eq!(
        counts,
        [
            ("memory", "append", 2, 0, 0),
            ("memory", "leases", 0, 0, 1),
            ("broken", "append", 1, 1, 0),
        ]
    );
    assert!(matrix.has_failures());
}

#[test]
fn a_terminal_shows_groups_by_stores_and_what_is_missing() {
    let expected = "\
group   memory     broken
append  2 passed   1 FAILED, 1 passed
leases  1 skipped
total   2 passed, 1 skipped  1 FAILED, 1 passed
";
    // Columns are as wide as their widest cell, the totals.
    let found = example().to_string();
    let squeezed = |text: &str| {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&found)[..4], squeezed(expected));
    assert!(
        found.contains("memory: 1 of leases skipped, missing: clock"),
        "{found}"
    );
    assert!(
        found.contains("broken: append::one FAILED: expected | 1,\nfound 2"),
        "{found}"
    );
    let starts: Vec<_> = found
        .lines()
        .take(4)
        .map(|line| line.find("passed").or(line.find("memory")))
        .collect();
    assert_eq!(
        starts[1], starts[3],
        "cells of a column begin at the same place:\n{found}"
    );
}

#[test]
fn markdown_keeps_each_note_on_its_line() {
    let text = example().to_markdown();
    assert!(
        text.starts_with("| group | memory | broken |\n| --- | --- | --- |\n"),
        "{text}"
    );
    assert!(
        text.contains("\n- broken: append::one FAILED: expected | 1, found 2\n"),
        "{text}"
    );
}

#[test]
fn json_has_a_row_for_each_group_of_each_store() {
    let rows: Vec<Value> = serde_json::from_str(&example().to_json()).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1]["missing"], json!(["clock"]));
    assert_eq!(rows[2]["store"], "broken");
    assert_eq!(rows[2]["failures"][0]["case"], "one");
}
