#![doc = include_str!("../README.md")]
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

mod drain;
mod graph;
mod logs;
mod peer;
mod plan;
mod postgres;
mod report;
mod routing;
mod sqlite;
mod stores;
mod timing;
mod turns;
mod writers;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use report::Row;

/// What a suite is told.
#[derive(Debug, Default)]
struct Settings {
    /// Where real event logs are.
    data: Option<PathBuf>,
    /// The program of `peers`, which has those that do not fit into this one.
    peers: Option<PathBuf>,
    /// How many events a large shard gets.
    events: Option<u64>,
    /// The one part of a suite that is measured.
    only: Option<String>,
}

impl Settings {
    /// Whether a part of a suite is measured.
    fn wants(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }

    /// The program with the peers. Without it, says what is left out.
    fn peers_program(&self, what: &str) -> Option<&Path> {
        if self.peers.is_none() {
            eprintln!(
                "SKIPPED: the peers beside {what}: build crates/loom-bench/peers and name its program with --peers"
            );
        }
        self.peers.as_deref()
    }
}

/// What a suite found.
#[derive(Debug, Default)]
struct Outcome {
    rows: Vec<Row>,
    /// What does not fit into rows, as text.
    text: String,
}

impl From<Vec<Row>> for Outcome {
    fn from(rows: Vec<Row>) -> Self {
        let text = String::new();
        Self { rows, text }
    }
}

impl Outcome {
    /// Adds a part, and shows it: a suite may take minutes.
    fn add(&mut self, part: Self) {
        for row in &part.rows {
            eprintln!("{}: {:.3} x {}", row.what, row.ratio, row.against);
        }
        self.rows.extend(part.rows);
        self.text += &part.text;
    }
}

/// Why a suite could not be measured.
type Failure = Box<dyn Error + Send + Sync>;

/// Measures one suite.
type Suite = fn(&Settings) -> Result<Outcome, Failure>;

/// What can be measured, by name.
const SUITES: &[(&str, Suite)] = &[
    ("plan", |_| Ok(plan::run().into())),
    ("routing", |_| routing::run()),
    ("drain", drain::run),
    ("sqlite", sqlite::run),
    (LONG, sqlite::size),
    ("postgres", postgres::run),
    ("graph", graph::run),
];

/// Takes minutes, and gigabytes of disk: `all` leaves it out.
const LONG: &str = "sqlite-size";

fn main() -> ExitCode {
    let mut json = false;
    let mut wanted = None;
    let mut settings = Settings {
        data: std::env::var_os("LOOM_DATA").map(PathBuf::from),
        ..Settings::default()
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--data" => match arguments.next() {
                Some(folder) => settings.data = Some(folder.into()),
                None => return usage("--data: which folder?"),
            },
            "--peers" => match arguments.next() {
                Some(program) => settings.peers = Some(program.into()),
                None => return usage("--peers: which program?"),
            },
            "--only" => match arguments.next() {
                Some(part) => settings.only = Some(part),
                None => return usage("--only: which part?"),
            },
            "--events" => match arguments.next().map(|number| number.parse()) {
                Some(Ok(events)) => settings.events = Some(events),
                _ => return usage("--events: how many?"),
            },
            name if wanted.is_none() && !name.starts_with('-') => wanted = Some(name.to_owned()),
            other => return usage(&format!("unexpected argument `{other}`")),
        }
    }
    let Some(wanted) = wanted else {
        return usage("which suite?");
    };
    let suites: Vec<_> = SUITES
        .iter()
        .filter(|(name, _)| (wanted == "all" && *name != LONG) || wanted == *name)
        .collect();
    if suites.is_empty() {
        return usage(&format!("there is no suite `{wanted}`"));
    }
    let (mut rows, mut text) = (Vec::new(), String::new());
    for (name, run) in suites {
        match run(&settings) {
            Ok(outcome) => {
                rows.extend(outcome.rows);
                text += &outcome.text;
            }
            Err(error) => {
                eprintln!("loom-bench: {name} could not be measured: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    if let Some(part) = settings.only.filter(|_| rows.is_empty() && text.is_empty()) {
        eprintln!("loom-bench: `{wanted}` has measured no part `{part}`: README.md names them");
        return ExitCode::FAILURE;
    }
    if json {
        match serde_json::to_string_pretty(&rows) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("loom-bench: cannot write the rows: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{}", report::table(&rows));
        if !text.is_empty() {
            print!("\n{text}");
        }
    }
    ExitCode::SUCCESS
}

fn usage(problem: &str) -> ExitCode {
    let names: Vec<_> = SUITES.iter().map(|(name, _)| *name).collect();
    eprintln!(
        "loom-bench: {problem}\nusage: loom-bench {}|all [--json] [--data FOLDER] [--peers PROGRAM] [--only PART] [--events N]",
        names.join("|")
    );
    ExitCode::from(2)
}
