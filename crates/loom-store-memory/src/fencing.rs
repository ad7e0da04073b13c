//! Fences and leases.

use std::time::Duration;

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, ExecutionId, FenceToken, Fencing, Operation, PlanEpoch, RecordState,
    ReleaseLease, RenewLease, StoreError, StoreErrorKind,
};

use crate::MemoryStore;
use crate::record::{Holder, Record};
use crate::store::refused;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for MemoryStore {
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError> {
        let now = self.clock.now();
        let (mut stripe, position) = self.stripes.write(&request.id);
        let plan = stripe.plan;
        let record = stripe.records.get(&position);
        let state = record.map_or_else(
            || RecordState::new().with_plan(plan),
            |record| record.state(plan),
        );
        let token = state
            .admit_fence(&request)
            .and_then(|token| admit_lease(record, &request, now).map(|()| token))
            .map_err(refused(Operation::AcquireFence, &request.id))?;
        let record = stripe.records.entry(position).or_default();
        record.fence = Some(token);
        // Whoever acquires last is the holder; one who gives no name cannot hold a lease.
        record.set_holder(request.holder.map(|name| Holder {
            name,
            token,
            leased_until: request.lease.map(|lease| now.saturating_add(lease)),
        }));
        Ok(token)
    }

    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError> {
        let now = self.clock.now();
        let check = request.check();
        self.change_lease(&request.id, request.epoch, request.token, check, |holder| {
            let holder = holder.ok_or_else(|| StoreErrorKind::InvalidArgument {
                reason: "the token was acquired without a holder, and a lease needs one".to_owned(),
            })?;
            holder.leased_until = Some(now.saturating_add(request.lease));
            Ok(())
        })
        .map_err(refused(Operation::RenewLease, &request.id))
    }

    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError> {
        self.change_lease(
            &request.id,
            request.epoch,
            request.token,
            Ok(()),
            |holder| {
                if let Some(holder) = holder {
                    holder.leased_until = None;
                }
                Ok(())
            },
        )
        .map_err(refused(Operation::ReleaseLease, &request.id))
    }
}

impl MemoryStore {
    /// Lets `change` have the holder of `token`, if that token is the highest.
    fn change_lease(
        &self,
        id: &ExecutionId,
        epoch: Option<PlanEpoch>,
        token: FenceToken,
        argument: Result<(), StoreErrorKind>,
        change: impl FnOnce(Option<&mut Holder>) -> Result<(), StoreErrorKind>,
    ) -> Result<(), StoreErrorKind> {
        argument?;
        let (mut stripe, position) = self.stripes.write(id);
        stripe.admit(epoch)?;
        let record = stripe
            .records
            .get_mut(&position)
            .ok_or(StoreErrorKind::NotFound)?;
        record.state(None).admit_lease_change(token)?;
        change(record.holder_mut().filter(|holder| holder.token == token))
    }
}

/// Refuses an acquisition while another holder's lease runs.
fn admit_lease(
    record: Option<&Record>,
    request: &AcquireFence,
    now: Duration,
) -> Result<(), StoreErrorKind> {
    let Some(holder) = record.and_then(Record::holder) else {
        return Ok(());
    };
    let remaining = holder
        .leased_until
        .map_or(Duration::ZERO, |until| until.saturating_sub(now));
    let same = request.holder.as_deref() == Some(&*holder.name);
    if remaining.is_zero() || same || request.take_over {
        return Ok(());
    }
    Err(StoreErrorKind::Leased {
        holder: holder.name.clone(),
        remaining,
    })
}
