-- A file of version 1, as it was written: one log of two events, fenced, with a branch.
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

INSERT INTO shard (one, deployment, shard, epoch, fingerprint, plan)
VALUES (1, 'orders', 2, 1, x'00000000000000000000000000000007', x'706c616e');
INSERT INTO records
VALUES (1, 3879008122881838586, 'order-4', 1, 2, 0, 1700000000000, 1700000000500, 3, 'worker', 3, NULL, 1, 0);
INSERT INTO events VALUES (1, 1, 0, 0, 1700000000000, 'placed', x'7b7d');
INSERT INTO events VALUES (2, 1, 1, 0, 1700000000500, 'paid', x'');
INSERT INTO edges VALUES (1, 1, 'branch', 'gift');

PRAGMA application_id = 0x4c4f4f4d;
PRAGMA user_version = 1;
