//! A process of this machine per execution.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::{
    ComputePlatform, Instance, InstanceState, Observation, PlatformError, PlatformErrorKind,
};

/// Makes the command of an instance.
type MakeCommand = dyn Fn(&Instance) -> std::process::Command + Send + Sync;

/// Boots a process of this machine for each execution.
///
/// Each leads a process group of its own. Stopping it asks the group to end (SIGTERM), and kills what is left of it
/// after a [grace](Self::with_grace) (SIGKILL). Processes run on when this is dropped.
///
/// ```no_run
/// use std::process::Command;
/// use std::sync::Arc;
/// use loom_spi::EventStore;
/// use loom_worker::{InstanceOptions, InstanceWorkerRuntime, OsProcess};
///
/// fn runtime(store: Arc<dyn EventStore>) -> InstanceWorkerRuntime<OsProcess> {
///     // The program ends with `LocalWorkerRuntime::run_assigned`; the environment says what to run.
///     let platform = OsProcess::new(|_| Command::new("/usr/local/bin/my-worker"));
///     InstanceWorkerRuntime::new(store, platform, InstanceOptions::default())
/// }
/// ```
pub struct OsProcess {
    command: Box<MakeCommand>,
    grace: Duration,
    started: Mutex<HashMap<String, Process>>,
}

/// One process that was started.
#[derive(Debug)]
struct Process {
    mark: String,
    group: Option<Pid>,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
}

impl OsProcess {
    /// Processes that run what `command` says, with the instance's environment added. Where their input and output
    /// go is for `command` to say: by default, to where those of this process go.
    #[must_use]
    pub fn new(
        command: impl Fn(&Instance) -> std::process::Command + Send + Sync + 'static,
    ) -> Self {
        Self {
            command: Box::new(command),
            grace: Duration::from_secs(5),
            started: Mutex::default(),
        }
    }

    /// Sets how long a process that is stopped has to end by itself. Default 5 s.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The id of the process that an instance is, while it is known here and was not forgotten.
    #[must_use]
    pub fn process_id(&self, name: &str) -> Option<u32> {
        let group = self.started().get(name)?.group?;
        u32::try_from(group.as_raw_nonzero().get()).ok()
    }

    fn started(&self) -> MutexGuard<'_, HashMap<String, Process>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ComputePlatform for OsProcess {
    async fn boot(&self, instance: &Instance) -> Result<(), PlatformError> {
        let mut started = self.started();
        let Entry::Vacant(place) = started.entry(instance.name.clone()) else {
            let message = format!("there is a process for `{}`", instance.name);
            return Err(PlatformError::new(PlatformErrorKind::Exists, message));
        };
        let mut command = (self.command)(instance);
        command.envs(instance.env());
        let mut command = Command::from(command);
        let child = command.process_group(0).spawn().map_err(|error| {
            let program = command.as_std().get_program().display().to_string();
            not_started(&program, error)
        })?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        place.insert(Process {
            mark: instance.mark.clone(),
            group,
            ended: wait_for(child),
        });
        Ok(())
    }

    async fn observe(&self, instance: &Instance) -> Result<Observation, PlatformError> {
        let started = self.started();
        let Some(process) = started.get(&instance.name) else {
            return Ok(Observation::absent());
        };
        let state = match &*process.ended.borrow() {
            None => InstanceState::Live,
            Some(how) => InstanceState::Ended { how: how.clone() },
        };
        Ok(Observation::new(state, process.mark.clone()))
    }

    async fn stop(&self, instance: &Instance) -> Result<(), PlatformError> {
        let (group, mut ended) = match self.started().get(&instance.name) {
            Some(process) => (process.group, process.ended.clone()),
            None => return Ok(()),
        };
        let Some(group) = group else { return Ok(()) };
        // An error means that nothing is left of the group.
        let _ = kill_process_group(group, Signal::TERM);
        let gone = async {
            // Nobody says how it ended when the runtime shuts down.
            let _ = ended.wait_for(Option::is_some).await;
            // What it had started may take a moment longer.
            while test_kill_process_group(group).is_ok() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        if timeout(self.grace, gone).await.is_err() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(())
    }

    async fn forget(&self, instance: &Instance) -> Result<(), PlatformError> {
        let mut started = self.started();
        if let Entry::Occupied(entry) = started.entry(instance.name.clone())
            && entry.get().ended.borrow().is_some()
        {
            entry.remove();
        }
        Ok(())
    }
}

/// Waits for a process in the background, so that nothing is left of it in the process table.
fn wait_for(mut child: Child) -> watch::Receiver<Option<String>> {
    let (tell, ended) = watch::channel(None);
    tokio::spawn(async move {
        let how = match child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => format!("it cannot be waited for: {error}"),
        };
        // Nobody may be listening any more.
        let _ = tell.send(Some(how));
    });
    ended
}

fn not_started(program: &str, error: io::Error) -> PlatformError {
    let kind = match error.kind() {
        // Too many processes, too little memory: for now.
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            PlatformErrorKind::Busy { retry_after: None }
        }
        _ => PlatformErrorKind::Refused,
    };
    let message = format!("`{program}` could not be started: {error}");
    PlatformError::new(kind, message).with_source(error)
}

impl fmt::Debug for OsProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OsProcess")
            .field("grace", &self.grace)
            .field("started", &self.started().len())
            .finish_non_exhaustive()
    }
}
