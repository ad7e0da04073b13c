//! What can be wrong with moving records.

/// Adds the faults about moving records to others.
macro_rules! with_faults_of_moves {
    ($declare:ident! { $($others:tt)* }) => {
        $declare! {
            $($others)*

            /// Relocation works on records of its own.
            RelocationUnwired => "capabilities" "what_is_imported_is_there_for_the_store",

            // Sealing.
            /// Appends change sealed records.
            SealIgnoredByAppend => "seal_refusals" "a_sealed_record_refuses_appends",
            /// Deletes change sealed records.
            SealIgnoredByDelete => "seal_refusals" "a_sealed_record_refuses_to_be_deleted",
            /// Acquisitions change sealed records.
            SealIgnoredByAcquire => "seal_refusals" "a_sealed_record_refuses_acquisitions",
            /// Leases of sealed records are renewed.
            SealIgnoredByRenew => "seal_refusals" "a_sealed_record_refuses_renewals",
            /// Leases of sealed records are released.
            SealIgnoredByRelease => "seal_refusals" "a_sealed_record_refuses_releases",
            /// Sealed records get branches.
            SealIgnoredByLineage => "seal_refusals" "a_sealed_record_refuses_branches",
            /// Sealed records forget their branches.
            SealIgnoredByForget => "seal_refusals" "a_sealed_record_refuses_to_forget",
            /// An edge that is known is not refused for a seal.
            SealSparesKnownEdges => "seal_refusals" "a_branch_that_is_known_is_refused_all_the_same",
            /// Another lease is reported before a seal.
            SealedAfterLeased => "seal_refusals" "sealed_is_reported_before_fenced_closed_and_wrong_length",
            /// What is missing is reported before a seal.
            SealedAfterMissing => "seal_refusals" "sealed_is_reported_before_what_is_missing",
            /// A seal is reported before an invalid argument.
            SealedBeforeInvalid => "seal_refusals" "an_invalid_append_is_reported_before_sealed",
            /// A seal does not hold.
            SealDoesNothing => "capabilities" "a_seal_guards_the_store_that_offers_it",
            /// A seal says nothing of the fence.
            SealOmitsFence => "sealing" "sealing_says_what_has_to_move",
            /// A seal does not name the holder.
            SealOmitsHolder => "sealing" "a_fence_alone_can_be_sealed",
            /// A seal names whoever acquired last, whatever token came later.
            SealNamesOldHolder => "sealing" "the_holder_of_an_older_token_is_not_named",
            /// A seal tells the branches in the order of their ids.
            SealSortsBranches => "sealing" "lineage_alone_can_be_sealed",
            /// The head that a seal tells is not sealed.
            SealHeadOpen => "sealing" "a_closed_log_can_be_sealed",
            /// The second seal is refused.
            SealAgainRefused => "sealing" "sealing_again_says_the_same",
            /// The second seal tells less than the first.
            SealAgainForgets => "sealing" "sealing_again_says_the_same",
            /// Sealing nothing succeeds.
            SealOfNothingSucceeds => "sealing" "what_does_not_exist_cannot_be_sealed",
            /// What has no log cannot be sealed.
            SealNeedsALog => "sealing" "a_fence_alone_can_be_sealed",
            /// Whatever begins with the id is sealed.
            SealByPrefix => "sealing" "sealing_one_record_touches_no_other",
            /// The log is looked at in one step, and sealed in another.
            SealReadsHeadFirst => "seal_races" "an_acknowledged_append_is_in_the_sealed_head_and_a_refused_one_is_not",
            /// The fence is looked at in one step, and sealed in another.
            SealReadsFenceFirst => "seal_races" "an_acknowledged_token_is_in_the_sealed_record",
            /// The branches are looked at in one step, and sealed in another.
            SealReadsBranchesFirst => "seal_races" "an_acknowledged_branch_is_in_the_sealed_record",
            /// A seal that comes while another is being made is refused.
            SealNotShared => "seal_races" "racing_sealers_hear_the_same",
            /// A seal that is dropped half way has lost the branches.
            SealTornByDrop => "move_cancellation" "a_dropped_seal_is_whole_or_absent",

            // What is sealed.
            /// What is sealed is not read.
            SealedUnreadable => "sealed" "a_sealed_log_is_read_and_says_so",
            /// What is sealed is not listed.
            SealedUnlisted => "sealed" "a_sealed_log_is_listed_and_says_so",
            /// What is sealed has no branches.
            SealedChildless => "sealed" "the_branches_of_a_sealed_record_are_seen_from_both_ends",
            /// Pages do not say that their log is sealed.
            ReadHidesSeal => "sealed" "a_sealed_log_is_read_and_says_so",
            /// Heads do not say that their log is sealed.
            HeadHidesSeal => "sealed" "a_sealed_log_is_looked_up_and_says_so",
            /// Listings do not say that logs are sealed.
            ListHidesSeal => "sealed" "a_sealed_log_is_listed_and_says_so",
            /// Records do not say that they are sealed.
            InspectHidesSeal => "sealed" "a_sealed_record_is_inspected_and_says_so",
            /// What was sealed once is said to be sealed ever after.
            HeadKeepsSeal => "sealed" "what_was_unsealed_says_so",
            /// Everything is said to be sealed while anything is.
            HeadSharesSeal => "sealed" "other_records_do_not_say_that_they_are_sealed",

            // Unsealing and retiring.
            /// What was sealed stays sealed.
            UnsealDoesNothing => "retiring" "an_unsealed_record_changes_again",
            /// Unsealing ends the lease.
            UnsealEndsLease => "retiring" "an_unsealed_record_is_as_it_was",
            /// Unsealing what is not sealed is refused.
            UnsealOfUnsealedRefused => "retiring" "unsealing_what_is_not_sealed_does_nothing",
            /// Unsealing nothing succeeds.
            UnsealOfNothingSucceeds => "retiring" "what_does_not_exist_cannot_be_unsealed",
            /// What is not sealed is retired.
            RetireTakesUnsealed => "retiring" "only_a_sealed_record_is_retired",
            /// Retiring nothing is refused.
            RetireOfNothingRefused => "retiring" "retiring_what_does_not_exist_does_nothing",
            /// Retiring keeps the log.
            RetireKeepsLog => "retiring" "retiring_removes_the_log",
            /// Retiring keeps the fence.
            RetireKeepsFence => "retiring" "retiring_removes_the_fence",
            /// Retiring keeps the lineage.
            RetireKeepsLineage => "retiring" "retiring_removes_the_lineage_from_both_ends",
            /// An id that was retired goes on at the sequence where it ended.
            RetireKeepsSequence => "retiring" "after_retiring_the_id_begins_anew",
            /// Whatever begins with the id is retired.
            RetireByPrefix => "retiring" "retiring_one_record_touches_no_other",
            /// Retiring leaves a mark.
            RetireLeavesMark => "marks" "retiring_leaves_no_mark",
            /// A retirement that is dropped half way has removed the log.
            RetireTornByDrop => "move_cancellation" "a_dropped_retirement_is_whole_or_absent",

            /// An unseal that is dropped half way has lost the branches.
            UnsealTornByDrop => "move_cancellation" "a_dropped_unseal_is_whole_or_absent",

            // Records.
            /// Records never say that their log is closed.
            InspectNeverCloses => "records" "a_log_is_a_record",
            /// A look that is dropped leaves the record sealed.
            InspectTornByDrop => "move_cancellation" "dropped_looks_at_records_change_nothing",
            /// What has no log is no record.
            InspectNeedsALog => "records" "lineage_alone_is_a_record",
            /// A branch is a record.
            InspectShowsChildren => "records" "what_does_not_exist_has_no_record",
            /// Records tell of no fence.
            InspectHidesFence => "records" "a_fence_alone_is_a_record",
            /// Records tell of no branches.
            InspectCountsNoBranches => "records" "a_record_tells_all_its_parts",
            /// A record stays as it was when it was first looked at.
            InspectCached => "records" "a_record_follows_every_change",
            /// Nothing is left of what was deleted.
            InspectForgetsDeleted => "records" "what_is_left_after_a_delete_is_a_record",
            /// Records without a log are not listed.
            RecordsNeedALog => "records" "every_record_is_listed_once_in_list_order",
            /// Sealed records are not listed.
            RecordsHideSealed => "records" "every_record_is_listed_once_in_list_order",
            /// A limit of 0 is taken for 1.
            RecordsLimitZero => "records" "a_record_limit_of_zero_is_refused",
            /// A page of records has one more than asked for.
            RecordsOverLimit => "records" "record_pages_of_every_size_join_to_the_same_listing",
            /// The cursor of a page of records skips one.
            RecordsCursorSkips => "records" "record_pages_of_every_size_join_to_the_same_listing",
            /// A cursor of records ends the listing when its record is not there.
            RecordsCursorNeedsItsRow => "records" "a_listing_of_records_goes_on_after_any_id",
            /// A cursor of records is a number of rows.
            RecordsByOffset => "records" "records_that_come_and_go_between_pages_hide_no_other",
            /// Filters by hash are ignored.
            RecordsIgnoreRoute => "records" "a_filter_selects_records_by_their_hash",
            /// A filter holds for the first page of records only.
            RecordsRouteForgottenByCursor => "records" "a_filter_selects_records_by_their_hash",

            // Importing.
            /// A log only arrives as a whole.
            ImportNeedsOnePart => "imports" "a_record_arrives_in_parts_of_any_size",
            /// The answer to a part is where the part ended.
            ImportAnswersOwnEnd => "arrivals" "two_movers_complete_one_import_between_them",
            /// The answer to a part is where it began.
            ImportAnswersStart => "imports" "each_part_is_answered_with_where_to_go_on",
            /// The first part of a log is visible at once.
            ImportShowsLogEarly => "imports" "nothing_is_seen_of_parts_until_the_last_one",
            /// The branches are visible with the first part.
            ImportShowsLineageEarly => "imports" "nothing_is_seen_of_parts_until_the_last_one",
            /// Imported payloads pass through text.
            ImportPayloadAsText => "imports" "events_arrive_byte_for_byte",
            /// Imported events are stamped anew.
            ImportStampsTimes => "imports" "events_arrive_byte_for_byte",
            /// A closed log arrives open.
            ImportOpens => "imports" "a_closed_log_arrives_closed",
            /// What arrives is sealed.
            ImportStaysSealed => "imports" "what_arrives_is_not_sealed",
            /// An append to a log that arrived gets a sequence of its own.
            ImportCountsAnew => "imports" "an_imported_log_goes_on_where_it_ended",
            /// Imports have to keep the limits of appends.
            ImportAppliesLimits => "imports" "the_limits_of_appends_do_not_apply",
            /// What is on its way keeps others from creating the log.
            ImportBlocksCreation => "imports" "an_unfinished_import_does_not_keep_others_from_creating_the_log",
            /// The fence is lost.
            ImportForgetsFence => "imported_fences" "an_imported_fence_keeps_older_tokens_out",
            /// The holder of the fence is lost.
            ImportForgetsHolder => "imported_fences" "the_holder_of_an_imported_fence_renews_its_lease",
            /// A fence without a holder gets one.
            ImportInventsHolder => "imported_fences" "an_imported_fence_without_a_holder_has_none",
            /// A lease begins with the import.
            ImportStartsLease => "imported_fences" "the_time_left_of_a_lease_does_not_travel",
            /// The branches are lost.
            ImportForgetsLineage => "imported_fences" "branches_arrive_in_their_order_and_at_both_ends",
            /// The branches arrive in the order of their ids.
            ImportSortsLineage => "imported_fences" "lineage_alone_arrives",
            /// The branches arrive at the parent only.
            ImportLosesParents => "imported_fences" "branches_arrive_in_their_order_and_at_both_ends",
            /// A record without a log is not imported.
            ImportNeedsALog => "imported_fences" "a_fence_alone_arrives",
            /// An import that is dropped half way has made half of the log visible.
            ImportTornByDrop => "move_cancellation" "a_dropped_import_is_whole_or_absent",
            /// A part that is dropped half way has made the branches visible.
            PartTornByDrop => "move_cancellation" "a_dropped_last_part_is_whole_or_absent",
            /// Two imports of one record at once each take it for new.
            ImportNotAtomic => "move_races" "racing_imports_of_one_record_all_succeed",

            // Merging.
            /// A fence that is here is in the way of an import.
            MergeRefusesFence => "merges" "a_log_joins_a_fence_that_is_here",
            /// An import replaces the lineage that is here.
            MergeDropsLineage => "merges" "a_log_joins_lineage_that_is_here",
            /// A token that comes is ignored where one is here.
            MergeKeepsFence => "merges" "the_higher_token_counts_when_it_comes",
            /// An import replaces the fence that is here.
            MergeReplacesFence => "merges" "the_higher_token_counts_when_it_is_here",
            /// The holder who is here keeps a token that comes.
            MergeKeepsHolder => "merges" "the_holder_of_the_higher_token_renews",
            /// The branches that are here come first.
            MergePutsHereFirst => "merges" "the_branches_of_an_import_come_before_those_that_are_here",
            /// A branch on both sides is counted twice.
            MergeCountsTwice => "merges" "a_branch_on_both_sides_is_there_once",
            /// The branches of an import without a log are dropped where a log is.
            JoinDropsLineage => "merges" "lineage_joins_a_log",
            /// The fence of an import without a log is dropped where a log is.
            JoinDropsFence => "merges" "a_fence_joins_a_log",
            /// Branches that have another parent are left out where a log is.
            JoinSkipsConflicts => "merges" "a_branch_of_another_parent_does_not_join_a_log",
            /// An import without a log takes the place of the log that is here.
            JoinReplacesLog => "merges" "lineage_joins_a_log",

            // Comparing.
            /// A record that is there already is a conflict.
            CompareRefusesEqual => "comparisons" "the_same_record_again_is_already_there",
            /// A log that has gone on is a conflict.
            CompareRefusesLonger => "comparisons" "a_log_that_has_gone_on_is_already_there",
            /// A log can only be compared as a whole.
            CompareNeedsOnePart => "comparisons" "an_import_over_a_log_can_come_in_parts",
            /// The rest of an import is refused when another mover completed it.
            CompareNeedsTheStart => "comparisons" "the_rest_of_an_import_that_another_completed_is_already_there",
            /// Logs are not compared.
            CompareNothing => "comparisons" "a_log_that_differs_at_its_start_is_a_conflict",
            /// Only the first part is compared.
            CompareFirstPart => "comparisons" "a_log_that_differs_at_its_end_is_a_conflict",
            /// The last event is not compared.
            CompareAllButLast => "comparisons" "a_log_that_differs_at_its_end_is_a_conflict",
            /// The times of events are not compared.
            CompareNoTimes => "comparisons" "a_payload_a_kind_and_a_time_are_each_compared",
            /// Whether events are terminal is not compared.
            CompareNoEnds => "comparisons" "a_log_that_ends_where_the_other_goes_on_is_a_conflict",
            /// A log that is shorter than the imported one will do.
            CompareTakesShorter => "comparisons" "a_shorter_log_is_a_conflict",
            /// An import replaces a log that differs.
            CompareOverwrites => "comparisons" "a_log_that_differs_at_its_start_is_a_conflict",
            /// The fence is raised although the logs differ.
            CompareRaisesFenceAnyway => "comparisons" "a_conflict_changes_nothing",
            /// The fence is not raised where a log is.
            CompareKeepsFence => "comparisons" "the_fence_over_a_log_is_raised",
            /// The holder is replaced where a log is, whatever the tokens.
            CompareReplacesHolder => "comparisons" "the_fence_over_a_log_is_never_lowered",
            /// Branches join a record that has a log.
            CompareJoinsLineage => "comparisons" "the_lineage_of_a_record_with_a_log_stays",

            // Parts.
            /// A part after a gap is taken.
            PartsMayGap => "parts" "a_part_that_leaves_a_gap_is_refused",
            /// The first part may start anywhere.
            PartsStartAnywhere => "parts" "a_first_part_that_does_not_start_at_the_beginning_is_refused",
            /// A part with a hole is closed up.
            PartsCloseHoles => "parts" "a_part_with_a_hole_or_a_repetition_is_refused",
            /// What is past the head of the sealed log is cut off.
            PartsCutOff => "parts" "a_part_past_the_sealed_head_is_refused",
            /// A part without events is taken.
            PartsMayBeEmpty => "parts" "a_part_without_events_is_refused",
            /// Terminal marks are made to fit.
            PartsFitEnds => "parts" "a_terminal_event_that_does_not_fit_the_sealed_head_is_refused",
            /// A refused part drops those before it.
            PartsDroppedByRefusal => "parts" "a_refused_part_changes_nothing",
            /// A part that was staged before is refused.
            PartsRefusedTwice => "arrivals" "a_part_that_was_staged_before_is_skipped",
            /// Parts of another incarnation are put together.
            PartsMixIncarnations => "arrivals" "another_incarnation_replaces_what_was_staged",
            /// Parts are staged under folded ids.
            PartsFoldIds => "arrivals" "parts_of_different_records_are_kept_apart",
            /// A sealed record is imported over.
            ImportOverSealed => "arrivals" "a_sealed_record_is_not_imported_over",
            /// Children of other parents are left out of an import.
            ImportSkipsConflicts => "arrivals" "a_child_of_another_parent_is_a_conflict",
            /// Some branches are recorded before a conflict is met.
            ImportTornByConflict => "arrivals" "a_conflict_of_lineage_changes_nothing",

            // Marks.
            /// A delete leaves no mark.
            DeleteLeavesNoMark => "marks" "what_was_deleted_with_a_mark_is_not_imported",
            /// Every delete leaves a mark.
            DeleteAlwaysMarks => "marks" "what_was_deleted_without_a_mark_is_imported",
            /// Forgetting leaves no mark.
            ForgetLeavesNoMark => "marks" "what_was_forgotten_with_a_mark_is_not_imported",
            /// Forgetting always leaves a mark.
            ForgetAlwaysMarks => "marks" "what_was_forgotten_without_a_mark_is_imported",
            /// Forgetting leaves no mark when there was nothing to forget.
            ForgetOfNothingLeavesNoMark => "marks" "forgetting_nothing_with_a_mark_leaves_one",
            /// A delete that leaves a mark ignores the expected length.
            MarkedDeleteIgnoresExpected => "marks" "a_marked_delete_deletes_as_any_other",
            /// A delete that is refused leaves a mark.
            RefusedDeleteMarks => "marks" "a_refused_delete_leaves_no_mark",
            /// A mark does not stop what has begun.
            MarkSparesTheBegun => "marks" "a_mark_stops_an_import_that_has_begun",
            /// A mark is a record.
            MarkIsARecord => "marks" "a_mark_is_no_record",
            /// A mark is in the way of a new log.
            MarkBlocksCreation => "marks" "a_marked_execution_can_be_created_anew",
            /// A mark holds for whatever begins with the id.
            MarkByPrefix => "marks" "a_mark_is_about_one_execution",
            /// Marks outlive the plan.
            MarksOutlivePlans => "move_epochs" "a_new_plan_clears_marks",
            /// Publishing the current plan again clears marks.
            MarksClearedBySamePlan => "move_epochs" "the_same_plan_again_clears_no_mark",
            /// Parts outlive the plan.
            PartsOutlivePlans => "move_epochs" "a_new_plan_drops_staged_parts",
            /// Publishing the current plan again drops parts.
            PartsDroppedBySamePlan => "move_epochs" "the_same_plan_again_drops_no_part",
            /// A new plan breaks the seals.
            PublishUnseals => "move_epochs" "a_new_plan_keeps_what_is_visible_and_what_is_sealed",

            // Relocation as a capability.
            /// The record that an edge requires is not asked for.
            RequireIgnoredByLineage => "capabilities" "recording_can_require_the_record_of_the_parent",
            /// Records are looked at under any plan.
            EpochIgnoredByInspect => "epochs" "relocation_refuses_an_older_plan",
            /// Records are sealed under any plan.
            EpochIgnoredBySeal => "epochs" "relocation_refuses_an_older_plan",
            /// Records are imported under any plan.
            EpochIgnoredByImport => "epochs" "relocation_refuses_a_newer_plan",
            /// Records are retired under any plan.
            EpochIgnoredByRetire => "epochs" "relocation_refuses_an_older_plan",
            /// Records are unsealed under any plan.
            EpochIgnoredByUnseal => "epochs" "relocation_refuses_a_newer_plan",
            /// Records are listed under any plan.
            EpochIgnoredByRecords => "epochs" "relocation_refuses_another_plan_of_the_same_epoch",
        }
    };
}
pub(super) use with_faults_of_moves;
