//! A file is opened only if it is the store that is meant; otherwise the error says what it is and what to do.

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loom_spi::{
    Append, DeploymentId, EventStore, ExecutionId, Head, NewEvent, Operation, PlanLedger,
    ShardIdentity, StoreError, StoreErrorKind,
};
use loom_store_sqlite::{APPLICATION_ID, OpenFailure, Options, SCHEMA_VERSION, SqliteStore};
use rusqlite::Connection;

fn identity(deployment: &str, shard: u16) -> ShardIdentity {
    ShardIdentity::new(DeploymentId::new(deployment).unwrap(), shard)
}

fn id() -> ExecutionId {
    ExecutionId::new("order-7").unwrap()
}

async fn opened(path: &Path) -> StoreError {
    let options = Options::new().with_busy_timeout(Duration::from_millis(20));
    SqliteStore::open(path, options).await.unwrap_err()
}

fn failure(error: &StoreError) -> &OpenFailure {
    assert_eq!(error.operation(), Operation::Open);
    let source = error.source().expect("a source");
    let failure = source.downcast_ref().expect("an OpenFailure");
    assert!(
        error.to_string().contains(&format!("{failure}")),
        "`{error}` does not say `{failure}`"
    );
    failure
}

/// A closed store in a directory of its own.
async fn store() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let options = Options::new().with_identity(identity("orders", 2));
    let store = SqliteStore::create(&path, options).await.unwrap();
    let event = NewEvent::new("placed", "");
    store
        .append(Append::new(id(), 0, vec![event]))
        .await
        .unwrap();
    store.close().await.unwrap();
    (directory, path)
}

/// Changes a closed store behind its back.
fn tamper(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_missing_file_is_an_error_and_stays_missing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("typo.db");
    let error = opened(&path).await;
    assert!(
        matches!(failure(&error), OpenFailure::Missing { .. }),
        "{error}"
    );
    assert!(matches!(
        error.kind(),
        StoreErrorKind::Unavailable {
            outcome_known: true,
            ..
        }
    ));
    assert!(error.to_string().contains("typo.db"), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_directory_that_does_not_exist_is_named_as_the_cause() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("not-there/shard.db");
    let error = SqliteStore::create(&path, Options::new())
        .await
        .unwrap_err();
    assert!(
        matches!(failure(&error), OpenFailure::Unreachable { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("directory does not exist"),
        "{error}"
    );
}

#[tokio::test]
async fn a_name_that_sqlite_takes_for_something_else_is_a_file_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    for name in [":memory:", "file:shard.db?mode=memory"] {
        let path = directory.path().join(name);
        SqliteStore::create(&path, Options::new())
            .await
            .unwrap()
            .close()
            .await
            .unwrap();
        assert!(path.is_file(), "{name}");
    }
}

#[tokio::test]
async fn an_interrupted_creation_is_told_apart_and_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    fs::write(&path, "").unwrap();
    assert!(matches!(
        failure(&opened(&path).await),
        OpenFailure::Unfinished { .. }
    ));
    // As far as SQLite gets before the tables are there.
    tamper(&path, "PRAGMA journal_mode = WAL");
    assert!(matches!(
        failure(&opened(&path).await),
        OpenFailure::Unfinished { .. }
    ));
    SqliteStore::create(&path, Options::new()).await.unwrap();
}

#[tokio::test]
async fn other_files_are_refused_and_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    fs::write(
        &text,
        "not a database, but long enough to be taken for one by its size".repeat(20),
    )
    .unwrap();
    let foreign = directory.path().join("browser.db");
    tamper(
        &foreign,
        "PRAGMA auto_vacuum = FULL; CREATE TABLE cookies (name); PRAGMA application_id = 77",
    );

    for path in [&text, &foreign] {
        let before = fs::read(path).unwrap();
        let open = opened(path).await;
        let create = SqliteStore::create(path, Options::new()).await.unwrap_err();
        for error in [open, create] {
            match failure(&error) {
                OpenFailure::NotADatabase { .. } => assert_eq!(path, &text),
                OpenFailure::Foreign { application_id, .. } => assert_eq!(*application_id, 77),
                other => panic!("{other}"),
            }
        }
        assert_eq!(
            fs::read(path).unwrap(),
            before,
            "{} was changed",
            path.display()
        );
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_until_it_is_understood() {
    let (_directory, path) = store().await;
    tamper(
        &path,
        &format!("PRAGMA user_version = {}", SCHEMA_VERSION + 1),
    );
    let error = opened(&path).await;
    assert!(
        matches!(failure(&error), OpenFailure::NewerSchema { found, .. } if *found == SCHEMA_VERSION + 1)
    );
    assert!(error.to_string().contains("use a newer release"), "{error}");

    tamper(&path, &format!("PRAGMA user_version = {SCHEMA_VERSION}"));
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    assert!(store.head(Head::new(id())).await.unwrap().is_some());
}

#[tokio::test]
async fn damage_is_found_when_the_file_is_opened() {
    for damage in [
        "PRAGMA user_version = 0",
        "DELETE FROM shard",
        "UPDATE shard SET deployment = char(10)",
        "DROP TABLE events",
        "DROP TABLE staged",
        "DROP TABLE deletions",
        "ALTER TABLE records RENAME COLUMN fence TO gate",
    ] {
        let (_directory, path) = store().await;
        tamper(&path, damage);
        let error = opened(&path).await;
        assert!(
            matches!(failure(&error), OpenFailure::Damaged { .. }),
            "{damage}: {error}"
        );
        assert!(matches!(error.kind(), StoreErrorKind::Corrupt { .. }));
    }
}

#[tokio::test]
async fn a_garbled_header_is_no_database() {
    let (_directory, path) = store().await;
    let mut bytes = fs::read(&path).unwrap();
    bytes[..16].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(matches!(
        failure(&opened(&path).await),
        OpenFailure::NotADatabase { .. }
    ));
}

#[tokio::test]
async fn the_shard_of_another_deployment_is_refused() {
    let (_directory, path) = store().await;
    for expected in [identity("orders", 3), identity("invoices", 2)] {
        let options = Options::new().with_identity(expected.clone());
        for error in [
            SqliteStore::open(&path, options.clone()).await.unwrap_err(),
            SqliteStore::create(&path, options).await.unwrap_err(),
        ] {
            let found = Some(identity("orders", 2));
            assert_eq!(
                error.kind(),
                &StoreErrorKind::WrongShard {
                    expected: expected.clone(),
                    found
                }
            );
            assert_eq!(error.operation(), Operation::Open);
        }
    }
}

#[tokio::test]
async fn a_store_that_belongs_to_no_deployment_is_not_the_shard_that_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let store = SqliteStore::create(&path, Options::new()).await.unwrap();
    assert_eq!(store.identity().await.unwrap(), None);
    let options = Options::new().with_identity(identity("orders", 0));
    let error = SqliteStore::open(&path, options).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::WrongShard { found: None, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn creating_the_same_shard_again_opens_it() {
    let (_directory, path) = store().await;
    let options = Options::new().with_identity(identity("orders", 2));
    let store = SqliteStore::create(&path, options).await.unwrap();
    assert!(store.head(Head::new(id())).await.unwrap().is_some());
}

#[tokio::test]
async fn creating_over_a_store_without_saying_which_is_refused() {
    let (_directory, path) = store().await;
    let error = SqliteStore::create(&path, Options::new())
        .await
        .unwrap_err();
    assert!(
        matches!(failure(&error), OpenFailure::AlreadyExists { .. }),
        "{error}"
    );
    let store = SqliteStore::open(&path, Options::new()).await.unwrap();
    assert!(store.head(Head::new(id())).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_create_one_shard_at_once_all_get_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shard.db");
    let creations: Vec<_> = (0..8)
        .map(|_| {
            let options = Options::new().with_identity(identity("orders", 2));
            tokio::spawn(SqliteStore::create(path.clone(), options))
        })
        .collect();
    for creation in creations {
        let store = creation.await.unwrap().unwrap();
        assert_eq!(store.identity().await.unwrap(), Some(identity("orders", 2)));
    }
}

#[tokio::test]
async fn a_file_that_another_process_keeps_to_itself_is_locked_until_it_lets_go() {
    let (_directory, path) = store().await;
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch(
            "PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; DELETE FROM locations; COMMIT",
        )
        .unwrap();
    let error = opened(&path).await;
    assert!(
        matches!(failure(&error), OpenFailure::Locked { waited, .. } if waited.as_millis() == 20),
        "{error}"
    );
    drop(other);
    SqliteStore::open(&path, Options::new()).await.unwrap();
}

#[tokio::test]
async fn the_file_says_what_it_is() {
    let (_directory, path) = store().await;
    let connection = Connection::open(&path).unwrap();
    let pragma = |name: &str| -> i64 {
        let sql = format!("PRAGMA {name}");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(pragma("application_id"), i64::from(APPLICATION_ID));
    assert_eq!(pragma("user_version"), i64::from(SCHEMA_VERSION));
    assert_eq!(pragma("page_size"), 4096);
    assert_eq!(pragma("auto_vacuum"), 2);
    assert_eq!(&fs::read(&path).unwrap()[68..72], b"LOOM");
}

#[tokio::test]
async fn a_closed_store_is_one_file() {
    let (directory, path) = store().await;
    let files: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files, [path]);
}
