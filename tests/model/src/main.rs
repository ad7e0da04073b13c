//! Explores the model: `cargo run -p loom-protocol-model -- --help`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::env;
use std::process::ExitCode;

use loom_protocol_model::{
    Rule, Rules, Scenario, Sweep, TABLE, Verdict, everybody, explore, large, scenarios,
};

const HELP: &str = "\
Explores every state of the model of routing and migration.

Without options: the scenarios, and the table of what goes wrong without each rule.

  --large           also every two and every three operations on everything that may be there
  --scenario NAME   this scenario alone, with what goes wrong in it step by step
  --without RULE    without a rule; may be repeated
  --sweep NAME:N    every N operations on everything that may be there, while the bucket `turns`, `settles` or
                    `returns`, or turns and a request goes astray, `loses`
  --everybody N     all roles at once, with at most N interruptions of nodes
  --rules           what the rules say
  --list            what happens in the scenarios
";

#[derive(Default)]
struct Options {
    large: bool,
    scenario: Option<String>,
    without: Vec<Rule>,
    sweep: Option<String>,
    everybody: Option<u8>,
    say: Option<&'static str>,
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("loom-protocol-model: {problem}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--large" => options.large = true,
            "--scenario" => options.scenario = Some(value()?),
            "--without" => {
                let name = value()?;
                let rule =
                    Rule::named(&name).ok_or(format!("there is no rule `{name}`: see --rules"))?;
                options.without.push(rule);
            }
            "--sweep" => options.sweep = Some(value()?),
            "--everybody" => {
                let most = value()?;
                let most = most
                    .parse()
                    .map_err(|error| format!("`{most}` interruptions: {error}"))?;
                options.everybody = Some(most);
            }
            "--rules" => options.say = Some("rules"),
            "--list" => options.say = Some("scenarios"),
            "--help" => options.say = Some("help"),
            other => return Err(format!("unexpected argument `{other}`: see --help")),
        }
    }
    Ok(options)
}

/// Says whether everything is as it should be.
fn run(options: &Options) -> Result<bool, String> {
    match options.say {
        Some("rules") => {
            for rule in Rule::ALL {
                println!("{rule:<32} {}", rule.statement());
            }
            return Ok(true);
        }
        Some("scenarios") => {
            for scenario in scenarios().into_iter().chain(large()) {
                println!("{:<32} {}", scenario.name, scenario.about);
            }
            return Ok(true);
        }
        Some(_) => {
            print!("{HELP}");
            return Ok(true);
        }
        None => {}
    }
    let rules = options
        .without
        .iter()
        .fold(Rules::all(), |rules, rule| rules.without(*rule));
    if let Some(name) = &options.scenario {
        let mut all = scenarios();
        all.extend(large());
        for sweep in Sweep::ALL {
            all.extend((1..=3).flat_map(|count| sweep.of(count)));
        }
        let scenario = all.iter().find(|scenario| scenario.name == *name);
        let scenario = scenario.ok_or(format!("there is no scenario `{name}`: see --list"))?;
        return Ok(explored(scenario, rules));
    }
    if let Some(most) = options.everybody {
        return Ok(explored(&everybody(most), rules));
    }
    let mut fine = true;
    if let Some(named) = &options.sweep {
        let (name, count) = named.split_once(':').unwrap_or((named, "1"));
        let sweep = Sweep::named(name).ok_or(format!("there is no sweep `{name}`"))?;
        let count: usize = count
            .parse()
            .map_err(|error| format!("`{count}`: {error}"))?;
        if !(1..=4).contains(&count) {
            return Err(format!("{count} operations: expected 1 to 4"));
        }
        return Ok(all_explored(&sweep.of(count), rules));
    }
    let all = scenarios();
    fine &= all_explored(&all, rules);
    if options.without.is_empty() {
        println!();
        fine &= table(&all);
    }
    if options.large {
        println!();
        fine &= all_explored(&large(), rules);
        for count in 2..=3 {
            println!();
            for sweep in Sweep::ALL {
                fine &= all_explored(&sweep.of(count), rules);
            }
        }
    }
    Ok(fine)
}

fn all_explored(scenarios: &[Scenario], rules: Rules) -> bool {
    let mut fine = true;
    let mut states = 0;
    for scenario in scenarios {
        let report = explore(scenario, rules);
        states += report.states;
        println!("{:<40} {report}", scenario.name);
        if let Some(trace) = report.violation {
            println!("{trace}");
            fine = false;
        }
    }
    println!(
        "{:<40} {states:>9} states",
        format!("{} scenarios", scenarios.len())
    );
    fine
}

fn explored(scenario: &Scenario, rules: Rules) -> bool {
    println!("{}", scenario.about);
    let report = explore(scenario, rules);
    println!("{report}");
    match report.violation {
        Some(trace) => {
            println!("{trace}");
            false
        }
        None => true,
    }
}

/// Prints what goes wrong without each rule.
fn table(scenarios: &[Scenario]) -> bool {
    let mut fine = true;
    for finding in TABLE {
        let (name, rules, beside) = match finding.verdict {
            Verdict::Needed(name) => (name, Rules::all(), String::new()),
            Verdict::Spare { beside, scenario } => {
                let beside_too = format!(" (and without {beside}; alone nothing)");
                (scenario, Rules::all().without(beside), beside_too)
            }
            Verdict::Defence(why) => {
                println!("{:<32} not needed: {why}", finding.rule);
                continue;
            }
        };
        let Some(scenario) = scenarios.iter().find(|scenario| scenario.name == name) else {
            println!("{:<32} {name}: no such scenario", finding.rule);
            fine = false;
            continue;
        };
        let report = explore(scenario, rules.without(finding.rule));
        match report.violation {
            Some(trace) => println!(
                "{:<32} {name:<30} {:>2} steps, {:>6} states: {}{beside}",
                finding.rule,
                trace.len(),
                report.states,
                trace.violation
            ),
            None => {
                println!("{:<32} {name:<30} finds nothing", finding.rule);
                fine = false;
            }
        }
    }
    fine
}
