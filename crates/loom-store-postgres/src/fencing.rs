//! Fences and leases.

use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, FenceToken, Fencing, Operation, PlanEpoch, ReleaseLease, RenewLease, StoreError,
    StoreErrorKind, Timestamp,
};

use crate::PostgresStore;
use crate::change::{Change, Work};
use crate::failure::Failure;
use crate::record::{Holder, Record};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for PostgresStore {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let id = request.id.clone();
        self.change(Operation::AcquireFence, &id, request).await
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.change(Operation::RenewLease, &id, request).await
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        let id = request.id.clone();
        self.change(Operation::ReleaseLease, &id, request).await
    }
}

impl Work for AcquireFence {
    type Output = FenceToken;

    async fn run(&self, change: &mut Change<'_>) -> Result<FenceToken, Failure> {
        let (found, state) = change.find();
        let token = state.admit_fence(self)?;
        let now = change.now();
        if let Some(record) = &found
            && !self.take_over
            && let Some(leased) = leased(record, self.holder.as_deref(), now)
        {
            return Err(leased.into());
        }
        let mut record = found.unwrap_or_default();
        record.fence = Some(token);
        // Whoever acquires last is the holder; one who gives no name cannot hold a lease.
        record.holder = self.holder.clone().map(|name| Holder {
            name,
            token,
            lease_end: self.lease.map(|lease| end(now, lease)),
        });
        change.store(&self.id, &record).await?;
        Ok(token)
    }
}

impl Work for RenewLease {
    type Output = ();

    async fn run(&self, change: &mut Change<'_>) -> Result<(), Failure> {
        self.check()?;
        let mut record = admit(change, self.epoch, self.token)?;
        let Some(holder) = record.holder_under(self.token) else {
            return Err(StoreErrorKind::InvalidArgument {
                reason: "the token was acquired without a holder, and a lease needs one".into(),
            }
            .into());
        };
        holder.lease_end = Some(end(change.now(), self.lease));
        change.store(&self.id, &record).await
    }
}

impl Work for ReleaseLease {
    type Output = ();

    async fn run(&self, change: &mut Change<'_>) -> Result<(), Failure> {
        let mut record = admit(change, self.epoch, self.token)?;
        let lease = record.holder_under(self.token);
        if lease.and_then(|holder| holder.lease_end.take()).is_none() {
            return Ok(());
        }
        change.store(&self.id, &record).await
    }
}

/// The record, if the lease that belongs to `token` may be changed.
fn admit(
    change: &Change<'_>,
    epoch: Option<PlanEpoch>,
    token: FenceToken,
) -> Result<Record, Failure> {
    let (found, state) = change.find();
    PlanEpoch::admit(state.plan, epoch)?;
    state.admit_lease_change(token)?;
    Ok(found.unwrap_or_default())
}

/// The refusal, when somebody other than `asking` holds a lease that has not lapsed.
fn leased(record: &Record, asking: Option<&str>, now: Timestamp) -> Option<StoreErrorKind> {
    let holder = record.holder.as_ref()?;
    let left = holder
        .lease_end?
        .as_millis()
        .saturating_sub(now.as_millis());
    if left <= 0 || asking == Some(&*holder.name) {
        return None;
    }
    Some(StoreErrorKind::Leased {
        holder: holder.name.clone(),
        remaining: Duration::from_millis(left.unsigned_abs()),
    })
}

/// When a lease that is given now lapses.
fn end(now: Timestamp, lease: Duration) -> Timestamp {
    let millis = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_add(millis))
}
