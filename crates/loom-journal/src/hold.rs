//! By what right a journal writes: its token, and the lease that keeps others from taking the execution over.

use std::process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loom_spi::{
    AcquireFence, EventStore, ExecutionId, FenceToken, ReleaseLease, RenewLease, StoreError,
};

use crate::run::random;
use crate::{JournalError, JournalOptions};

/// A fence that was taken, and the lease that came with it.
#[derive(Debug)]
pub(crate) struct Hold {
    store: Arc<dyn EventStore>,
    id: ExecutionId,
    pub(crate) token: FenceToken,
    pub(crate) lease: Option<Duration>,
}

impl Hold {
    /// Takes the fence, or makes sure of the one that was taken for this journal; `None` where the store has no fences.
    pub(crate) async fn take(
        store: &Arc<dyn EventStore>,
        id: &ExecutionId,
        options: &JournalOptions,
    ) -> Result<Option<Arc<Self>>, JournalError> {
        let Some(fencing) = store.capabilities().fencing else {
            return Ok(None);
        };
        let refused = |error| JournalError::refused(id, error);
        let hold = |token| Self {
            store: Arc::clone(store),
            id: id.clone(),
            token,
            lease: options.lease,
        };
        if let Some(token) = options.token {
            let hold = hold(token);
            hold.confirm().await.map_err(refused)?;
            return Ok(Some(Arc::new(hold)));
        }
        let mut acquire = AcquireFence::new(id.clone()).with_take_over(options.take_over);
        if options.lease.is_some() {
            let holder = options.holder.as_deref().unwrap_or_else(|| this_process());
            acquire.holder = Some(holder.to_owned());
            acquire.lease = options.lease;
        }
        let token = fencing.acquire_fence(acquire).await.map_err(refused)?;
        Ok(Some(Arc::new(hold(token))))
    }

    /// Asks the store whether the token still is the highest, and makes the lease last if there is one.
    pub(crate) async fn confirm(&self) -> Result<(), StoreError> {
        let Some(lease) = self.lease else {
            // There is no lease, so that this changes nothing: the store compares the token.
            return self.release().await;
        };
        match self.store.capabilities().fencing {
            Some(fencing) => {
                let renew = RenewLease::new(self.id.clone(), self.token, lease);
                fencing.renew_lease(renew).await
            }
            None => Ok(()),
        }
    }

    pub(crate) async fn release(&self) -> Result<(), StoreError> {
        match self.store.capabilities().fencing {
            Some(fencing) => {
                let release = ReleaseLease::new(self.id.clone(), self.token);
                fencing.release_lease(release).await
            }
            None => Ok(()),
        }
    }
}

/// A name for this process that no other one has: who holds the leases of journals that were not told.
#[must_use]
pub fn this_process() -> &'static str {
    static HOLDER: OnceLock<String> = OnceLock::new();
    HOLDER.get_or_init(|| format!("process {} ({})", process::id(), random()))
}
