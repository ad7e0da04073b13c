use loom_protocol_model::{Rule, Rules, Scenario, TABLE, Verdict, explore, scenarios};

pub(crate) fn scenario(name: &str) -> Scenario {
    let mut all = scenarios().into_iter();
    all.find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("there is no scenario `{name}`"))
}

pub(crate) fn assert_nothing_goes_wrong(scenarios: &[Scenario], rules: Rules) {
    assert!(!scenarios.is_empty());
    let mut states = 0;
    for scenario in scenarios {
        let report = explore(scenario, rules);
        println!("{:<40} {report}", scenario.name);
        if let Some(trace) = report.violation {
            panic!("{}: {}\n{trace}", scenario.name, scenario.about);
        }
        states += report.states;
    }
    println!("{} scenarios, {states} states", scenarios.len());
}

/// Without the rule alone nothing goes wrong anywhere. If it stands beside another one, something does without both,
/// where without that other one alone nothing does.
pub(crate) fn assert_spare(rule: Rule) {
    let finding = TABLE.iter().find(|finding| finding.rule == rule).unwrap();
    match finding.verdict {
        Verdict::Needed(scenario) => panic!("{rule} is needed in {scenario}"),
        Verdict::Defence(_) => {}
        Verdict::Spare {
            beside,
            scenario: name,
        } => {
            let scenario = scenario(name);
            let without_the_other = Rules::all().without(beside);
            assert!(explore(&scenario, without_the_other).violation.is_none());
            let without_both = without_the_other.without(rule);
            assert!(explore(&scenario, without_both).violation.is_some());
        }
    }
    let all = scenarios().into_iter();
    let involved: Vec<Scenario> = all.filter(|scenario| scenario.involves(rule)).collect();
    assert_nothing_goes_wrong(&involved, Rules::all().without(rule));
}
