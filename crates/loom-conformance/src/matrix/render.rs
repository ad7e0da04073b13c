//! The matrix as text: groups are the lines, stores the columns.

use std::fmt::{self, Write as _};

use super::{Matrix, Row};

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table();
        let columns = table.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let cells = table.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for line in &table {
            let cells = line.iter().zip(&widths);
            let text: Vec<_> = cells
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            writeln!(f, "{}", text.join("  ").trim_end())?;
        }
        for note in self.notes() {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}

impl Matrix {
    /// A Markdown table, with the skipped groups and the failures below it.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let mut text = String::new();
        for (index, line) in self.table().iter().enumerate() {
            let cells: Vec<_> = line.iter().map(|cell| cell.replace('|', "\\|")).collect();
            push_line(&mut text, format_args!("| {} |", cells.join(" | ")));
            if index == 0 {
                push_line(&mut text, format_args!("|{}", " --- |".repeat(cells.len())));
            }
        }
        let notes = self.notes();
        if !notes.is_empty() {
            push_line(&mut text, format_args!(""));
        }
        for note in notes {
            // One item each, whatever the message holds.
            let note = note.replace('\n', " ").replace('<', "&lt;");
            push_line(&mut text, format_args!("- {note}"));
        }
        text
    }

    /// A line of headings, a line for each group, a line of totals.
    fn table(&self) -> Vec<Vec<String>> {
        let (mut stores, mut groups) = (Vec::new(), Vec::new());
        for row in &self.rows {
            if !stores.contains(&row.store.as_str()) {
                stores.push(row.store.as_str());
            }
            if !groups.contains(&row.group) {
                groups.push(row.group);
            }
        }
        let line = |title: &str, cell: &dyn Fn(&str) -> String| {
            let cells = stores.iter().map(|store| cell(store));
            std::iter::once(title.to_owned()).chain(cells).collect()
        };
        let mut table = vec![line("group", &str::to_owned)];
        for group in &groups {
            table.push(line(group, &|store| {
                let row = self
                    .rows
                    .iter()
                    .find(|row| row.store == store && row.group == *group);
                row.map_or_else(String::new, |row| cell(row.passed, row.failed, row.skipped))
            }));
        }
        table.push(line("total", &|store| {
            let rows = self.rows.iter().filter(|row| row.store == store);
            let (passed, failed, skipped) = rows.fold((0, 0, 0), |sum, row| {
                (sum.0 + row.passed, sum.1 + row.failed, sum.2 + row.skipped)
            });
            cell(passed, failed, skipped)
        }));
        table
    }

    /// What is missing where, and what failed.
    fn notes(&self) -> Vec<String> {
        let skipped = self.rows.iter().filter(|row| row.skipped > 0).map(|row| {
            let missing: Vec<_> = row.missing.iter().map(ToString::to_string).collect();
            let (store, group, count) = (&row.store, row.group, row.skipped);
            format!(
                "{store}: {count} of {group} skipped, missing: {}",
                missing.join(", ")
            )
        });
        let failures = self.rows.iter().flat_map(|row| {
            row.failures.iter().map(move |failure| {
                let (store, Row { group, .. }) = (&row.store, row);
                format!(
                    "{store}: {group}::{} FAILED: {}",
                    failure.case, failure.message
                )
            })
        });
        skipped.chain(failures).collect()
    }
}

/// What a store did in a group, in few words.
fn cell(passed: usize, failed: usize, skipped: usize) -> String {
    let mut parts = Vec::new();
    if failed > 0 {
        parts.push(format!("{failed} FAILED"));
    }
    if passed > 0 || (failed == 0 && skipped == 0) {
        parts.push(format!("{passed} passed"));
    }
    if skipped > 0 {
        parts.push(format!("{skipped} skipped"));
    }
    parts.join(", ")
}

fn push_line(text: &mut String, line: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}
