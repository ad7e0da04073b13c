//! `loom import` of a log, beside a loader that somebody wrote for the purpose.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use rusqlite::Connection;
use serde::Deserialize;

use super::{SUITE, Turns, loom};
use crate::report::{Row, Target};
use crate::{Failure, Settings, logs, stores};

/// Of a log that takes seconds.
const ROUNDS: usize = 5;
const SHARDS: &str = "4";
/// Rows of a transaction of the loader.
const ROWS: usize = 1_000;

pub(super) fn rows(settings: &Settings) -> Result<Vec<Row>, Failure> {
    if !loom::is_there("the import")? {
        return Ok(Vec::new());
    }
    let folder = stores::folder()?;
    let (name, file) = match &settings.data {
        Some(data) => ("the loan log", data.join("loan-applications.jsonl.gz")),
        None => ("a synthetic log", synthetic(folder.path())?),
    };
    let mut events = 0;
    let mut turn = 0;
    let turns = Turns::of(
        ROUNDS,
        || {
            turn += 1;
            import(&folder.path().join(format!("loom-{turn}")), &file)
        },
        || {
            let started = Instant::now();
            let path = folder.path().join("loaded.db");
            events = load(&path, &file)?;
            let took = started.elapsed();
            std::fs::remove_file(path)?;
            Ok(one(took))
        },
    )?;
    let note = format!(
        "{:.2} against {:.2} s, {events} events; ours checks, and starts a process; both sync each transaction (FULL)",
        1.0 / turns.medians().0,
        1.0 / turns.medians().1,
    );
    Ok(vec![Row::new(
        SUITE,
        format!("rate of `loom import`, {name}, {SHARDS} shards"),
        format!("a loader by hand with rusqlite, {ROWS} rows a transaction, one file"),
        turns.rate(),
        Some(Target::AtLeast(0.6)),
        note,
    )])
}

fn one(took: Duration) -> f64 {
    super::per_second(1, took)
}

/// Into a new deployment.
fn import(folder: &Path, file: &Path) -> Result<f64, Failure> {
    loom::init(folder, SHARDS)?;
    let started = Instant::now();
    loom::run(folder, &["import".as_ref(), file.as_os_str()])?;
    let took = started.elapsed();
    std::fs::remove_dir_all(folder)?;
    Ok(one(took))
}

fn synthetic(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join("synthetic.jsonl");
    let mut file = std::io::BufWriter::new(File::create(&path)?);
    for logged in logs::synthetic().events {
        let line = serde_json::json!({
            "execution": logged.execution.as_str(),
            "at": logged.at(),
            "type": &*logged.event.kind,
            "last": logged.event.terminal,
            "note": "what happened, in about as many words as a real log has",
        });
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    Ok(path)
}

#[derive(Deserialize)]
struct Line<'a> {
    execution: &'a str,
    at: i64,
    r#type: &'a str,
    #[serde(default)]
    last: bool,
}

/// Loads a log into one file, a thousand rows a transaction, and says how many events it has.
fn load(path: &Path, file: &Path) -> Result<usize, Failure> {
    let opened = File::open(file)?;
    let mut lines: Box<dyn BufRead> = if file.extension().is_some_and(|end| end == "gz") {
        Box::new(BufReader::new(GzDecoder::new(opened)))
    } else {
        Box::new(BufReader::new(opened))
    };
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE logs (log INTEGER PRIMARY KEY, id TEXT UNIQUE, next INTEGER, closed INTEGER);
         CREATE TABLE events (position INTEGER PRIMARY KEY, log INTEGER, seq INTEGER, at INTEGER, kind TEXT, payload BLOB);
         CREATE UNIQUE INDEX events_in_log ON events (log, seq)",
    )?;
    let mut add_log = connection.prepare("INSERT INTO logs VALUES (?1, ?2, 0, 0)")?;
    let mut add_event = connection
        .prepare("INSERT INTO events (log, seq, at, kind, payload) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let mut advance =
        connection.prepare("UPDATE logs SET next = ?2, closed = ?3 WHERE log = ?1")?;
    let mut logs: HashMap<String, (i64, i64)> = HashMap::new();
    let (mut events, mut text) = (0, String::new());
    connection.execute_batch("BEGIN")?;
    while lines.read_line(&mut text)? > 0 {
        let line: Line<'_> = serde_json::from_str(&text)?;
        if !logs.contains_key(line.execution) {
            let log = i64::try_from(logs.len())?;
            add_log.execute((log, line.execution))?;
            logs.insert(line.execution.to_owned(), (log, 0));
        }
        let (log, next) = logs.get_mut(line.execution).ok_or("a log is gone")?;
        add_event.execute((
            *log,
            *next,
            line.at,
            line.r#type,
            text.trim_end().as_bytes(),
        ))?;
        *next += 1;
        advance.execute((*log, *next, line.last))?;
        events += 1;
        if events % ROWS == 0 {
            connection.execute_batch("COMMIT; BEGIN")?;
        }
        text.clear();
    }
    connection.execute_batch("COMMIT")?;
    Ok(events)
}
