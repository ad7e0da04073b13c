//! Every scenario is explored to the end, and every rule is needed.

#[cfg(test)]
mod support;

use loom_protocol_model::{Rule, Rules, TABLE, Verdict, explore, scenarios, sweep};
use support::{assert_nothing_goes_wrong, assert_spare, scenario};

#[test]
fn with_every_rule_no_scenario_goes_wrong() {
    assert_nothing_goes_wrong(&scenarios(), Rules::all());
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
fn the_epoch_of_a_drain_check_matters_only_where_the_plan_was_not_completed() {
    assert_spare(Rule::DrainCheckUnderEpoch);
}

#[test]
fn every_operation_works_on_everything_that_may_be_there() {
    assert_nothing_goes_wrong(&sweep(1), Rules::all());
}
