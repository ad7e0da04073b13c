//! The runtime that runs each execution on an instance of its own.

mod assigned;
mod boot;
mod error;
mod options;
mod platform;
mod quota;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loom_journal::{ExecutionJournal, JournalError, JournalOptions, read_outcome, this_process};
use loom_spi::{
    AcquireFence, CancelRequest, Cancellation, DispatchError, DispatchRequest, EventStore,
    ExecutionDispatcher, ExecutionId, ExecutionOutcome,
};
use tokio::runtime::Handle;
use tokio::time::sleep;

pub use self::assigned::{Assignment, AssignmentError};
pub use self::error::InstanceError;
pub use self::options::InstanceOptions;
pub use self::platform::{
    ComputePlatform, Instance, InstanceState, Observation, PlatformError, PlatformErrorKind,
};
use self::quota::Quota;
use crate::error::RunError;
use crate::execute::{Setting, open};
use crate::join::{cancel, join_or_start};
use crate::keeper::LeaseKeeper;
use crate::running::{Interruption, Ran, RunGuard, Running, RunningSet};

/// Runs each execution on a fresh instance of a platform: a process, a container, whatever `P` boots.
///
/// The platform only boots, observes and stops. What an execution came to is read from its log: an instance that
/// ends without a terminal event there was lost, whatever the platform says about it, and one that the platform
/// does not answer about is waited for until the [deadline](InstanceOptions::deadline).
///
/// For each execution, a fence is taken and handed to the instance. When this runtime gives an instance up it takes
/// the fence again, so that the instance, if it boots late or goes on, can write nothing more and starts no
/// effect. So there is one writer at any time, and dispatching again is always safe.
///
/// Dispatching an id that runs here, or on an instance that another runtime watches, joins it. If that runtime dies,
/// its instances run on, and whoever dispatches the same ids waits for them.
///
/// Dropping the runtime stops nothing; [`shut_down`](Self::shut_down) does. It runs in a Tokio runtime that has its
/// timer enabled. Cheap to clone; all clones are one runtime.
///
/// On the instance, [`LocalWorkerRuntime::run_assigned`](crate::LocalWorkerRuntime::run_assigned) does the rest.
pub struct InstanceWorkerRuntime<P> {
    inner: Arc<Inner<P>>,
}

struct Inner<P> {
    setting: Setting,
    platform: P,
    options: InstanceOptions,
    quota: Quota,
    running: Arc<RunningSet>,
}

impl<P: ComputePlatform> InstanceWorkerRuntime<P> {
    /// A runtime whose executions keep their logs in `store`, which has to have fences, and run on instances
    /// that `platform` boots.
    #[must_use]
    pub fn new(store: Arc<dyn EventStore>, platform: P, options: InstanceOptions) -> Self {
        let setting = Setting {
            store,
            options: JournalOptions::default().with_lease(options.lease),
            when_leased: options.when_leased,
        };
        let quota = Quota::new(options.quota);
        Self {
            inner: Arc::new(Inner {
                setting,
                platform,
                options,
                quota,
                running: Arc::default(),
            }),
        }
    }

    /// How many executions are watched here at this moment.
    #[must_use]
    pub fn running(&self) -> usize {
        self.inner.running.len()
    }

    /// The platform.
    #[must_use]
    pub fn platform(&self) -> &P {
        &self.inner.platform
    }

    /// Stops the instances that are watched here, and returns when they have stopped. Nothing is recorded of
    /// that, and their leases are given up, so that any runtime can go on with the executions at once.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting. The instances are stopped all the same.
    pub async fn shut_down(&self) {
        self.inner.running.stop().await;
    }

    fn spawn(&self, handle: &Handle, guard: RunGuard) {
        let inner = Arc::clone(&self.inner);
        handle.spawn(async move {
            let (ran, instance) = inner.run(&guard.running).await;
            guard.finish(ran);
            if let Some(instance) = instance {
                inner.forget(&instance).await;
            }
        });
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<P: ComputePlatform> ExecutionDispatcher for InstanceWorkerRuntime<P> {
    async fn dispatch(&self, request: DispatchRequest) -> Result<ExecutionOutcome, DispatchError> {
        let store = &*self.inner.setting.store;
        join_or_start(&self.inner.running, store, request, |handle, guard| {
            self.spawn(handle, guard);
        })
        .await
    }

    async fn cancel(&self, request: CancelRequest) -> Result<Cancellation, DispatchError> {
        cancel(&self.inner.running, &self.inner.setting, request).await
    }
}

/// What is to be done with an execution whose instance was watched.
enum Watched {
    /// Its log says how it ended.
    Ended(ExecutionOutcome),
    /// Its instance is given up.
    GivenUp(InstanceError),
    /// Somebody took it over, or the log makes no sense.
    Failed(JournalError),
    Interrupted(Interruption),
}

impl<P: ComputePlatform> Inner<P> {
    /// Runs an execution; says what came of it and on which instance, if it came to one.
    async fn run(&self, run: &Arc<Running>) -> (Ran, Option<Instance>) {
        match self.open(run).await {
            Err(ran) => (ran, None),
            Ok((journal, instance)) => {
                let ran = self.run_on(&journal, &instance, run).await;
                (ran, Some(instance))
            }
        }
    }

    /// Takes the fence, begins the log, and names the instance: unless that came to an end already.
    async fn open(&self, run: &Arc<Running>) -> Result<(ExecutionJournal, Instance), Ran> {
        let id = &run.request.id;
        if self.setting.store.capabilities().fencing.is_none() {
            return Err(self.failed(id, InstanceError::NoFencing));
        }
        let setting = Setting {
            store: Arc::clone(&self.setting.store),
            // Each run is a holder of its own: a later one must not take over from an instance that lives.
            options: self.setting.options.clone().with_holder(new_holder()),
            when_leased: self.setting.when_leased,
        };
        let journal = match open(&setting, run).await {
            Ok(Some(journal)) => journal,
            Ok(None) => return Err(Ran::Stopped),
            Err(error) => return Err(Ran::To(Err(error.into()))),
        };
        if let Some(outcome) = journal.outcome() {
            return Err(Ran::To(Ok(outcome.clone())));
        }
        let Some(token) = journal.token() else {
            return Err(self.failed(id, InstanceError::NoFencing));
        };
        let flow = &run.request.flow;
        let instance = Instance::new(&self.options.scope, id.clone(), token, flow.as_str());
        Ok((journal, instance))
    }

    async fn run_on(
        &self,
        journal: &ExecutionJournal,
        instance: &Instance,
        run: &Arc<Running>,
    ) -> Ran {
        let id = &instance.execution;
        match self.boot_and_watch(journal, instance, run).await {
            Watched::Ended(outcome) => Ran::To(Ok(outcome)),
            Watched::Failed(error) => match read_outcome(&*self.setting.store, id).await {
                Ok(Some(outcome)) => Ran::To(Ok(outcome)),
                _ => Ran::To(Err(error.into())),
            },
            Watched::GivenUp(error) => match self.fence_out(id).await {
                // It ended after all, before the fence was taken.
                Ok(Some(outcome)) => Ran::To(Ok(outcome)),
                Ok(None) => self.failed(id, error),
                Err(error) => Ran::To(Err(error.into())),
            },
            Watched::Interrupted(Interruption::Cancelled(reason)) => {
                self.stop(instance).await;
                Ran::To(self.cancelled(run, reason).await.map_err(Into::into))
            }
            Watched::Interrupted(Interruption::Stopped) => {
                self.stop(instance).await;
                // If it did not stop, it is out now; if this fails, its lease lapses.
                let _ = self.fence_out(id).await;
                Ran::Stopped
            }
        }
    }

    async fn boot_and_watch(
        &self,
        journal: &ExecutionJournal,
        instance: &Instance,
        run: &Running,
    ) -> Watched {
        let mut keeper = LeaseKeeper::start(journal);
        let work = async {
            match self.boot(instance).await {
                Ok(()) => self.watch(instance).await,
                Err(error) => Watched::GivenUp(error),
            }
        };
        tokio::select! {
            biased;
            interruption = run.interrupted() => Watched::Interrupted(interruption),
            error = keeper.lost() => Watched::Failed(error),
            watched = work => watched,
        }
    }

    /// Takes the fence, so that nobody who had it before can write, and leaves the execution to whoever wants it.
    /// Returns the outcome if the log has one: nothing can follow it, and otherwise nothing can be added to it now.
    async fn fence_out(&self, id: &ExecutionId) -> Result<Option<ExecutionOutcome>, JournalError> {
        let acquire = AcquireFence::new(id.clone()).with_take_over(true);
        if let Some(fencing) = self.setting.store.capabilities().fencing {
            let acquired = fencing.acquire_fence(acquire).await;
            acquired.map_err(|source| JournalError::Store {
                id: id.clone(),
                source: Arc::new(source),
            })?;
        }
        read_outcome(&*self.setting.store, id).await
    }

    async fn cancelled(
        &self,
        run: &Running,
        reason: String,
    ) -> Result<ExecutionOutcome, JournalError> {
        let options = self.setting.options.clone().with_take_over(true);
        let store = Arc::clone(&self.setting.store);
        let journal = ExecutionJournal::open(store, &run.request, options).await?;
        match journal.outcome() {
            Some(outcome) => Ok(outcome.clone()),
            None => journal.cancel(reason).await,
        }
    }

    /// Stops an instance as well as can be: it is fenced out besides.
    async fn stop(&self, instance: &Instance) {
        self.quota.wait().await;
        let _ = self.platform.stop(instance).await;
    }

    /// Removes what is left of an instance, when nobody has a more urgent call to make.
    async fn forget(&self, instance: &Instance) {
        while !self.quota.may_look() {
            sleep(self.options.observe).await;
        }
        let _ = self.platform.forget(instance).await;
    }

    fn failed(&self, id: &ExecutionId, error: InstanceError) -> Ran {
        Ran::To(Err(RunError::Instance(id.clone(), Arc::new(error))))
    }
}

fn new_holder() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("instance {count} of {}", this_process())
}

impl<P> Clone for InstanceWorkerRuntime<P> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<P: fmt::Debug> fmt::Debug for InstanceWorkerRuntime<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstanceWorkerRuntime")
            .field("setting", &self.inner.setting)
            .field("platform", &self.inner.platform)
            .field("options", &self.inner.options)
            .field("running", &self.inner.running.len())
            .finish()
    }
}
