//! A platform whose instances are tasks, and which fails as told.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{DispatchError, EventStore, ExecutionOutcome};
use loom_worker::{
    Assignment, ComputePlatform, FlowContext, Instance, InstanceState, LocalWorkerRuntime,
    Observation, PlatformError, PlatformErrorKind,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::Counter;

/// What happens to one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boot {
    /// It runs at once.
    Runs,
    /// It is accepted, and runs when the test says so.
    Slow,
    /// It is accepted, and ends without having done anything; the platform says this about it.
    EndsAs(&'static str),
    /// It runs, and the answer is 503.
    LostAnswer,
    /// It is not accepted, and the answer is 503.
    LostRequest,
    /// The answer is 429.
    TooMany(Option<Duration>),
    /// The answer is 403.
    Refused,
    /// Somebody else has an instance of that name.
    Taken,
}

/// What is known of an instance.
#[derive(Debug)]
struct Booted {
    mark: Option<String>,
    said: Option<&'static str>,
    task: Option<JoinHandle<Result<ExecutionOutcome, DispatchError>>>,
}

#[derive(Debug, Default)]
struct State {
    boots: VecDeque<Boot>,
    /// How many looks fail from now on.
    failing_looks: usize,
    instances: HashMap<String, Booted>,
    calls: Vec<Instant>,
    boot_calls: usize,
    stops: usize,
    stops_get_lost: bool,
}

#[derive(Debug)]
pub(crate) struct TestPlatform {
    worker: LocalWorkerRuntime,
    /// How often the flow `count` ran its effect.
    pub(crate) effects: Counter,
    /// Lets slow instances begin.
    pub(crate) go: Arc<Notify>,
    /// How instances that began late ended.
    pub(crate) late: Arc<Mutex<Vec<Result<ExecutionOutcome, DispatchError>>>>,
    state: Mutex<State>,
}

impl TestPlatform {
    pub(crate) fn new(store: Arc<dyn EventStore>, boots: &[Boot]) -> Self {
        let effects = Counter::default();
        let worker = worker(store, &effects);
        let platform = Self {
            effects,
            ..Self::running(worker)
        };
        platform.state().boots.extend(boots);
        platform
    }

    /// One whose instances run the flows of this runtime.
    pub(crate) fn running(worker: LocalWorkerRuntime) -> Self {
        Self {
            worker,
            effects: Counter::default(),
            go: Arc::new(Notify::new()),
            late: Arc::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn fail_looks(&self, looks: usize) {
        self.state().failing_looks = looks;
    }

    pub(crate) fn lose_stops(&self) {
        self.state().stops_get_lost = true;
    }

    pub(crate) fn boot_calls(&self) -> usize {
        self.state().boot_calls
    }

    pub(crate) fn stops(&self) -> usize {
        self.state().stops
    }

    /// How many instances were accepted.
    pub(crate) fn instances(&self) -> usize {
        self.state().instances.len()
    }

    /// When calls came.
    pub(crate) fn calls(&self) -> Vec<Instant> {
        self.state().calls.clone()
    }

    fn start(
        &self,
        instance: &Instance,
        when: Boot,
    ) -> JoinHandle<Result<ExecutionOutcome, DispatchError>> {
        let (worker, go) = (self.worker.clone(), Arc::clone(&self.go));
        let late = Arc::clone(&self.late);
        let assignment = Assignment {
            execution: instance.execution.clone(),
            token: instance.token,
        };
        tokio::spawn(async move {
            if when != Boot::Slow {
                return worker.run_assigned(&assignment).await;
            }
            go.notified().await;
            let ended = worker.run_assigned(&assignment).await;
            late.lock().unwrap().push(ended);
            std::future::pending().await
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The instance's process: one flow that has an effect, one that fails, one that never ends.
fn worker(store: Arc<dyn EventStore>, effects: &Counter) -> LocalWorkerRuntime {
    let effects = effects.clone();
    LocalWorkerRuntime::builder(store)
        .flow("count", move |flow: FlowContext| {
            let effects = effects.clone();
            async move {
                let count = flow.effect("count", |_| async move {
                    effects.tick();
                    Ok::<_, std::io::Error>(1_u32)
                });
                Ok(count.await?)
            }
        })
        .flow("sum", |flow: FlowContext| async move {
            let mut sum: u32 = 0;
            for upstream in flow.upstream() {
                sum += flow.upstream_output::<u32>(&upstream.key)?;
            }
            Ok(sum)
        })
        .flow("panic", |_| async {
            panic!("out of paper") as Result<(), _>
        })
        .flow("wait", |_| async {
            std::future::pending::<()>().await;
            Ok(())
        })
        .build()
}

fn error(kind: PlatformErrorKind, message: &str) -> PlatformError {
    PlatformError::new(kind, message)
}

#[async_trait]
impl ComputePlatform for TestPlatform {
    async fn boot(&self, instance: &Instance) -> Result<(), PlatformError> {
        let mut state = self.state();
        state.calls.push(Instant::now());
        state.boot_calls += 1;
        if state.instances.contains_key(&instance.name) {
            return Err(error(PlatformErrorKind::Exists, "409 already exists"));
        }
        let boot = state.boots.pop_front().unwrap_or(Boot::Runs);
        let mut booted = Booted {
            mark: Some(instance.mark.clone()),
            said: None,
            task: None,
        };
        match boot {
            Boot::Runs | Boot::Slow | Boot::LostAnswer => {
                booted.task = Some(self.start(instance, boot));
            }
            Boot::EndsAs(said) => booted.said = Some(said),
            Boot::Taken => booted.mark = Some("somebody else".to_owned()),
            Boot::LostRequest => return Err(error(PlatformErrorKind::Unknown, "503")),
            Boot::TooMany(retry_after) => {
                return Err(error(PlatformErrorKind::Busy { retry_after }, "429"));
            }
            Boot::Refused => return Err(error(PlatformErrorKind::Refused, "403 forbidden")),
        }
        state.instances.insert(instance.name.clone(), booted);
        match boot {
            Boot::LostAnswer => Err(error(PlatformErrorKind::Unknown, "503 after accept")),
            Boot::Taken => Err(error(PlatformErrorKind::Exists, "409 already exists")),
            _ => Ok(()),
        }
    }

    async fn observe(&self, instance: &Instance) -> Result<Observation, PlatformError> {
        let mut state = self.state();
        state.calls.push(Instant::now());
        if state.failing_looks > 0 {
            state.failing_looks -= 1;
            return Err(error(PlatformErrorKind::Unknown, "500 try later"));
        }
        let Some(booted) = state.instances.get(&instance.name) else {
            return Ok(Observation::absent());
        };
        let ended = booted.task.as_ref().is_none_or(JoinHandle::is_finished);
        let state = match (booted.said, ended) {
            (Some(said), _) => InstanceState::Ended { how: said.into() },
            (None, true) if booted.task.is_some() => InstanceState::Ended { how: "done".into() },
            _ => InstanceState::Live,
        };
        Ok(Observation::new(state, booted.mark.clone()))
    }

    async fn stop(&self, instance: &Instance) -> Result<(), PlatformError> {
        let mut state = self.state();
        state.calls.push(Instant::now());
        state.stops += 1;
        if state.stops_get_lost {
            return Err(error(PlatformErrorKind::Unknown, "503"));
        }
        if let Some(Booted { task, .. }) = state.instances.get_mut(&instance.name)
            && let Some(task) = task.take()
        {
            task.abort();
        }
        Ok(())
    }

    async fn forget(&self, _instance: &Instance) -> Result<(), PlatformError> {
        self.state().calls.push(Instant::now());
        Ok(())
    }
}
