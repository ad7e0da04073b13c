//! Looking at a whole file.

use std::path::Path;

use loom_spi::{PublishedPlan, ShardIdentity, StoreError};
use rusqlite::{Connection, OpenFlags};

use crate::failure::Failure;
use crate::file::{check_header, failure};
use crate::{OpenFailure, Options, ledger, record};

/// The most problems that are described.
const DESCRIBED: usize = 20;

/// What [`verify`] found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Which shard of which deployment it is; `None` when it belongs to none.
    pub identity: Option<ShardIdentity>,
    /// The plan that it is under; `None` when none was published there.
    pub plan: Option<PublishedPlan>,
    /// Executions that have a log.
    pub executions: u64,
    /// Events in these logs.
    pub events: u64,
    /// What contradicts the format, in words: the first 20 at most. Empty when the file is sound.
    pub problems: Vec<String>,
}

/// Looks at everything in the file of a store that nobody has open: whether SQLite finds its structure sound, every log
/// has all its events from 0 without a gap, ends in a terminal event exactly if it is closed, every event belongs to a log,
/// every id is where its hash says, and every edge belongs to a record. Nothing is written. It takes time in
/// proportion to the file.
///
/// What stands in a payload it cannot judge: keep a checksum beside the file for that.
///
/// This blocks the thread: call it from one that may be blocked.
///
/// # Errors
/// Of [`Operation::Open`](loom_spi::Operation::Open), with an [`OpenFailure`] as its source, when the file is no store or
/// cannot be read to the end.
pub fn verify(path: impl AsRef<Path>) -> Result<Verified, StoreError> {
    let path = path.as_ref();
    let options = Options::new();
    let told = |error| failure(path, &options, error);
    if !path.exists() {
        let path = path.to_owned();
        return Err(OpenFailure::Missing { path }.into_error());
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(told)?;
    check_header(path, &connection, &options)?;
    look(&connection).map_err(|error| match error {
        Failure::Sqlite(error) => told(error),
        Failure::Refused(kind) => OpenFailure::Damaged {
            path: path.to_owned(),
            reason: kind.to_string(),
        }
        .into_error(),
    })
}

fn look(connection: &Connection) -> Result<Verified, Failure> {
    // One snapshot for everything.
    connection.execute_batch("BEGIN")?;
    let mut problems = Vec::new();
    let mut structure = connection.prepare("PRAGMA integrity_check(20)")?;
    for problem in structure.query_map([], |row| row.get::<_, String>(0))? {
        let problem = problem?;
        if problem != "ok" {
            problems.push(problem);
        }
    }
    // Where the structure is not sound the rest may not even end.
    if problems.is_empty() {
        for (what, sql) in CONTRADICTIONS {
            let mut found = connection.prepare(sql)?;
            let names = found.query_map([], |row| row.get::<_, String>(0))?;
            for name in names.take(DESCRIBED) {
                problems.push(format!("`{}` {what}", name?));
            }
        }
        ids(connection, &mut problems)?;
    }
    problems.truncate(DESCRIBED);
    let (executions, events) = connection.query_row(
        "SELECT count(*), coalesce(sum(next_seq), 0) FROM records WHERE log IS NOT NULL",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(Verified {
        identity: ledger::identity(connection)?,
        plan: ledger::current(connection)?,
        executions: record::count(executions, "executions")?,
        events: record::count(events, "events")?,
        problems,
    })
}

/// Whether every id is valid, and under the key that it has.
fn ids(connection: &Connection, problems: &mut Vec<String>) -> Result<(), Failure> {
    let mut find = connection.prepare("SELECT index_key, id FROM records")?;
    let mut rows = find.query([])?;
    while let Some(row) = rows.next()? {
        if problems.len() >= DESCRIBED {
            break;
        }
        match record::id(row, 1) {
            Ok(id) if id.route_hash().index_key() == row.get::<_, i64>(0)? => {}
            Ok(id) => problems.push(format!("`{id}` is under a key that is not its hash's")),
            Err(_) => problems.push("the id of a record is not valid".to_owned()),
        }
    }
    Ok(())
}

/// What must not be there, and how to find it.
const CONTRADICTIONS: [(&str, &str); 6] = [
    (
        "has a log in which events are missing, or that is not closed where it says so",
        "WITH found AS (
             SELECT log, count(*) AS events, min(seq) AS first, max(seq) AS last,
                    max(CASE WHEN terminal THEN seq ELSE -1 END) AS closing, sum(terminal) AS terminals
             FROM events GROUP BY log)
         SELECT id FROM records AS r LEFT JOIN found AS f ON f.log = r.log
         WHERE r.log IS NOT NULL
           AND (f.events IS NULL OR f.events <> r.next_seq OR f.first <> 0 OR f.last <> r.next_seq - 1
                OR f.terminals <> r.closed OR (r.closed AND f.closing <> f.last))",
    ),
    (
        "has the length of a log, and no log",
        "SELECT id FROM records WHERE (log IS NULL) <> (next_seq = 0)",
    ),
    (
        "has another number of branches than it says",
        "SELECT r.id FROM records AS r
         WHERE r.branches <> (SELECT count(*) FROM edges AS e WHERE e.parent = r.record)",
    ),
    (
        "is a branch of nothing",
        "SELECT child FROM edges WHERE parent NOT IN (SELECT record FROM records)",
    ),
    (
        "arrives in parts, and has not the events that it says",
        "SELECT id FROM staged AS s
         WHERE s.next_seq <> (SELECT count(*) FROM events AS e WHERE e.log = s.log)
            OR s.next_seq <> 1 + (SELECT max(seq) FROM events AS e WHERE e.log = s.log)",
    ),
    (
        "is a log of nobody",
        "SELECT DISTINCT CAST(log AS TEXT) FROM events
         WHERE log NOT IN (SELECT log FROM records WHERE log IS NOT NULL
                           UNION SELECT log FROM staged UNION SELECT log FROM garbage)",
    ),
];
