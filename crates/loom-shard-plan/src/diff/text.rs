//! The summary of a step as a reviewer reads it.

use std::fmt;

use super::{PlanDiff, ShardChange, ShardDiff};
use crate::BucketSet;

impl fmt::Display for PlanDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headline(f)?;
        self.shard_table(f)?;
        self.move_list(f)?;
        self.legality(f)?;
        // What cannot be taken needs no way back.
        if self.is_legal() {
            self.rollback_plan(f)
        } else {
            Ok(())
        }
    }
}

impl PlanDiff {
    fn headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (old, new) = self.epochs;
        writeln!(
            f,
            "epoch {old} -> {new}, {} buckets by {}",
            self.buckets(),
            self.hash
        )?;
        let (before, after) = self.bucket_counts;
        if before != after {
            writeln!(f, "bucket count {before} -> {after}")?;
        }
        if self.is_no_change() {
            return writeln!(f, "no change: 0 buckets move");
        }
        writeln!(
            f,
            "{} of {} buckets move ({:.1} %), {} {}, {} {}",
            self.moved.len(),
            self.buckets(),
            100.0 * self.moved_fraction(),
            self.settled.len(),
            if self.settled.len() == 1 {
                "settles"
            } else {
                "settle"
            },
            self.reverted.len(),
            if self.reverted.len() == 1 {
                "is reverted"
            } else {
                "are reverted"
            },
        )
    }

    fn shard_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:>7}  {:>7}  {:>7}  {:>7}",
            "shard", "before", "after", "change"
        )?;
        for shard in &self.per_shard {
            let change = i64::from(shard.after) - i64::from(shard.before);
            let change = if change == 0 {
                "0".to_owned()
            } else {
                format!("{change:+}")
            };
            write!(
                f,
                "{:>7}  {:>7}  {:>7}  {change:>7}",
                shard.shard, shard.before, shard.after
            )?;
            remark(f, shard)?;
            writeln!(f)?;
        }
        Ok(())
    }

    fn move_list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.moves.is_empty() {
            writeln!(f, "\nmoves")?;
        }
        for moved in &self.moves {
            let count = moved.buckets.len();
            writeln!(
                f,
                "  {} -> {}: {count} ({})",
                moved.from, moved.to, moved.buckets
            )?;
        }
        if !self.settled.is_empty() {
            writeln!(f, "\nsettle: {} ({})", self.settled.len(), self.settled)?;
        }
        Ok(())
    }

    fn legality(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_legal() {
            return writeln!(f, "\nlegal: yes");
        }
        writeln!(f, "\nlegal: no")?;
        self.refusals
            .iter()
            .try_for_each(|refusal| writeln!(f, "  - {refusal}"))
    }

    fn rollback_plan(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let back = self.rollback();
        if !back.is_empty() {
            let (epoch, count) = (self.epochs.1.saturating_add(1), back.len());
            let (buckets, them) = if count == 1 {
                ("bucket", "it")
            } else {
                ("buckets", "them")
            };
            let are = if count == 1 { "it is" } else { "they are" };
            write!(
                f,
                "rollback: revert {count} {buckets} ({back}) in epoch {epoch}, settle {them} when \
                 {are} drained"
            )?;
            // Written as ranges, as buckets are: thousands may join at once.
            let joins: BucketSet = self.joins().map(|shard| u32::from(shard.get())).collect();
            match joins.len() {
                0 => writeln!(f)?,
                1 => writeln!(f, "; shard {joins} is then empty and can leave")?,
                _ => writeln!(f, "; shards {joins} are then empty and can leave")?,
            }
        }
        if !self.settled.is_empty() {
            writeln!(
                f,
                "rollback of settled buckets: none; only another rebalance moves them back"
            )?;
        }
        Ok(())
    }
}

/// What else there is to say about a shard.
fn remark(f: &mut fmt::Formatter<'_>, shard: &ShardDiff) -> fmt::Result {
    match shard.change {
        ShardChange::Stays => {}
        ShardChange::Joins => f.write_str("  joins")?,
        ShardChange::Leaving => f.write_str("  is leaving")?,
        ShardChange::Gone => f.write_str("  is gone")?,
    }
    match (shard.weight_before, shard.weight_after) {
        (_, Some(weight)) if shard.change == ShardChange::Joins => write!(f, ", weight {weight}"),
        (Some(before), Some(after)) if before != after => write!(f, "  weight {before} -> {after}"),
        _ => Ok(()),
    }
}
