//! Which scenario needs which rule.

use crate::rule::Rule;

/// What is known of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Without it this scenario goes wrong.
    Needed(&'static str),
    /// Without it nothing goes wrong while another rule holds. Without both this scenario does.
    Spare {
        /// The other rule.
        beside: Rule,
        /// The scenario, in which nothing goes wrong without the other one alone.
        scenario: &'static str,
    },
    /// Without it nothing goes wrong while the other rules hold, for this reason.
    Defence(&'static str),
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// What is known of it.
    pub verdict: Verdict,
}

const fn needed(rule: Rule, scenario: &'static str) -> Finding {
    let verdict = Verdict::Needed(scenario);
    Finding { rule, verdict }
}

const fn spare(rule: Rule, beside: Rule, scenario: &'static str) -> Finding {
    let verdict = Verdict::Spare { beside, scenario };
    Finding { rule, verdict }
}

const fn defence(rule: Rule, why: &'static str) -> Finding {
    let verdict = Verdict::Defence(why);
    Finding { rule, verdict }
}

/// The table: at least one line for each rule.
pub const TABLE: &[Finding] = &[
    needed(Rule::LookDestinationAgain, "absence"),
    needed(Rule::UnsealedBeatsSealed, "leftover-on-destination"),
    needed(Rule::SealedCountsAlone, "begun-then-reverted"),
    needed(Rule::BothSealedLookAgain, "leftover-on-destination"),
    needed(Rule::CreationNeverOnSource, "cached-delete-and-create"),
    needed(Rule::SourceRefusesCreation, "late-helper"),
    needed(Rule::FenceOnlyRecordMovesFirst, "fence-before-creation"),
    needed(Rule::AcquireRequiresExisting, "cached-acquire-after-delete"),
    needed(Rule::LineageRequiresExisting, "lineage-while-moving"),
    needed(Rule::AcquireAsksSource, "fence-before-creation-settle"),
    needed(Rule::LineageBringsRecord, "lineage-forgotten"),
    needed(Rule::FenceTravels, "cached-acquire"),
    needed(Rule::LineageTravels, "lineage-while-moving"),
    needed(Rule::SealBeforeRead, "cached-read-and-append"),
    needed(Rule::ImportBeforeRetire, "cached-read-and-append"),
    needed(Rule::LeftoverRemovedFirst, "leftover-turned-again"),
    needed(Rule::RetireOnlySealed, "leftover-on-destination"),
    needed(Rule::SealRefusesAppends, "cached-read-and-append"),
    needed(Rule::SealRefusesDeletes, "cached-delete-and-create"),
    needed(Rule::SealRefusesFences, "two-fencers"),
    needed(Rule::SealRefusesLineage, "lineage-while-moving"),
    needed(Rule::SealRefusesForget, "lineage-forgotten"),
    needed(Rule::ImportAtomic, "late-helper-append"),
    needed(Rule::ImportKeepsWhatIsThere, "late-helper-append"),
    needed(Rule::ImportMerges, "leftover-fence-on-destination"),
    needed(Rule::ImportMerges, "lineage-forgotten"),
    defence(
        Rule::ImportRefusesSealed,
        "a leftover is removed before the source is sealed, so that no import meets one",
    ),
    needed(Rule::DeleteKeepsFence, "two-fencers"),
    needed(
        Rule::DeleteRetiresLeftoverFirst,
        "leftover-deleted-and-created",
    ),
    needed(Rule::DeleteLeavesMark, "late-helper"),
    needed(Rule::ForgetRetiresLeftoverFirst, "lineage-turned"),
    needed(Rule::ForgetLeavesMark, "lineage-forgotten"),
    needed(Rule::ImportRefusesMarked, "delete-at-any-time"),
    needed(Rule::MarkEndsWithPlan, "delete-then-return"),
    needed(Rule::HelperFinishesMove, "cached-read-and-append"),
    needed(Rule::UnsealReverted, "begun-then-reverted"),
    needed(Rule::UnsealSettled, "settled-while-sealed"),
    needed(Rule::CacheRechecked, "cached-read-and-append"),
    needed(Rule::CacheDropped, "cache-of-a-shard-that-left"),
    needed(Rule::AbsenceNeverCached, "absence-is-not-remembered"),
    needed(Rule::SourceDoubtedOnce, "absence"),
    needed(Rule::EpochChecked, "half-published-settle"),
    needed(Rule::EpochCheckedWithOperation, "half-published-settle"),
    needed(Rule::UnplannedRefused, "epoch-zero"),
    needed(Rule::RestartWhole, "half-published-settle"),
    needed(Rule::RestartWhole, "list-while-turning"),
    needed(Rule::AdoptAnyHigher, "sleeper-over-revert"),
    needed(Rule::RaiseBehind, "half-published-revert"),
    needed(Rule::SourcesFirst, "list-while-moving"),
    needed(Rule::ListTakesCounting, "list-with-leftover"),
    spare(
        Rule::ListRoles,
        Rule::PublisherChecksDrained,
        "list-after-settle",
    ),
    needed(Rule::ChildrenSourceFirst, "lineage-while-moving"),
    needed(Rule::CompleteFirst, "half-published-revert"),
    needed(Rule::PublisherValidates, "stale-publisher"),
    needed(Rule::PublisherChecksDrained, "settle-against-revert"),
    spare(
        Rule::DrainCheckUnderEpoch,
        Rule::CompleteFirst,
        "half-published-drain",
    ),
    needed(Rule::RecordsCount, "fence-before-creation-settle"),
    needed(Rule::CompareAndSet, "rivals-for-destinations"),
    needed(Rule::RepublishChangesNothing, "lost-publication-and-mark"),
    needed(Rule::PlansOnlyRise, "lost-publication"),
    needed(
        Rule::DecideOnLowestOfPresent,
        "rivals-for-destinations-higher",
    ),
    needed(Rule::JoinUnderPresent, "left-without-being-told"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_each_rule_in_their_order() {
        let mut rules: Vec<Rule> = TABLE.iter().map(|finding| finding.rule).collect();
        rules.dedup();
        assert_eq!(rules, Rule::ALL);
    }
}
