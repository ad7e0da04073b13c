//! A diff for tools.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::PlanDiff;

/// Counts, fractions and lists, with stable keys; `legal` and `refusals` included.
impl Serialize for PlanDiff {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("PlanDiff", 15)?;
        map.serialize_field("epoch_before", &self.epochs.0)?;
        map.serialize_field("epoch_after", &self.epochs.1)?;
        map.serialize_field("buckets_before", &self.bucket_counts.0)?;
        map.serialize_field("buckets", &self.buckets())?;
        map.serialize_field("moved", &self.moved.len())?;
        map.serialize_field("moved_fraction", &self.moved_fraction())?;
        map.serialize_field("settled", &self.settled.len())?;
        map.serialize_field("reverted", &self.reverted.len())?;
        map.serialize_field("joins", &self.joins().collect::<Vec<_>>())?;
        map.serialize_field("leaves", &self.leaves().collect::<Vec<_>>())?;
        map.serialize_field("per_shard", &self.per_shard)?;
        map.serialize_field("moves", &self.moves)?;
        map.serialize_field("rollback", &self.revertible)?;
        map.serialize_field("legal", &self.is_legal())?;
        let refusals = self
            .refusals
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        map.serialize_field("refusals", &refusals)?;
        map.end()
    }
}
