//! A store whose file or directory cannot be written is refused when it is opened.

use std::error::Error as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use loom_spi::{Append, EventStore, ExecutionId, NewEvent};
use loom_store_sqlite::{OpenFailure, Options, SqliteStore};

/// Set in the process that this test starts as an ordinary user, since nothing is read-only for root.
const PATH: &str = "LOOM_TEST_READ_ONLY";
const NOBODY: u32 = 65_534;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

#[test]
fn a_store_that_cannot_be_written_is_refused_when_it_is_opened() {
    if let Some(path) = std::env::var_os(PATH) {
        return expect_refusal(Path::new(&path));
    }
    for (file_mode, directory_mode) in [(0o444, 0o555), (0o666, 0o555), (0o444, 0o777)] {
        let directory = tempfile::tempdir().unwrap();
        // Apart from the store, because the directory of that becomes read-only.
        let inner = directory.path().join("store");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("shard.db");
        runtime().block_on(async {
            let store = SqliteStore::create(&path, Options::new()).await.unwrap();
            let id = ExecutionId::new("order-7").unwrap();
            let event = NewEvent::new("placed", "");
            store.append(Append::new(id, 0, vec![event])).await.unwrap();
            store.close().await.unwrap();
        });
        let chmod =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        chmod(&path, file_mode);
        chmod(&inner, directory_mode);

        if fs::metadata("/proc/self").is_ok_and(|process| process.uid() != 0) {
            expect_refusal(&path);
        } else {
            chmod(directory.path(), 0o755);
            let program = directory.path().join("test");
            fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
            let output = Command::new(program)
                .args([
                    "--exact",
                    "read_only::a_store_that_cannot_be_written_is_refused_when_it_is_opened",
                ])
                .env(PATH, &path)
                .uid(NOBODY)
                .output()
                .unwrap();
            let output = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.contains("1 passed"),
                "file {file_mode:o}, directory {directory_mode:o}: {output}"
            );
        }
        chmod(&inner, 0o755);
        chmod(&path, 0o644);
        // Usable again once the cause is gone.
        runtime().block_on(async {
            SqliteStore::open(&path, Options::new())
                .await
                .unwrap()
                .close()
                .await
                .unwrap();
        });
    }
}

fn expect_refusal(path: &Path) {
    let opened = runtime().block_on(SqliteStore::open(path, Options::new()));
    let error = opened.unwrap_err();
    let failure = error.source().and_then(|source| source.downcast_ref());
    assert!(
        matches!(failure, Some(OpenFailure::ReadOnly { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("read-only"), "{error}");
}
