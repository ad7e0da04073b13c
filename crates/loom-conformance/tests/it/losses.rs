//! What a store may lose when it is reopened.

use loom_spi::{
    AcquireFence, Append, Delete, FenceToken, Forget, Import, Publish, RecordLineage, Retire, Seal,
    ShardIdentity, ShardLocation, Unseal,
};

/// What gets lost when a store is reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The last append, which was never flushed.
    LastAppend,
    /// All events but the first of each append.
    HalfAppends,
    /// That events were terminal.
    TerminalMarks,
    /// When events were recorded.
    Times,
    /// Deletions.
    Deletes,
    /// Fences that were acquired.
    Fences,
    /// Fences that came with an append.
    FencesOfAppends,
    /// The order of branches.
    OrderOfBranches,
    /// That branches were forgotten.
    Forgets,
    /// The plan.
    Plan,
    /// All plans but the first.
    NewerPlans,
    /// The identity of the shard.
    Identity,
    /// The directory of shards.
    Directory,
    /// Seals.
    Seals,
    /// That seals were broken.
    Unseals,
    /// Retirements.
    Retirements,
    /// What was imported.
    Imports,
    /// The last part of an import.
    LastParts,
    /// That a log had not arrived as a whole.
    Wholeness,
    /// The order of branches that were imported.
    OrderOfImportedBranches,
    /// Who acquired a fence.
    Holders,
    /// Marks of what was deleted or forgotten.
    Marks,
    /// That a new plan cleared the marks.
    ClearedMarks,
}

impl Loss {
    /// Each with the case about durability that is sure to notice it.
    pub(crate) const ALL: [(Self, &'static str); 23] = [
        (Self::LastAppend, "the_last_append_survives"),
        (Self::HalfAppends, "logs_survive_with_every_event"),
        (Self::TerminalMarks, "closed_stays_closed"),
        (Self::Times, "listings_survive"),
        (Self::Deletes, "deleted_stays_deleted"),
        (Self::Fences, "fences_survive"),
        (
            Self::FencesOfAppends,
            "a_fence_that_an_append_brought_survives",
        ),
        (Self::OrderOfBranches, "lineage_survives_in_its_order"),
        (Self::Forgets, "what_was_forgotten_stays_forgotten"),
        (Self::Plan, "the_plan_survives_and_still_guards_the_store"),
        (
            Self::NewerPlans,
            "the_plan_survives_and_still_guards_the_store",
        ),
        (Self::Identity, "identity_and_directory_survive"),
        (Self::Directory, "identity_and_directory_survive"),
        (Self::Seals, "sealed_stays_sealed"),
        (Self::Unseals, "unsealed_stays_unsealed"),
        (Self::Retirements, "retired_stays_retired"),
        (Self::Imports, "what_arrived_survives"),
        (
            Self::LastParts,
            "a_move_goes_on_after_a_restart_at_any_step",
        ),
        (Self::Wholeness, "what_arrived_in_parts_is_never_half_there"),
        (
            Self::OrderOfImportedBranches,
            "the_order_of_merged_branches_survives",
        ),
        (Self::Holders, "the_holder_of_a_fence_survives"),
        (Self::Marks, "marks_survive"),
        (Self::ClearedMarks, "cleared_marks_stay_cleared"),
    ];
}

/// What was done to a store.
#[derive(Clone, Debug)]
pub(crate) enum Done {
    Append(Append),
    Delete(Delete),
    Acquire(AcquireFence, FenceToken),
    Record(RecordLineage),
    Forget(Forget),
    Publish(Publish),
    Initialize(ShardIdentity),
    Locations(Vec<ShardLocation>),
    Seal(Seal),
    Unseal(Unseal),
    Retire(Retire),
    Import(Import),
}

/// Takes from a tape what is lost.
pub(crate) fn lose(loss: Loss, tape: &mut Vec<Done>) {
    let mut plans = 0;
    let last = tape
        .iter()
        .rposition(|done| matches!(done, Done::Append(_)))
        .filter(|_| loss == Loss::LastAppend);
    if let Some(last) = last {
        tape.remove(last);
    }
    tape.retain_mut(|done| match (loss, done) {
        (Loss::HalfAppends, Done::Append(append)) => {
            append.events.truncate(1);
            // What does not fit any more was lost with the rest.
            append.expected == 0
        }
        (Loss::TerminalMarks, Done::Append(append)) => {
            for event in &mut append.events {
                event.terminal = false;
            }
            true
        }
        (Loss::Times, Done::Append(append)) => {
            for event in &mut append.events {
                event.recorded_at = loom_spi::Timestamp::from_millis(0);
            }
            true
        }
        (Loss::FencesOfAppends, Done::Append(append)) => {
            append.fence = None;
            true
        }
        (Loss::Deletes, Done::Delete(_))
        | (Loss::Fences, Done::Acquire(..))
        | (Loss::Forgets, Done::Forget(_))
        | (Loss::Plan, Done::Publish(_))
        | (Loss::Identity, Done::Initialize(_))
        | (Loss::Directory, Done::Locations(_))
        | (Loss::Seals, Done::Seal(_))
        | (Loss::Unseals, Done::Unseal(_))
        | (Loss::Retirements, Done::Retire(_))
        | (Loss::Imports, Done::Import(_)) => false,
        (Loss::LastParts, Done::Import(import)) => import.next_sequence() < import.sealed.events(),
        (Loss::Wholeness, Done::Import(import)) => {
            let (next, last) = (import.next_sequence(), import.events.last());
            if let (Some(head), Some(last)) = (&mut import.sealed.head, last) {
                (head.next_sequence, head.updated_at) = (next, last.recorded_at);
            }
            true
        }
        (Loss::OrderOfImportedBranches, Done::Import(import)) => {
            let branches = &mut import.sealed.branches;
            branches.sort_by(|a, b| a.child.cmp(&b.child));
            true
        }
        (Loss::Holders, Done::Acquire(request, _)) => {
            (request.holder, request.lease) = (None, None);
            true
        }
        (Loss::Marks, Done::Delete(request)) => {
            request.mark = false;
            true
        }
        (Loss::Marks, Done::Forget(request)) => {
            request.mark = false;
            true
        }
        (Loss::NewerPlans, Done::Publish(_)) => {
            plans += 1;
            plans == 1
        }
        _ => true,
    });
    if loss == Loss::OrderOfBranches {
        tape.reverse();
    }
    if loss == Loss::ClearedMarks {
        // As if what was deleted before the plan were only marked now.
        tape.sort_by_key(|done| matches!(done, Done::Delete(_)));
    }
    if loss == Loss::Deletes {
        // Without the deletions, what was created anew is still the old one.
        let mut known = std::collections::BTreeSet::new();
        tape.retain(|done| match done {
            Done::Append(append) => append.expected > 0 || known.insert(append.id.clone()),
            _ => true,
        });
    }
}
