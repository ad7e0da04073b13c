//! The JSON format, and serde in general. See `docs/specification/plan-format.md`.
//!
//! serde_json writes it. A whole document is read by hand: that streams into the plan, and every error
//! has its field, its place and its words. serde reads a plan that is a part of something else.

mod cursor;
mod read;
mod wire;

use super::{DecodeError, DecodeProblem, Location, NAME, PlanFormat, VERSION};
use crate::ShardPlan;

impl ShardPlan {
    /// The canonical JSON text, on one line: equal plans, equal text.
    ///
    /// Through serde the plan can be embedded in other documents, and in other formats.
    #[must_use]
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "string keys into memory: nothing there can fail"
    )]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a plan is plain data")
    }

    /// Reads the JSON format, with any spacing and any order of keys.
    ///
    /// ```
    /// use loom_shard_plan::ShardPlan;
    /// let json = ShardPlan::new(2)?.to_json().replace(r#""weight":1"#, r#""weight":"1""#);
    /// assert_eq!(
    ///     ShardPlan::from_json(&json).unwrap_err().to_string(),
    ///     "plan JSON, shards[0].weight, line 1, column 110: expected a weight from 0 to 4294967295, \
    ///      found the text `1`",
    /// );
    /// # Ok::<(), loom_shard_plan::PlanError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DecodeError`] with the field, the line and the column.
    pub fn from_json(json: &str) -> Result<Self, DecodeError> {
        read::plan(json).map_err(|fault| {
            let (line, column) = cursor::place(json, fault.at);
            let location = match fault.path() {
                path if path.is_empty() => Location::Line { line, column },
                path => Location::Item { path, line, column },
            };
            DecodeError::new(PlanFormat::Json, location, fault.problem)
        })
    }
}
