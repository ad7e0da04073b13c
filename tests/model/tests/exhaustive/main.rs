//! Every scenario is explored to the end, and every rule is needed.

#[cfg(test)]
mod support;

use loom_protocol_model::{Rule, Rules, Sweep, TABLE, Verdict, everybody, explore, scenarios};
use support::{assert_nothing_goes_wrong, assert_spare, scenario};

#[test]
fn with_every_rule_no_scenario_goes_wrong() {
    assert_nothing_goes_wrong(&scenarios(), Rules::all());
}

#[test]
fn with_all_roles_at_once_and_a_node_interrupted_nothing_goes_wrong() {
    assert_nothing_goes_wrong(&[everybody(1)], Rules::all());
}

#[test]
fn without_a_rule_the_scenario_that_needs_it_goes_wrong() {
    for finding in TABLE {
        let Verdict::Needed(name) = finding.verdict else {
            continue;
        };
        let report = explore(&scenario(name), Rules::all().without(finding.rule));
        let Some(trace) = report.violation else {
            panic!("without {}, nothing goes wrong in {name}", finding.rule);
        };
        let (steps, why) = (trace.len(), trace.violation);
        println!("{:<32} {name:<30} {steps:>3} steps: {why}", finding.rule);
    }
}

#[test]
fn roles_in_listings_only_protect_against_what_a_settle_should_not_have_left() {
    assert_spare(Rule::ListRoles);
}

#[test]
fn no_import_meets_a_sealed_record() {
    assert_spare(Rule::ImportRefusesSealed);
}

#[test]
fn the_epoch_of_a_drain_check_matters_only_where_the_plan_was_not_completed() {
    assert_spare(Rule::DrainCheckUnderEpoch);
}

#[test]
fn whatever_a_bucket_holds_each_operation_works_while_it_turns_round() {
    assert_nothing_goes_wrong(&Sweep::Turns.of(1), Rules::all());
}

#[test]
fn whatever_a_bucket_holds_each_operation_works_while_it_turns_round_twice() {
    assert_nothing_goes_wrong(&Sweep::Returns.of(1), Rules::all());
}

#[test]
fn whatever_a_bucket_holds_each_two_operations_work_while_it_is_settled() {
    assert_nothing_goes_wrong(&Sweep::Settles.of(2), Rules::all());
}

#[test]
fn whatever_a_bucket_holds_each_operation_works_while_a_request_goes_astray() {
    assert_nothing_goes_wrong(&Sweep::Loses.of(1), Rules::all());
}
