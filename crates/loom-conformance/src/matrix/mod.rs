//! Which store shows what: groups by stores, as data, text and Markdown.

mod render;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{CaseReport, Need, Outcome};

/// How stores did, group by group.
///
/// `Display` gives a table for a terminal.
///
/// ```
/// use std::sync::Arc;
/// use loom_conformance::{Matrix, Subject, cases, run_case};
/// use loom_store_memory::MemoryStore;
///
/// let factory: Arc<dyn loom_conformance::StoreFactory> =
///     Arc::new(|| async { Ok(Subject::new(MemoryStore::new())) });
/// let reports: Vec<_> = cases()
///     .iter()
///     .filter(|case| case.group() == "terminal")
///     .map(|case| run_case(&factory, case))
///     .collect();
/// let mut matrix = Matrix::new();
/// matrix.add("memory", &reports);
/// assert!(!matrix.has_failures());
/// assert_eq!(matrix.rows()[0].group, "terminal");
/// println!("{matrix}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    rows: Vec<Row>,
}

/// How one store did in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The name of the store.
    pub store: String,
    /// The group of cases.
    pub group: &'static str,
    /// How many cases passed.
    pub passed: usize,
    /// How many cases failed.
    pub failed: usize,
    /// How many cases were skipped.
    pub skipped: usize,
    /// What the skipped cases lacked.
    pub missing: BTreeSet<Need>,
    /// The cases that failed, and why.
    pub failures: Vec<CaseFailure>,
}

/// A case that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseFailure {
    /// The name of the case.
    pub case: &'static str,
    /// What was expected and what was found.
    pub message: String,
}

impl Row {
    fn new(store: &str, group: &'static str) -> Self {
        Self {
            store: store.to_owned(),
            group,
            passed: 0,
            failed: 0,
            skipped: 0,
            missing: BTreeSet::new(),
            failures: Vec::new(),
        }
    }

    fn count(&mut self, report: &CaseReport) {
        match &report.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped { missing } => {
                self.skipped += 1;
                self.missing.insert(*missing);
            }
            Outcome::Failed { message } => {
                self.failed += 1;
                self.failures.push(CaseFailure {
                    case: report.name,
                    message: message.clone(),
                });
            }
        }
    }
}

impl Matrix {
    /// No stores yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what became of the cases of a store. Reports of a store that is there already are added to its
    /// own.
    pub fn add(&mut self, store: &str, reports: &[CaseReport]) {
        for report in reports {
            let known = self
                .rows
                .iter_mut()
                .find(|row| row.store == store && row.group == report.group);
            match known {
                Some(row) => row.count(report),
                None => {
                    let mut row = Row::new(store, report.group);
                    row.count(report);
                    self.rows.push(row);
                }
            }
        }
    }

    /// The rows: store by store, and in each the groups in their order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether any case of any store failed.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.rows.iter().any(|row| row.failed > 0)
    }

    /// A JSON array of the rows: `store`, `group`, `passed`, `failed`, `skipped`, `missing` (what the skipped
    /// cases lacked) and `failures` (`case` and `message`).
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(row_to_json).collect();
        format!("{:#}\n", Value::from(rows))
    }
}

fn row_to_json(row: &Row) -> Value {
    let missing: Vec<_> = row.missing.iter().map(Need::to_string).collect();
    let failures: Vec<_> = row
        .failures
        .iter()
        .map(|failure| json!({ "case": failure.case, "message": failure.message }))
        .collect();
    json!({
        "store": row.store,
        "group": row.group,
        "passed": row.passed,
        "failed": row.failed,
        "skipped": row.skipped,
        "missing": missing,
        "failures": failures,
    })
}

#[cfg(test)]
mod tests;
