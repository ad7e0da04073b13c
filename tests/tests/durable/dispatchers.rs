//! The conformance suite of dispatchers, over runtimes that keep their logs in a file: one that runs flows in this
//! process, and one that has a process of its own for each execution.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loom_conformance::{DispatcherFactory, DispatcherSubject, Effort};
use loom_spi::{BoxError, EventStore, ExecutionDispatcher, ExecutionId};
use loom_store_sqlite::{Options, SqliteStore};
use loom_tests::flows::worker;
use loom_worker::{InstanceOptions, InstanceWorkerRuntime, OsProcess};

#[derive(Clone, Copy)]
enum Kind {
    Local,
    Process,
}

#[async_trait]
impl DispatcherFactory for Kind {
    async fn create(&self) -> Result<DispatcherSubject, BoxError> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("store.db");
        let options = Options::new().with_busy_timeout(Duration::from_secs(60));
        let store: Arc<dyn EventStore> = Arc::new(SqliteStore::create(file, options).await?);
        let make = || -> Arc<dyn ExecutionDispatcher> {
            let store = Arc::clone(&store);
            match self {
                Self::Local => Arc::new(worker(store, folder.path())),
                Self::Process => Arc::new(processes(store, folder.path())),
            }
        };
        let (first, second) = (make(), make());
        // The folder lives as long as the subject.
        let runs = move |id: &ExecutionId| {
            let begun = fs::read_to_string(folder.path().join("begun")).unwrap_or_default();
            begun.lines().filter(|line| *line == id.as_str()).count()
        };
        Ok(DispatcherSubject::new(store, first, second, runs))
    }

    fn effort(&self) -> Effort {
        let mut effort = Effort::default();
        effort.rounds = 3;
        effort
    }
}

fn processes(store: Arc<dyn EventStore>, folder: &Path) -> InstanceWorkerRuntime<OsProcess> {
    let folder = folder.to_owned();
    let platform = OsProcess::new(move |_| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loom-durable-node"));
        command.arg("instance").arg(&folder);
        command.stdout(std::process::Stdio::null());
        command
    });
    let options = InstanceOptions::default().with_observe(Duration::from_millis(20));
    InstanceWorkerRuntime::new(store, platform, options)
}

loom_conformance::dispatcher!(local_worker_runtime, Kind::Local);
loom_conformance::dispatcher!(os_processes, Kind::Process);
