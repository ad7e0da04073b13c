//! What can be wrong with a store.

use loom_spi::Operation;

use super::fault_moves::with_faults_of_moves;

/// Declares the faults, each with the case that is sure to notice it.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident => $group:literal $case:literal,)+) => {
        /// Something that is wrong with a [`Mutant`](super::Mutant).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Fault {
            $($(#[doc = $doc])+ $fault,)+
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)+];

            /// The group and the name of a case that fails for a store with this fault. Others may fail too.
            #[must_use]
            pub fn caught_by(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$fault => ($group, $case),)+
                }
            }
        }
    };
}

with_faults_of_moves! { faults! {
    // Appending.
    /// An append may expect one event fewer than there are.
    ExpectedOffByOne => "append" "expecting_too_little_is_a_conflict_that_names_both_lengths",
    /// An append goes to the end whatever it expects.
    ExpectedIgnored => "append" "the_same_append_again_is_a_conflict_and_not_a_second_copy",
    /// An append may expect more events than there are.
    GapsClosed => "append" "expecting_too_much_is_a_conflict_that_names_both_lengths",
    /// Creating an execution replaces the one that is there.
    CreationOverwrites => "append" "creating_what_exists_is_a_conflict",
    /// Events are stored one by one, until one is refused.
    OneByOne => "limits" "one_bad_event_refuses_the_whole_append",
    /// An append without events succeeds.
    EmptyAccepted => "append" "an_append_without_events_is_refused",
    /// An append returns the sequence that it expected.
    NextSequenceWrong => "append" "an_append_returns_the_sequence_that_comes_next",
    /// The events of an append are stored in the opposite order.
    EventsReversed => "append" "events_get_contiguous_sequences_in_the_order_given",
    /// The store stamps events with its own clock.
    TimeRewritten => "append" "the_time_of_an_event_is_never_rewritten",
    /// Payloads pass through text.
    PayloadAsText => "append" "events_come_back_exactly_as_they_were_given",
    /// Kinds are folded to lower case.
    KindFolded => "append" "events_come_back_exactly_as_they_were_given",
    /// Kinds are cut off at 64 bytes.
    KindTruncated => "limits" "a_kind_has_one_byte_up_to_the_limit",
    /// Events are accepted after a terminal one.
    OpenAfterTerminal => "terminal" "nothing_is_appended_after_a_terminal_event",
    /// A closed execution answers with a sequence conflict.
    ClosedIsConflict => "terminal" "closed_is_reported_before_a_wrong_length",
    /// A conflict does not say how long the log is.
    ConflictWithoutLength => "append" "creating_what_exists_is_a_conflict",

    // Reading.
    /// A page has one event more than asked for.
    ReadOverLimit => "read" "a_page_has_at_most_as_many_events_as_asked_for",
    /// A read starts one event late.
    ReadStartsLate => "read" "a_read_starts_where_it_was_asked_to",
    /// Pages of fewer than three events are empty.
    ReadEmptyPages => "read" "a_page_is_never_empty_while_there_are_events",
    /// A limit of 0 is taken for 1.
    ReadLimitZero => "read" "a_limit_of_zero_is_refused",
    /// Reading past the end is not found.
    ReadPastEndNotFound => "read" "reading_at_or_past_the_end_is_an_empty_page",
    /// The head of a page tells the length up to the end of the page.
    ReadHeadOfPage => "read" "a_page_carries_the_state_of_the_whole_log",
    /// A log is read as it was when it was first read.
    ReadStale => "read" "what_was_acknowledged_is_there_to_be_read",
    /// Events lose their terminal mark.
    TerminalMarkLost => "terminal" "the_last_event_of_an_append_can_be_terminal",
    /// A head stays as it was when it was first looked at.
    HeadCached => "head" "a_head_follows_every_append",
    /// The creation time of a head is that of the last event.
    HeadCreatedMoves => "head" "a_head_has_the_times_of_the_first_and_the_last_event",
    /// A head never says that its log is closed.
    HeadNeverCloses => "head" "a_terminal_event_closes_the_head",
    /// What does not exist is called unavailable.
    AbsentIsUnavailable => "read" "reading_what_does_not_exist_is_not_found",
    /// What cannot be reached is called absent.
    OutageIsAbsent => "errors" "what_cannot_be_reached_is_not_called_absent",
    /// Branches that cannot be reached are called none.
    OutageHasNoBranches => "errors" "capabilities_that_cannot_be_reached_say_so",

    /// What may have happened is said not to have happened.
    OutcomeClaimedKnown => "errors" "an_append_that_was_cut_off_says_whether_it_happened",

    // Listing.
    /// Executions are listed in the order of their ids.
    ListInIdOrder => "list" "every_execution_is_listed_once_in_list_order",
    /// The lengths in a listing are 1.
    ListHeadsWrong => "list" "a_listing_tells_the_state_of_each_log",
    /// The state that was asked for is ignored.
    ListStateIgnored => "list" "only_open_or_only_closed_executions_can_be_listed",
    /// An execution that was only fenced is listed.
    ListsFencesAlone => "list" "a_fence_or_an_edge_without_a_log_is_not_listed",
    /// A limit of 0 is taken for 1.
    ListLimitZero => "list" "a_limit_of_zero_is_refused",
    /// A page has one execution more than asked for.
    ListOverLimit => "pages" "pages_of_every_size_join_to_the_same_listing",
    /// The cursor of a page skips an execution.
    ListCursorSkips => "pages" "pages_of_every_size_join_to_the_same_listing",
    /// A page begins with the last execution of the page before.
    ListCursorRepeats => "pages" "pages_of_every_size_join_to_the_same_listing",
    /// A cursor is a number of rows.
    ListByOffset => "pages" "what_comes_and_goes_between_pages_hides_nothing_else",
    /// A cursor ends the listing when its execution is gone.
    ListCursorNeedsItsRow => "pages" "a_listing_goes_on_after_an_execution_that_was_deleted",
    /// Every page is the last one.
    ListEndsEarly => "pages" "pages_of_every_size_join_to_the_same_listing",
    /// No page is the last one.
    ListNeverEnds => "pages" "after_the_last_execution_there_is_nothing",
    /// Filters by an odd modulus lose rows.
    RouteLosesOddModuli => "routes" "the_residues_of_an_odd_modulus_share_out_all_executions",
    /// Index keys are compared as unsigned numbers.
    RouteUnsigned => "routes" "modulus_one_selects_everything",
    /// The range of a filter lacks its last key.
    RouteEndExclusive => "routes" "the_largest_moduli_select_single_hashes",
    /// The range of a filter lacks its first key.
    RouteStartExclusive => "routes" "the_largest_moduli_select_single_hashes",
    /// A filter selects its whole range.
    RouteUnchecked => "routes" "the_residues_of_an_even_modulus_share_out_all_executions",
    /// A filter holds for the first page only.
    RouteForgottenByCursor => "routes" "a_filtered_listing_can_be_paged",
    /// A cursor, a filter and a state together lose the first row.
    ListCombinationLosesARow => "fuzz" "random_operations_on_logs_match_the_model",

    // Deleting.
    /// The expected length is ignored.
    DeleteIgnoresExpected => "delete" "a_delete_that_expects_another_length_is_a_conflict",
    /// Deleting what does not exist succeeds.
    DeleteAbsentSucceeds => "delete" "deleting_what_does_not_exist_is_not_found",
    /// A delete says that it removed nothing.
    DeleteCountsNothing => "delete" "a_delete_counts_the_events_it_removed",
    /// Whatever begins with the id is deleted.
    DeleteByPrefix => "delete" "a_delete_touches_no_other_execution",
    /// A closed execution cannot be deleted.
    DeleteRefusesClosed => "delete" "a_closed_execution_can_be_deleted",
    /// The fence goes with the log.
    DeleteForgetsFence => "fencing" "a_fence_outlives_deletion",
    /// The lineage goes with the log.
    DeleteForgetsLineage => "capabilities" "deleting_a_log_keeps_the_lineage",

    // Ids.
    /// Ids are folded to lower case.
    IdsFolded => "identifiers" "ids_that_look_alike_are_different_executions",
    /// Spaces at the end of ids are cut off.
    IdsTrimmed => "identifiers" "ids_that_look_alike_are_different_executions",
    /// Ids are cut off after 64 bytes.
    IdsTruncated => "identifiers" "ids_of_every_length_are_kept",
    /// Characters beyond ASCII are replaced.
    IdsAscii => "identifiers" "ids_of_any_script_are_kept",

    // Limits and capabilities.
    /// The stated limits are twice the real ones.
    LimitsOverstated => "limits" "a_payload_has_up_to_the_limit_of_bytes",
    /// The stated limits are half the real ones.
    LimitsUnderstated => "limits" "an_append_has_up_to_the_limit_of_events",
    /// The largest payload does not fit into an append.
    LimitsContradict => "capabilities" "limits_leave_room_for_an_event",
    /// Capabilities are gone after the first append.
    CapabilitiesVanish => "capabilities" "capabilities_stay_the_same",

    // Fencing.
    /// Any token is good.
    TokenIgnored => "fencing" "an_older_token_is_refused",
    /// No token is as good as the right one.
    TokenOptional => "fencing" "an_append_without_a_token_is_refused_once_fenced",
    /// A token is handed out again.
    TokenHandedOutTwice => "fencing" "each_token_is_greater_than_the_one_before",
    /// A higher token in an append is not remembered.
    HigherTokenForgotten => "fencing" "a_higher_token_is_accepted_and_remembered",
    /// Closed is reported before fenced.
    ClosedBeforeFenced => "fencing" "fenced_is_reported_before_closed_and_wrong_length",
    /// The floor is ignored.
    FloorIgnored => "acquisitions" "a_floor_is_reached",
    /// The required record is not asked for.
    RequireIgnored => "acquisitions" "a_required_record_has_to_exist",
    /// Tokens are handed out, and the store does not know them.
    FencingUnwired => "capabilities" "a_fence_guards_the_store_that_handed_it_out",
    /// Two who acquire at once get the same token.
    AcquireNotAtomic => "fence_races" "racing_acquirers_get_different_tokens",

    // Leases.
    /// A lease keeps nobody waiting.
    LeaseIgnored => "leases" "a_lease_keeps_other_holders_waiting",
    /// A lease keeps its own holder waiting.
    LeaseRefusesItsHolder => "leases" "the_holder_of_a_lease_may_acquire_again",
    /// Whoever gives no name does not wait.
    LeaseIgnoredByTheNameless => "leases" "one_who_gives_no_name_waits_as_well",
    /// A lease cannot be taken over.
    TakeOverRefused => "leases" "a_lease_can_be_taken_over_on_purpose",
    /// A lease is renewed whatever the token.
    RenewIgnoresToken => "leases" "a_lease_is_renewed_and_released_by_its_token",
    /// A lease is released whatever the token.
    ReleaseIgnoresToken => "leases" "a_lease_is_renewed_and_released_by_its_token",
    /// A renewal changes nothing.
    RenewDoesNothing => "leases" "a_renewed_lease_runs_from_the_renewal",
    /// A release changes nothing.
    ReleaseDoesNothing => "leases" "a_released_lease_keeps_nobody_waiting",
    /// A lease runs for far too long.
    LeaseNeverLapses => "leases" "a_lease_lapses_by_the_clock_of_the_store",
    /// Two who ask for a lease at once both get it.
    LeaseNotAtomic => "fence_races" "of_racing_holders_one_gets_the_lease",

    // The ledger.
    /// A plan is published whatever is expected.
    PublishWithoutCompare => "ledger" "publishing_over_an_unexpected_plan_is_a_conflict",
    /// The plan is compared in one step and set in another.
    PublishNotAtomic => "ledger" "of_racing_publishers_one_wins",
    /// Publishing again what is current is a conflict.
    PublishAgainRefused => "ledger" "publishing_the_current_plan_again_changes_nothing",
    /// Publishing an older plan succeeds.
    PublishOlderAccepted => "ledger" "a_plan_that_is_not_newer_is_refused",
    /// Plans pass through text.
    PlanAsText => "ledger" "a_published_plan_comes_back_as_it_was_given",
    /// Fingerprints are cut off after 64 bits.
    FingerprintTruncated => "ledger" "a_published_plan_comes_back_as_it_was_given",
    /// Becoming another shard succeeds.
    IdentityUnchecked => "ledger" "an_identity_is_given_once_for_all",
    /// New locations replace the whole directory.
    DirectoryReplaced => "ledger" "locations_are_added_and_replaced_by_shard",

    // Epochs.
    /// Appends are served under any plan.
    EpochIgnoredByAppend => "epochs" "the_event_store_refuses_an_older_plan",
    /// Reads are served under any plan.
    EpochIgnoredByRead => "epochs" "the_event_store_refuses_an_older_plan",
    /// Heads are served under any plan.
    EpochIgnoredByHead => "epochs" "the_event_store_refuses_an_older_plan",
    /// Listings are served under any plan.
    EpochIgnoredByList => "epochs" "the_event_store_refuses_an_older_plan",
    /// Deletes are served under any plan.
    EpochIgnoredByDelete => "epochs" "the_event_store_refuses_an_older_plan",
    /// Acquisitions are served under any plan.
    EpochIgnoredByAcquire => "epochs" "fencing_refuses_an_older_plan",
    /// Renewals are served under any plan.
    EpochIgnoredByRenew => "epochs" "fencing_refuses_an_older_plan",
    /// Releases are served under any plan.
    EpochIgnoredByRelease => "epochs" "fencing_refuses_a_newer_plan",
    /// Edges are recorded under any plan.
    EpochIgnoredByLineage => "epochs" "lineage_refuses_an_older_plan",
    /// Branches are listed under any plan.
    EpochIgnoredByChildren => "epochs" "lineage_refuses_an_older_plan",
    /// Parents are looked up under any plan.
    EpochIgnoredByParent => "epochs" "lineage_refuses_a_newer_plan",
    /// Branches are forgotten under any plan.
    EpochIgnoredByForget => "epochs" "lineage_refuses_another_plan_of_the_same_epoch",
    /// Any plan of the current epoch is as good as the current one.
    FingerprintIgnored => "epochs" "the_event_store_refuses_another_plan_of_the_same_epoch",
    /// Requests of a newer plan are served.
    NewerPlanServed => "epochs" "the_event_store_refuses_a_newer_plan",
    /// Requests outside a plan are served for ever.
    UnplannedServed => "epochs" "requests_outside_a_plan_are_refused_from_epoch_2_on",
    /// Requests outside a plan are refused as soon as there is one.
    UnplannedRefused => "epochs" "requests_outside_a_plan_are_served_under_epoch_1",
    /// What does not exist is absent under any plan.
    AbsentUnderAnyPlan => "epochs" "the_epoch_is_judged_before_anything_stored",
    /// The plan is checked in one step, the operation done in another.
    EpochNotAtomic => "epoch_races" "no_append_of_an_older_plan_lands_after_the_newer_one_was_published",

    // Lineage.
    /// Branches are listed in the order of their ids.
    ChildrenSorted => "branches" "children_come_in_the_order_recorded",
    /// Only a hundred branches are listed.
    ChildrenFirstPage => "branches" "many_branches_are_listed_completely",
    /// Recording an edge again is a conflict.
    EdgeNotIdempotent => "branches" "recording_an_edge_again_changes_nothing",
    /// Another parent is accepted in silence.
    SecondParentAccepted => "branches" "an_execution_has_at_most_one_parent",
    /// Another label is accepted in silence.
    SecondLabelAccepted => "branches" "an_edge_has_one_label",
    /// Labels are lost.
    LabelLost => "branches" "an_edge_is_seen_from_both_ends",
    /// Labels that are too long are cut off.
    LabelTruncated => "branches" "a_label_has_at_most_255_bytes",
    /// An execution may be a branch of itself.
    OwnBranchAccepted => "branches" "an_execution_is_no_branch_of_itself",
    /// Forgetting changes nothing.
    ForgetDoesNothing => "forgetting" "a_forgotten_branch_can_be_recorded_elsewhere",
    /// Forgetting removes the edges from the parent only.
    ForgetKeepsParents => "forgetting" "forgetting_removes_the_edges_from_both_ends",
    /// Forgetting says that there was nothing.
    ForgetCountsNothing => "forgetting" "forgetting_removes_the_edges_from_both_ends",
    /// Edges are kept apart from the records.
    LineageUnwired => "capabilities" "an_edge_is_part_of_the_record_of_its_parent",
    /// Of two parents that record a branch at once, both hear that they have it.
    LineageNotAtomic => "branch_races" "of_racing_parents_one_wins",

    // Concurrency and cancellation.
    /// The length is checked in one step, the events are stored in another.
    AppendNotAtomic => "concurrency" "of_racing_creators_one_wins",
    /// The length is checked in one step, the log is deleted in another.
    DeleteNotAtomic => "churn" "a_conditional_delete_and_an_append_do_not_both_happen",
    /// Events are stored one by one, and a reader may come between.
    HalfVisible => "concurrency" "a_reader_never_sees_a_gap_or_half_an_append",
    /// An append that is dropped half way has stored half of its events.
    TornByDrop => "cancellation" "a_dropped_append_is_whole_or_absent",

    // Errors.
    /// Errors do not name the execution.
    ErrorsWithoutExecution => "errors" "a_refused_append_is_named_in_full",
    /// Errors name another operation.
    ErrorsOfAnotherOperation => "errors" "a_refused_read_or_delete_is_named_in_full",
}}

impl Fault {
    /// The operation that ignores its epoch.
    pub(super) fn ignores_epoch_of(self) -> Option<Operation> {
        Some(match self {
            Self::EpochIgnoredByAppend => Operation::Append,
            Self::EpochIgnoredByRead => Operation::Read,
            Self::EpochIgnoredByHead => Operation::Head,
            Self::EpochIgnoredByList => Operation::List,
            Self::EpochIgnoredByDelete => Operation::Delete,
            Self::EpochIgnoredByAcquire => Operation::AcquireFence,
            Self::EpochIgnoredByRenew => Operation::RenewLease,
            Self::EpochIgnoredByRelease => Operation::ReleaseLease,
            Self::EpochIgnoredByLineage => Operation::RecordLineage,
            Self::EpochIgnoredByChildren => Operation::Children,
            Self::EpochIgnoredByParent => Operation::Parent,
            Self::EpochIgnoredByForget => Operation::Forget,
            Self::EpochIgnoredByInspect => Operation::Inspect,
            Self::EpochIgnoredBySeal => Operation::Seal,
            Self::EpochIgnoredByImport => Operation::Import,
            Self::EpochIgnoredByRetire => Operation::Retire,
            Self::EpochIgnoredByUnseal => Operation::Unseal,
            Self::EpochIgnoredByRecords => Operation::Records,
            _ => return None,
        })
    }

    /// The operation that changes sealed records.
    pub(super) fn ignores_seal_of(self) -> Option<Operation> {
        Some(match self {
            Self::SealIgnoredByAppend => Operation::Append,
            Self::SealIgnoredByDelete => Operation::Delete,
            Self::SealIgnoredByAcquire => Operation::AcquireFence,
            Self::SealIgnoredByRenew => Operation::RenewLease,
            Self::SealIgnoredByRelease => Operation::ReleaseLease,
            Self::SealIgnoredByLineage => Operation::RecordLineage,
            Self::SealIgnoredByForget => Operation::Forget,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_caught_by_a_case_that_exists() {
        let cases = crate::cases();
        for fault in Fault::ALL {
            let (group, name) = fault.caught_by();
            let exists = cases
                .iter()
                .any(|case| (case.group(), case.name()) == (group, name));
            assert!(
                exists,
                "{fault:?} is caught by {group}::{name}, which does not exist"
            );
        }
    }
}
