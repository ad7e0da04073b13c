//! Where the nodes of a graph run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use loom_journal::JournalOptions;
use loom_spi::{EventStore, ExecutionDispatcher};
use loom_worker::{InstanceOptions, InstanceWorkerRuntime, LocalWorkerRuntime, OsProcess};
use tokio::sync::watch;

use super::run::local_workers;
use crate::failure::Failure;

/// How long a node that runs in a process of its own may take. Its command has no limit of its own.
const DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Where the nodes run, and for how long nobody else may.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Placement<'a> {
    /// In this process.
    Local,
    /// Each in a process of its own, on the deployment that this file describes.
    Process { config: &'a Path },
}

/// What runs the nodes.
pub(super) enum Workers {
    Local(LocalWorkerRuntime),
    Process(InstanceWorkerRuntime<OsProcess>),
}

impl Workers {
    pub(super) fn new(
        placement: Placement<'_>,
        store: Arc<dyn EventStore>,
        folder: &Path,
        stop: &Arc<watch::Sender<bool>>,
        options: JournalOptions,
    ) -> Result<Self, Failure> {
        match placement {
            Placement::Local => Ok(Self::Local(local_workers(store, folder, stop, options))),
            Placement::Process { config } => processes(config, store, folder, &options),
        }
    }

    pub(super) fn dispatcher(&self) -> &dyn ExecutionDispatcher {
        match self {
            Self::Local(runtime) => runtime,
            Self::Process(runtime) => runtime,
        }
    }

    /// Stops what runs; nothing is recorded of it.
    pub(super) async fn shut_down(&self) {
        match self {
            Self::Local(runtime) => runtime.shut_down().await,
            Self::Process(runtime) => runtime.shut_down().await,
        }
    }
}

fn processes(
    config: &Path,
    store: Arc<dyn EventStore>,
    folder: &Path,
    options: &JournalOptions,
) -> Result<Workers, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::failed("cannot tell where this program is").with_cause(error))?;
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| Failure::io("find", path, error));
    let (config, folder) = (absolute(config)?, absolute(folder)?);
    let platform = OsProcess::new(move |_| {
        let mut command = Command::new(&program);
        command.arg("--config").arg(&config);
        command.args(["worker", "run", "--folder"]).arg(&folder);
        // What a node prints is its output, and stands in its log.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    });
    let mut instances = InstanceOptions::default().with_deadline(DEADLINE);
    if let Some(lease) = options.lease {
        instances = instances.with_lease(lease);
    }
    Ok(Workers::Process(InstanceWorkerRuntime::new(
        store, platform, instances,
    )))
}

/// How journals work here: `lease` is for how long an execution belongs to a process that died.
pub(crate) fn journal_options(lease: Option<Duration>) -> JournalOptions {
    let options = JournalOptions::default();
    match lease {
        Some(lease) => options.with_lease(lease),
        None => options,
    }
}
