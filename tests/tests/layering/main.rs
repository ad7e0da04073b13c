//! Which crate may depend on which, and what each has to bring along.

#[cfg(test)]
mod model;
#[cfg(test)]
mod rules;

/// The crates in layers. A crate uses what its line names and nothing else of ours, and what it names lies in a
/// lower layer: crates of one layer do not know each other.
///
/// Tests may also use [`TEST_SUPPORT`].
const TABLE: &[Entry] = &[
    layer(0, "loom-shard-plan", &[]),
    layer(0, "loom-spi", &[]),
    layer(1, "loom-conformance", &["loom-spi"]),
    layer(1, "loom-graph-executor", &["loom-spi"]),
    layer(1, "loom-journal", &["loom-spi"]),
    layer(1, "loom-sharded-store", &["loom-shard-plan", "loom-spi"]),
    layer(1, "loom-store-memory", &["loom-spi"]),
    layer(1, "loom-store-postgres", &["loom-spi"]),
    layer(1, "loom-store-sqlite", &["loom-spi"]),
    layer(0, "loom-test-postgres", &[]),
    layer(2, "loom-worker", &["loom-journal", "loom-spi"]),
    top("loom-bench"),
    top("loom-cli"),
    layer(0, "loom-protocol-model", &[]),
    top("loom-tests"),
    layer(0, "xtask", &[]),
];

/// What any crate may use in its tests: an exception, so that a store is checked where it is written.
const TEST_SUPPORT: &[&str] = &[
    "loom-conformance",
    "loom-store-memory",
    "loom-test-postgres",
];

/// Crates on which everything rests. Whoever implements a store or plans with them chooses their own runtime, and
/// routing may hang on nothing that differs between machines.
const PURE: &[&str] = &["loom-shard-plan", "loom-spi"];

/// What pure crates bring along neither directly nor through others, and what it is.
const IMPURE: &[(&str, &str)] = &[
    ("ahash", "a hash that differs between machines and versions"),
    ("async-io", "a runtime"),
    ("async-std", "a runtime"),
    ("futures-executor", "a runtime"),
    ("mio", "input and output"),
    ("rusqlite", "input and output"),
    ("smol", "a runtime"),
    ("tokio", "a runtime"),
    ("tokio-postgres", "input and output"),
];

/// A line of the table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    name: &'static str,
    layer: u8,
    /// `None`: everything.
    uses: Option<&'static [&'static str]>,
}

const fn layer(layer: u8, name: &'static str, uses: &'static [&'static str]) -> Entry {
    Entry {
        name,
        layer,
        uses: Some(uses),
    }
}

const fn top(name: &'static str) -> Entry {
    Entry {
        name,
        layer: 3,
        uses: None,
    }
}

#[test]
fn the_workspace_keeps_its_layers() {
    let workspace = model::Workspace::read();
    let violations = rules::violations(TABLE, &workspace);
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn the_table_itself_has_layers() {
    for entry in TABLE {
        for used in entry.uses.unwrap_or_default() {
            let used = TABLE.iter().find(|other| other.name == *used).unwrap();
            assert!(
                used.layer < entry.layer,
                "{} may not use {}",
                entry.name,
                used.name
            );
        }
    }
}
