//! The file: creating it, and making sure that it is what it should be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use loom_spi::{Operation, ShardIdentity, StoreError, StoreErrorKind};
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use crate::failure::Failure;
use crate::reader::{self, Reader};
use crate::schema::{APPLICATION_ID, PAGE_SIZE, SCHEMA_VERSION, tables};
use crate::writer::Writer;
use crate::{OpenFailure, Options, ledger, upgrade};

/// A file that was found to be a store of this version, and of the shard that was asked for.
pub(crate) struct OpenFile {
    pub(crate) path: PathBuf,
    pub(crate) identity: Option<ShardIdentity>,
    pub(crate) writer: Connection,
    /// For what is done beside the writer.
    pub(crate) beside: Connection,
    /// For the threads that read.
    pub(crate) threads: Vec<Reader>,
    /// For those who look by themselves.
    pub(crate) at_once: Vec<Reader>,
}

/// Creates the file, unless it is there with the same identity, and opens it.
pub(crate) fn create(path: &Path, options: &Options) -> Result<OpenFile, StoreError> {
    let path = absolute(path)?;
    let writer = connect(&path, options, OpenFlags::SQLITE_OPEN_CREATE)?;
    let found = contents(&writer).map_err(|error| failure(&path, options, error))?;
    if let Contents::Nothing = found {
        // These have to come before the first table.
        writer
            .execute_batch(&format!(
                "PRAGMA page_size = {PAGE_SIZE}; PRAGMA auto_vacuum = INCREMENTAL"
            ))
            .map_err(|error| failure(&path, options, error))?;
        use_wal(&path, &writer, options)?;
        if initialize(&writer, options).map_err(|error| failure(&path, options, error))? {
            return finish(path, writer, options);
        }
        // Somebody else was faster.
    }
    check(&path, &writer, options)?;
    if options.identity.is_none() {
        return Err(OpenFailure::AlreadyExists { path }.into_error());
    }
    finish(path, writer, options)
}

/// Opens the file, which has to exist.
pub(crate) fn open(path: &Path, options: &Options) -> Result<OpenFile, StoreError> {
    let path = absolute(path)?;
    match path.metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(OpenFailure::Missing { path }.into_error());
        }
        Err(error) => {
            let reason = error.to_string();
            return Err(OpenFailure::Unreachable { path, reason }.into_error());
        }
    }
    let writer = connect(&path, options, OpenFlags::empty())?;
    finish(path, writer, options)
}

fn finish(path: PathBuf, writer: Connection, options: &Options) -> Result<OpenFile, StoreError> {
    check(&path, &writer, options)?;
    use_wal(&path, &writer, options)?;
    let identity = verify(&path, &writer, options)?;
    // Not before it is known to be the right file.
    upgrade::upgrade(&writer).map_err(|error| failure(&path, options, error))?;
    Writer::check(&writer)
        .and_then(|()| reader::check(&writer))
        .map_err(|error| failure(&path, options, error))?;
    let beside = connect(&path, options, OpenFlags::empty())?;
    beside
        .busy_timeout(Duration::ZERO)
        .map_err(|error| failure(&path, options, error))?;
    let readers = |number| {
        (0..number)
            .map(|_| {
                let connection = connect(&path, options, OpenFlags::empty())?;
                Reader::new(connection).map_err(|error| failure(&path, options, error))
            })
            .collect::<Result<Vec<_>, StoreError>>()
    };
    let threads = readers(options.readers)?;
    let at_once = readers(if options.inline_reads {
        options.readers
    } else {
        0
    })?;
    for reader in &at_once {
        reader
            .never_wait()
            .map_err(|error| failure(&path, options, error))?;
    }
    Ok(OpenFile {
        path,
        identity,
        writer,
        beside,
        threads,
        at_once,
    })
}

/// SQLite takes names such as `:memory:` and `file:…?…` for something else than a path: an absolute path
/// never is.
fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| {
        OpenFailure::Unreachable {
            path: path.into(),
            reason: error.to_string(),
        }
        .into_error()
    })
}

/// How much each connection keeps in memory. The system keeps the file in memory too.
const CACHE_KIB: u32 = 8192;

fn connect(path: &Path, options: &Options, create: OpenFlags) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | create;
    let connect = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(64);
        connection.execute_batch(&format!(
            "PRAGMA synchronous = {};
             PRAGMA trusted_schema = OFF;
             PRAGMA temp_store = MEMORY;
             PRAGMA cache_size = -{CACHE_KIB};",
            options.durability.synchronous()
        ))?;
        Ok(connection)
    };
    connect().map_err(|error| failure(path, options, error))
}

/// What a file holds, by its header.
enum Contents {
    Nothing,
    Header {
        application_id: i32,
        schema_version: i32,
    },
}

fn contents(connection: &Connection) -> Result<Contents, rusqlite::Error> {
    let number = |sql| connection.query_row(sql, [], |row| row.get(0));
    let application_id = number("PRAGMA application_id")?;
    let schema_version = number("PRAGMA user_version")?;
    if application_id == 0 && schema_version == 0 && number("PRAGMA schema_version")? == 0 {
        return Ok(Contents::Nothing);
    }
    Ok(Contents::Header {
        application_id,
        schema_version,
    })
}

/// Makes an empty file a store, and says whether it was empty. Several processes may do it at once.
fn initialize(connection: &Connection, options: &Options) -> Result<bool, rusqlite::Error> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let made = (|| {
        let Contents::Nothing = contents(connection)? else {
            return Ok(false);
        };
        connection.execute_batch(&tables())?;
        connection.execute("INSERT INTO shard (one) VALUES (1)", [])?;
        if let Some(identity) = &options.identity {
            ledger::write_identity(connection, identity)?;
        }
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        Ok(true)
    })();
    // When it was not made the connection is closed, and with it the transaction.
    made.and_then(|made| connection.execute_batch("COMMIT").map(|()| made))
}

/// Checks what can be told from the header, and that the file can be written.
pub(crate) fn check(
    path: &Path,
    connection: &Connection,
    options: &Options,
) -> Result<(), StoreError> {
    check_header(path, connection, options)?;
    let read_only = connection.is_readonly(MAIN_DB);
    if read_only.map_err(|error| failure(path, options, error))? {
        return Err(OpenFailure::ReadOnly { path: path.into() }.into_error());
    }
    Ok(())
}

/// Checks what can be told from the header.
pub(crate) fn check_header(
    path: &Path,
    connection: &Connection,
    options: &Options,
) -> Result<(), StoreError> {
    let path = || path.to_owned();
    let found = contents(connection).map_err(|error| failure(&path(), options, error))?;
    let refused = match found {
        Contents::Nothing => OpenFailure::Unfinished { path: path() },
        Contents::Header { application_id, .. } if application_id != APPLICATION_ID => {
            OpenFailure::Foreign {
                path: path(),
                application_id,
            }
        }
        Contents::Header { schema_version, .. } if schema_version > SCHEMA_VERSION => {
            OpenFailure::NewerSchema {
                path: path(),
                found: schema_version,
            }
        }
        Contents::Header { schema_version, .. } if schema_version < upgrade::OLDEST => {
            OpenFailure::Damaged {
                path: path(),
                reason: format!(
                    "it has schema version {schema_version}, which no release has written"
                ),
            }
        }
        Contents::Header { .. } => return Ok(()),
    };
    Err(refused.into_error())
}

fn use_wal(path: &Path, connection: &Connection, options: &Options) -> Result<(), StoreError> {
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(|error| failure(path, options, error))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(OpenFailure::Unreachable {
        path: path.into(),
        reason: format!(
            "SQLite keeps to journal mode `{mode}` there, and a store needs `wal`: use a local file system"
        ),
    }
    .into_error())
}

/// Checks that the store is the shard that the caller means.
fn verify(
    path: &Path,
    connection: &Connection,
    options: &Options,
) -> Result<Option<ShardIdentity>, StoreError> {
    let found = ledger::identity(connection).map_err(|error| match error {
        Failure::Sqlite(error) => failure(path, options, error),
        Failure::Refused(kind) => OpenFailure::Damaged {
            path: path.into(),
            reason: kind.to_string(),
        }
        .into_error(),
    })?;
    match &options.identity {
        Some(expected) if found.as_ref() != Some(expected) => Err(StoreError::new(
            Operation::Open,
            StoreErrorKind::WrongShard {
                expected: expected.clone(),
                found,
            },
        )
        .with_shard(expected.shard)),
        _ => Ok(found),
    }
}

/// What SQLite's refusal to open a file means.
pub(crate) fn failure(path: &Path, options: &Options, error: rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenFailure::NotADatabase { path },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenFailure::Locked {
            path,
            waited: options.busy_timeout,
        },
        Some(ErrorCode::ReadOnly) => OpenFailure::ReadOnly { path },
        Some(ErrorCode::CannotOpen) if path.is_file() => OpenFailure::ReadOnly { path },
        Some(ErrorCode::CannotOpen) if path.parent().is_some_and(|parent| !parent.exists()) => {
            let reason = "its directory does not exist: create that first".into();
            OpenFailure::Unreachable { path, reason }
        }
        // A table or a column that is not there is an unknown name to SQLite.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) | None => OpenFailure::Damaged {
            path,
            reason: error.to_string(),
        },
        Some(_) => OpenFailure::Unreachable {
            path,
            reason: error.to_string(),
        },
    }
    .into_error()
}
