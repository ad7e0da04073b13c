//! Waiting for what an instance records.

use std::time::Duration;

use loom_journal::{JournalError, read_outcome};
use loom_spi::ExecutionOutcome;
use tokio::time::{Instant as Time, sleep};

use super::{Inner, InstanceError, Watched};
use crate::{ComputePlatform, Instance, InstanceState};

/// The first pause between two looks at the log.
const FIRST_LOOK: Duration = Duration::from_millis(2);

impl<P: ComputePlatform> Inner<P> {
    /// Looks at the log until it says how the execution ended, and at the platform now and then, until the deadline.
    pub(super) async fn watch(&self, instance: &Instance) -> Watched {
        let after = self.options.deadline;
        let deadline = Time::now() + after;
        let mut observe_at = Time::now() + self.options.observe;
        let mut pause = FIRST_LOOK.min(self.options.poll_log);
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(self.options.poll_log);
            match self.outcome(instance).await {
                Ok(Some(outcome)) => return Watched::Ended(outcome),
                Ok(None) => {}
                Err(error) => return Watched::Failed(error),
            }
            let now = Time::now();
            if now >= deadline {
                self.stop(instance).await;
                let name = instance.name.clone();
                return Watched::GivenUp(InstanceError::Deadline { name, after });
            }
            if now < observe_at || !self.quota.may_look() {
                continue;
            }
            observe_at = now + self.options.observe;
            // A platform that does not answer says nothing about the instance.
            let how = match self.platform.observe(instance).await.map(|seen| seen.state) {
                Ok(InstanceState::Ended { how }) => how,
                Ok(InstanceState::Absent) => "there is no such instance".to_owned(),
                Ok(InstanceState::Live) | Err(_) => continue,
            };
            // It may have recorded its end since the last look.
            return match self.outcome(instance).await {
                Ok(Some(outcome)) => Watched::Ended(outcome),
                _ => {
                    let name = instance.name.clone();
                    Watched::GivenUp(InstanceError::Lost { name, how })
                }
            };
        }
    }

    /// What the log says. A store that is out of reach for a while says nothing.
    async fn outcome(&self, instance: &Instance) -> Result<Option<ExecutionOutcome>, JournalError> {
        match read_outcome(&*self.setting.store, &instance.execution).await {
            Err(JournalError::Store { .. }) => Ok(None),
            outcome => outcome,
        }
    }
}
