//! Plans: where the executions of the model are, epoch by epoch.

/// The number of executions. Each has a bucket of its own.
pub(crate) const IDS: usize = 2;
/// The number of shards.
pub(crate) const SHARDS: usize = 3;

/// Where a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Settled(u8),
    Migrating(u8, u8),
}

/// A plan. Two of one epoch are rivals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) epoch: u8,
    pub(crate) places: [Place; IDS],
    /// Its shards, ascending.
    pub(crate) shards: &'static [u8],
}

impl Plan {
    /// Whether `next` may be published after this one, as `ShardPlan::validate_transition` says.
    pub(crate) fn may_precede(&self, next: &Self) -> bool {
        next.epoch == self.epoch + 1
            && self
                .places
                .iter()
                .zip(&next.places)
                .all(|(now, next)| follows(*now, *next))
    }
}

fn follows(now: Place, next: Place) -> bool {
    use Place::{Migrating, Settled};
    match (now, next) {
        _ if now == next => true,
        (Settled(at), Migrating(from, _)) => at == from,
        (Migrating(_, to), Settled(at)) => at == to,
        (Migrating(from, to), Migrating(next_from, next_to)) => from == next_to && to == next_from,
        (Settled(_), Settled(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Place::{Migrating, Settled};
    use super::*;

    #[test]
    fn a_bucket_takes_the_steps_that_the_specification_allows() {
        for (now, next, allowed) in [
            (Settled(0), Settled(0), true),
            (Settled(0), Settled(1), false),
            (Settled(0), Migrating(0, 1), true),
            (Settled(0), Migrating(1, 0), false),
            (Migrating(0, 1), Migrating(0, 1), true),
            (Migrating(0, 1), Migrating(1, 0), true),
            (Migrating(0, 1), Migrating(0, 2), false),
            (Migrating(0, 1), Migrating(1, 2), false),
            (Migrating(0, 1), Settled(1), true),
            (Migrating(0, 1), Settled(0), false),
        ] {
            assert_eq!(follows(now, next), allowed, "{now:?} {next:?}");
        }
    }
}
