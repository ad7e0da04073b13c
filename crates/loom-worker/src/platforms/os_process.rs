//! A process of this machine per execution.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
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
/// after a [grace](Self::with_grace) (SIGKILL). When a process is killed alone, from outside, what is left of its group is
/// killed as well, so that a command that it had started does not go on unseen.
///
/// Processes run on when this is dropped, and when the process that has it is killed. They can write nothing more once
/// somebody has taken their executions over, but what they had begun goes on until then: on Linux, a program that is not
/// to outlive whoever started it asks for that itself (`prctl` with `PR_SET_PDEATHSIG`).
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
            ended: wait_for(child, group),
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
fn wait_for(mut child: Child, group: Option<Pid>) -> watch::Receiver<Option<String>> {
    let (tell, ended) = watch::channel(None);
    tokio::spawn(async move {
        let how = match child.wait().await {
            Ok(status) => {
                if let (Some(_), Some(group)) = (status.signal(), group) {
                    // It could not end what it had started. An error means that nothing is left of the group.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                status.to_string()
            }
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use loom_spi::{ExecutionId, FenceToken};
    use rustix::process::kill_process;

    use super::*;

    /// Whether a process runs; one that has ended and that nobody waited for does not.
    fn runs(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !stat.is_empty() && !stat.contains(") Z ")
    }

    #[tokio::test]
    async fn a_command_that_a_killed_process_had_started_is_killed_too() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("pid");
        let script = format!("sleep 3600 & echo $! > {}; wait", told.display());
        let platform = OsProcess::new(move |_| {
            let mut command = std::process::Command::new("sh");
            command.arg("-c").arg(&script);
            command
        });
        let id = ExecutionId::new("e").unwrap();
        let instance = Instance::new("test", id, FenceToken(1), "flow");
        platform.boot(&instance).await.unwrap();
        let command = loop {
            match fs::read_to_string(&told) {
                Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
                _ => tokio::task::yield_now().await,
            }
        };
        assert!(runs(&command));
        let leader = platform.process_id(&instance.name).unwrap();
        kill_process(Pid::from_raw(leader.cast_signed()).unwrap(), Signal::KILL).unwrap();
        while runs(&command) {
            tokio::task::yield_now().await;
        }
        // The process itself was waited for before that.
        while !matches!(
            platform.observe(&instance).await.unwrap().state,
            InstanceState::Ended { .. }
        ) {
            tokio::task::yield_now().await;
        }
    }
}
