//! Rows, and how they are printed.

use std::fmt::Write as _;

use serde::Serialize;

use crate::timing::Ratio;

/// One comparison.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// The suite.
    pub(crate) name: &'static str,
    /// What of ours.
    pub(crate) what: String,
    /// Beside what.
    pub(crate) against: String,
    /// Ours divided by theirs: the median.
    pub(crate) ratio: f64,
    /// The smallest ratio of a round.
    pub(crate) min: f64,
    /// The largest ratio of a round.
    pub(crate) max: f64,
    /// What the ratio should be; `null` where a row is shown for information.
    pub(crate) target: Option<Target>,
    /// Whether the median meets the target.
    pub(crate) met: Option<bool>,
    /// What else belongs to the figure: the absolute times, the settings of the peer.
    pub(crate) note: String,
}

/// A bound on a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Less than this.
    Below(f64),
    /// Exactly this.
    Exactly(f64),
}

impl Target {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(bound) => ratio <= bound,
            Self::AtLeast(bound) => ratio >= bound,
            Self::Below(bound) => ratio < bound,
            Self::Exactly(value) => (ratio - value).abs() < 1e-9,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("<= {bound}"),
            Self::AtLeast(bound) => format!(">= {bound}"),
            Self::Below(bound) => format!("< {bound}"),
            Self::Exactly(value) => format!("= {value}"),
        }
    }
}

impl Row {
    pub(crate) fn new(
        name: &'static str,
        what: impl Into<String>,
        against: impl Into<String>,
        ratio: Ratio,
        target: Option<Target>,
        note: impl Into<String>,
    ) -> Self {
        Self {
            name,
            what: what.into(),
            against: against.into(),
            ratio: ratio.median,
            min: ratio.min,
            max: ratio.max,
            target,
            met: target.map(|target| target.is_met(ratio.median)),
            note: note.into(),
        }
    }
}

/// The rows as a Markdown table, which a terminal shows well enough.
pub(crate) fn table(rows: &[Row]) -> String {
    let head = [
        "what", "against", "ratio", "min", "max", "target", "met", "note",
    ]
    .map(String::from);
    let body = rows.iter().map(|row| {
        [
            row.what.clone(),
            row.against.clone(),
            number(row.ratio),
            number(row.min),
            number(row.max),
            row.target.map_or_else(|| "-".to_owned(), Target::text),
            match row.met {
                None => "-",
                Some(true) => "yes",
                Some(false) => "MISSED",
            }
            .to_owned(),
            row.note.clone(),
        ]
    });
    let lines: Vec<[String; 8]> = std::iter::once(head).chain(body).collect();
    let mut widths = [0; 8];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in widths {
                let _ = write!(text, "| {} ", "-".repeat(width));
            }
            text.push_str("|\n");
        }
    }
    text
}

fn number(value: f64) -> String {
    format!("{value:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, target: Option<Target>) -> Row {
        let ratio = Ratio {
            median: ratio,
            min: ratio,
            max: ratio,
        };
        Row::new("plan", "ours", "theirs", ratio, target, "")
    }

    #[test]
    fn a_missed_target_is_shown_as_missed() {
        let rows = [
            row(0.3, Some(Target::AtMost(0.25))),
            row(0.2, Some(Target::AtMost(0.25))),
            row(1.0, Some(Target::Exactly(1.0))),
            row(9.0, None),
            row(1.0, Some(Target::Below(1.0))),
        ];
        assert_eq!(
            rows.each_ref().map(|row| row.met),
            [Some(false), Some(true), Some(true), None, Some(false)]
        );
        let text = table(&rows);
        assert_eq!(text.matches("MISSED").count(), 2);
        assert_eq!(text.lines().count(), 7);
    }
}
