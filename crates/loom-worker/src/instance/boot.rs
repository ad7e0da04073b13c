//! Booting an instance: once, whatever the platform answers.

use std::time::Duration;

use tokio::time::{Instant as Time, sleep};

use super::{Inner, InstanceError};
use crate::{ComputePlatform, Instance, InstanceState, PlatformError, PlatformErrorKind};

/// How far pauses grow.
const MOST_PAUSE: u32 = 100;

/// What a look-up after a doubtful boot says.
enum Found {
    /// It is there, and ours.
    Ours,
    /// It is not there: the boot was not accepted.
    Nothing,
}

impl<P: ComputePlatform> Inner<P> {
    /// Has the platform boot an instance, trying again while it has no room, until the deadline.
    pub(super) async fn boot(&self, instance: &Instance) -> Result<(), InstanceError> {
        let deadline = Time::now() + self.options.deadline;
        let mut pause = self.options.backoff;
        loop {
            self.quota.wait().await;
            let Err(error) = self.platform.boot(instance).await else {
                return Ok(());
            };
            let at_least = match error.kind() {
                PlatformErrorKind::Refused => return Err(not_booted(instance, error)),
                PlatformErrorKind::Busy { retry_after } => retry_after.unwrap_or_default(),
                // An earlier request of ours, whose answer was lost, or somebody else's.
                PlatformErrorKind::Exists | PlatformErrorKind::Unknown => {
                    match self.look_up(instance, &error).await? {
                        Found::Ours => return Ok(()),
                        Found::Nothing => Duration::ZERO,
                    }
                }
            };
            let wait = pause.max(at_least);
            if Time::now() + wait >= deadline {
                return Err(not_booted(instance, error));
            }
            sleep(wait).await;
            pause = (pause * 2).min(self.options.backoff * MOST_PAUSE);
        }
    }

    async fn look_up(
        &self,
        instance: &Instance,
        said: &PlatformError,
    ) -> Result<Found, InstanceError> {
        self.quota.wait().await;
        let seen = match self.platform.observe(instance).await {
            Ok(seen) => seen,
            Err(source) => {
                return Err(InstanceError::BootUnknown {
                    name: instance.name.clone(),
                    said: said.to_string(),
                    source,
                });
            }
        };
        match seen.state {
            InstanceState::Absent => Ok(Found::Nothing),
            _ if seen.mark.as_deref() == Some(&*instance.mark) => Ok(Found::Ours),
            _ => Err(InstanceError::SomebodyElses {
                name: instance.name.clone(),
                mark: instance.mark.clone(),
                carried: seen.mark,
            }),
        }
    }
}

fn not_booted(instance: &Instance, source: PlatformError) -> InstanceError {
    InstanceError::NotBooted {
        name: instance.name.clone(),
        source,
    }
}
