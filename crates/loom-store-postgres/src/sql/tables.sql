-- Version 1. docs/specification/postgres-format.md describes all of this.

CREATE TABLE loom_schema (version int4 NOT NULL);

CREATE TABLE shard (
    one         int2 PRIMARY KEY CHECK (one = 1),
    deployment  text COLLATE "C",
    shard       int4,
    epoch       int8,
    fingerprint bytea,
    plan        bytea,
    CHECK ((deployment IS NULL) = (shard IS NULL)),
    CHECK ((epoch IS NULL) = (fingerprint IS NULL)),
    CHECK ((epoch IS NULL) = (plan IS NULL))
);
INSERT INTO shard (one) VALUES (1);

CREATE TABLE records (
    index_key    int8 NOT NULL,
    id           text COLLATE "C" NOT NULL,
    log          uuid,
    next_seq     int8 NOT NULL DEFAULT 0,
    created_at   int8 NOT NULL DEFAULT 0,
    updated_at   int8 NOT NULL DEFAULT 0,
    fence        int8,
    holder_fence int8,
    lease_end    int8,
    branches     int8 NOT NULL DEFAULT 0,
    next_branch  int8 NOT NULL DEFAULT 0,
    closed       bool NOT NULL DEFAULT false,
    sealed       bool NOT NULL DEFAULT false,
    holder       bytea,
    PRIMARY KEY (index_key, id)
    -- Room on each page, so that an append changes a row without touching the index.
) WITH (fillfactor = 80);

CREATE TABLE events (
    log         uuid  NOT NULL,
    seq         int8  NOT NULL,
    recorded_at int8  NOT NULL,
    terminal    bool  NOT NULL,
    kind        bytea NOT NULL,
    payload     bytea NOT NULL,
    PRIMARY KEY (log, seq)
);

CREATE TABLE edges (
    child    text COLLATE "C" PRIMARY KEY,
    parent   text COLLATE "C" NOT NULL,
    position int8  NOT NULL,
    label    bytea NOT NULL
);
CREATE INDEX edges_of_parent ON edges (parent, position);

CREATE TABLE locations (
    shard    int4 PRIMARY KEY,
    location text NOT NULL
);

CREATE TABLE staged (
    id         text COLLATE "C" PRIMARY KEY,
    log        uuid NOT NULL,
    next_seq   int8 NOT NULL,
    events     int8 NOT NULL,
    created_at int8 NOT NULL,
    updated_at int8 NOT NULL,
    closed     bool NOT NULL
);

CREATE TABLE deletions (id text COLLATE "C" PRIMARY KEY);

CREATE TABLE garbage (log uuid PRIMARY KEY);
