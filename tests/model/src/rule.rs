//! The rules of the protocol, each of which can be switched off.

use std::fmt;

macro_rules! rules {
    ($($variant:ident $name:literal $statement:literal)+) => {
        /// A rule of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "`statement` says what each is")]
        pub enum Rule {
            $($variant,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What it says, in a sentence.
            #[must_use]
            pub fn statement(self) -> &'static str {
                match self {
                    $(Self::$variant => $statement,)+
                }
            }
        }
    };
}

rules! {
    LookDestinationAgain "look-destination-again"
        "An execution that is on neither side is looked for on the destination a second time."
    UnsealedBeatsSealed "unsealed-beats-sealed"
        "A sealed copy counts only where there is no other, whichever side it is on."
    SealedCountsAlone "sealed-counts-alone"
        "A sealed copy counts where there is no other: a move that was cut off hides nothing."
    BothSealedLookAgain "both-sealed-look-again"
        "Both sides are never sealed at once: who saw them so saw two moments, and looks again."
    CreationNeverOnSource "creation-never-on-source"
        "An execution is created on the destination, whatever the cache says."
    SourceRefusesCreation "source-refuses-creation"
        "A log on the source means that the execution exists."
    FenceOnlyRecordMovesFirst "fence-only-record-moves-first"
        "A record without a log moves to the destination before the execution is created there."
    AcquireRequiresExisting "acquire-requires-existing"
        "A fence is acquired on a side that was found only if an unsealed record is still there."
    LineageRequiresExisting "lineage-requires-existing"
        "An edge is recorded on a side that was found only if an unsealed record is still there."
    AcquireAsksSource "acquire-asks-source"
        "Without a log, a fence is acquired on the source if a record is there."
    LineageBringsRecord "lineage-brings-record"
        "Without a log, a record moves to the destination before an edge is recorded there."
    FenceTravels "fence-travels-as-floor"
        "A moved record brings its highest token along."
    LineageTravels "lineage-travels"
        "A moved record brings its edges along."
    SealBeforeRead "seal-before-read"
        "A record is sealed before it is read in order to be moved."
    ImportBeforeRetire "import-before-retire"
        "A record is retired on the source once it is on the destination, and not before."
    LeftoverRemovedFirst "leftover-removed-before-sealing"
        "A sealed leftover on the destination is removed before the record on the source is sealed."
    RetireOnlySealed "retire-only-sealed"
        "Only a sealed record is retired."
    SealRefusesAppends "seal-refuses-appends"
        "A sealed record takes no append."
    SealRefusesDeletes "seal-refuses-deletes"
        "A sealed record is not deleted."
    SealRefusesFences "seal-refuses-fences"
        "A sealed record hands out no token."
    SealRefusesLineage "seal-refuses-lineage"
        "A sealed record takes no edge."
    SealRefusesForget "seal-refuses-forget"
        "The edges of a sealed record are not forgotten."
    ImportAtomic "import-atomic"
        "An imported record becomes visible in one step."
    ImportKeepsWhatIsThere "import-keeps-what-is-there"
        "An import changes nothing where a log is that starts with the imported one."
    ImportMerges "import-merges"
        "An import into a record without a log keeps its token, if that is higher, and its edges."
    ImportRefusesSealed "import-refuses-sealed"
        "Nothing is imported into a sealed record."
    DeleteKeepsFence "delete-keeps-fence"
        "A delete removes the log and keeps the fence."
    DeleteRetiresLeftoverFirst "delete-retires-leftover-first"
        "A sealed leftover on the other side is retired before the copy that counts is deleted."
    DeleteLeavesMark "delete-leaves-mark"
        "A delete in a migrating bucket leaves a mark."
    ForgetRetiresLeftoverFirst "forget-retires-leftover-first"
        "A sealed leftover on the other side is retired before edges are forgotten."
    ForgetLeavesMark "forget-leaves-mark"
        "Forgetting edges in a migrating bucket leaves a mark."
    ImportRefusesMarked "import-refuses-marked"
        "An execution that is marked is not imported."
    MarkEndsWithPlan "mark-ends-with-plan"
        "A mark is gone when the shard's plan changes."
    HelperFinishesMove "helper-finishes-move"
        "Whoever wants to change a record that is sealed on the source finishes its move first."
    UnsealReverted "unseal-on-reverted"
        "A record that is sealed on the destination and nowhere else is unsealed."
    UnsealSettled "unseal-in-settled-bucket"
        "A record that is sealed in a settled bucket is unsealed."
    CacheRechecked "cache-rechecked"
        "Not found, sealed or a conflict through the cache is not believed."
    CacheDropped "cache-dropped-on-plan-change"
        "A change of placement drops what is cached of it."
    AbsenceNeverCached "absence-never-cached"
        "That an execution is nowhere is not cached."
    SourceDoubtedOnce "source-doubted-once"
        "Not found or a conflict on a source that was just found is believed the second time."
    EpochChecked "epoch-checked"
        "A shard serves exactly its own plan."
    EpochCheckedWithOperation "epoch-checked-with-operation"
        "The plan is checked in the transaction of the operation."
    UnplannedRefused "epoch-0-refused-from-2"
        "A request outside a plan is refused from epoch 2 on."
    RestartWhole "restart-whole-operation"
        "An operation that meets a newer plan starts again from resolution."
    AdoptAnyHigher "adopt-any-higher"
        "A node takes any plan of a higher epoch that a shard has, whatever it follows."
    RaiseBehind "raise-behind"
        "A node gives its plan to a shard that is behind."
    SourcesFirst "sources-before-destinations"
        "A listing reads all sources and then all destinations."
    ListTakesCounting "list-takes-counting-copy"
        "Where a listing meets two copies, the one that counts gives the state."
    ListRoles "list-counts-by-role"
        "A listing counts an entry in the role only that the plan gives its shard."
    ChildrenSourceFirst "children-source-first"
        "The edges of a parent are read on both sides, the source first."
    CompleteFirst "complete-before-validate"
        "The present plan is on all its shards before the next is validated."
    PublisherValidates "publisher-validates"
        "A plan is published only if it may follow the present one."
    PublisherChecksDrained "publisher-checks-drained"
        "A bucket is settled only if nothing is left on its source."
    DrainCheckUnderEpoch "drain-check-under-e"
        "Whether a bucket is drained is asked by requests of the present epoch."
    RecordsCount "drain-counts-records"
        "A record without a log holds a bucket back as well."
    CompareAndSet "compare-and-set"
        "The deciding shard takes a plan only in the place of the one that the publisher followed."
    RepublishChangesNothing "republishing-changes-nothing"
        "Publishing the plan that a shard has succeeds and changes nothing there: its marks stay."
    PlansOnlyRise "plans-only-rise"
        "Every other shard takes a decided plan only if it is higher than its own."
    DecideOnLowestOfPresent "decide-on-lowest-of-e"
        "The deciding shard is the lowest of the present plan."
    JoinUnderPresent "joining-shard-gets-present-plan"
        "A shard that joins is given the present plan before the next is decided."
}

impl Rule {
    /// The rule of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Which rules hold.
#[derive(Clone, Copy, Debug)]
pub struct Rules(u64);

impl Rules {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self(u64::MAX)
    }

    /// All of these but one.
    #[must_use]
    pub fn without(self, rule: Rule) -> Self {
        Self(self.0 & !bit(rule))
    }

    pub(crate) fn has(self, rule: Rule) -> bool {
        self.0 & bit(rule) != 0
    }
}

fn bit(rule: Rule) -> u64 {
    1 << (rule as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_bit_and_a_name_of_its_own() {
        assert!(Rule::ALL.len() <= 64);
        for rule in Rule::ALL {
            assert_eq!(Rule::named(rule.name()), Some(*rule));
            let others = Rules::all().without(*rule);
            for other in Rule::ALL {
                assert_eq!(others.has(*other), other != rule);
            }
        }
    }
}
