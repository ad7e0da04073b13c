//! The tables: `docs/specification/sqlite-format.md` describes them.

/// `LOOM` in ASCII: what SQLite's header says of the file, so that it is not taken for another one.
pub const APPLICATION_ID: i32 = 0x4c4f_4f4d;

/// The version of the tables that this release writes. Files of version 1 are brought up to it when they are opened.
pub const SCHEMA_VERSION: i32 = 2;

/// In bytes. A lone append writes three pages, so that 8 KiB cost it a seventh of its rate; groups of 64 gained a tenth.
pub(crate) const PAGE_SIZE: u32 = 4096;

/// Creates the tables of version 2 in an empty file.
pub(crate) fn tables() -> String {
    [TABLES, STAGED].concat()
}

/// What version 2 has beyond version 1.
pub(crate) const STAGED: &str = "
    CREATE TABLE staged (
        id         TEXT PRIMARY KEY,
        log        INTEGER NOT NULL,
        next_seq   INTEGER NOT NULL,
        events     INTEGER NOT NULL,
        closed     INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The tables of version 1.
const TABLES: &str = "
    CREATE TABLE shard (
        one         INTEGER PRIMARY KEY CHECK (one = 1),
        deployment  TEXT,
        shard       INTEGER,
        epoch       INTEGER,
        fingerprint BLOB,
        plan        BLOB
    ) STRICT;

    CREATE TABLE records (
        record       INTEGER PRIMARY KEY,
        index_key    INTEGER NOT NULL,
        id           TEXT NOT NULL,
        log          INTEGER,
        next_seq     INTEGER NOT NULL,
        closed       INTEGER NOT NULL,
        created_at   INTEGER NOT NULL,
        updated_at   INTEGER NOT NULL,
        fence        INTEGER,
        holder       TEXT,
        holder_fence INTEGER,
        lease_end    INTEGER,
        branches     INTEGER NOT NULL,
        sealed       INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX records_in_list_order ON records (index_key, id);

    CREATE TABLE events (
        position    INTEGER PRIMARY KEY,
        log         INTEGER NOT NULL,
        seq         INTEGER NOT NULL,
        terminal    INTEGER NOT NULL,
        recorded_at INTEGER NOT NULL,
        kind        TEXT NOT NULL,
        payload     BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX events_in_log ON events (log, seq);

    CREATE TABLE edges (
        position INTEGER PRIMARY KEY,
        parent   INTEGER NOT NULL,
        child    TEXT NOT NULL,
        label    TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX edges_by_child ON edges (child);
    CREATE INDEX edges_by_parent ON edges (parent);

    CREATE TABLE locations (
        shard    INTEGER PRIMARY KEY,
        location TEXT NOT NULL
    ) STRICT;

    CREATE TABLE deletions (id TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

    CREATE TABLE garbage (log INTEGER PRIMARY KEY) STRICT;
";
