//! Acquisitions that go wrong.

use async_trait::async_trait;
use loom_spi::{
    AcquireFence, FenceToken, Fencing, Operation, ReleaseLease, RenewLease, Require, StoreError,
    StoreErrorKind,
};

use super::notes::pause;
use super::{Fault, Mutant};

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Fencing for Mutant {
    async fn acquire_fence(&self, mut request: AcquireFence) -> Result<FenceToken, StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::AcquireFence, request.epoch).await?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let broken = self.break_seal(Operation::AcquireFence, &id, epoch).await?;
        let token = self.acquire_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        token.map_err(|error| self.error(error))
    }

    async fn renew_lease(&self, mut request: RenewLease) -> Result<(), StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::RenewLease, request.epoch).await?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let broken = self.break_seal(Operation::RenewLease, &id, epoch).await?;
        let renewed = self.renew_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        renewed.map_err(|error| self.error(error))
    }

    async fn release_lease(&self, mut request: ReleaseLease) -> Result<(), StoreError> {
        request.id = self.id(request.id);
        request.epoch = self.epoch(Operation::ReleaseLease, request.epoch).await?;
        let (id, epoch) = (request.id.clone(), request.epoch);
        let broken = self.break_seal(Operation::ReleaseLease, &id, epoch).await?;
        let released = self.release_wrongly(request).await;
        self.mend_seal(broken, &id, epoch).await;
        released.map_err(|error| self.error(error))
    }
}

impl Mutant {
    async fn acquire_wrongly(&self, mut request: AcquireFence) -> Result<FenceToken, StoreError> {
        let id = request.id.clone();
        let fencing = self.fencing(Operation::AcquireFence)?;
        let known = self.notes().tokens.get(&id).copied();
        match self.fault {
            Fault::FloorIgnored => request.floor = None,
            Fault::RequireIgnored => request.require = Require::Nothing,
            Fault::TokenHandedOutTwice => {
                if let Some(token) = known {
                    return Ok(token);
                }
            }
            Fault::FencingUnwired => {
                let token = FenceToken(known.map_or(1, |token| token.0 + 1));
                self.handed_out(&id, token);
                return Ok(token);
            }
            Fault::AcquireNotAtomic => {
                pause().await;
                let token = FenceToken(known.map_or(1, |token| token.0 + 1));
                self.handed_out(&id, token);
                return Ok(token);
            }
            _ => self.change_lease(&mut request).await?,
        }
        let (leased, holder) = (request.lease.is_some(), request.holder.clone());
        let token = match fencing.acquire_fence(request).await {
            Err(error)
                if self.fault == Fault::SealedAfterLeased
                    && *error.kind() == StoreErrorKind::Sealed
                    && self.notes().leased.contains(&id) =>
            {
                let kind = StoreErrorKind::Leased {
                    holder: holder.unwrap_or_default(),
                    remaining: crate::suites::MINUTE,
                };
                let error = StoreError::new(Operation::AcquireFence, kind);
                return Err(error.with_execution(&id));
            }
            token => token?,
        };
        if let Some(holder) = holder {
            self.notes().moves.holders.insert(id.clone(), holder);
        }
        self.handed_out(&id, token);
        if leased {
            self.notes().leased.insert(id);
        }
        Ok(token)
    }

    fn handed_out(&self, id: &loom_spi::ExecutionId, token: FenceToken) {
        self.notes().tokens.insert(id.clone(), token);
    }

    /// Whether a refusal was for the token, and which one would have been right.
    pub(super) fn right_token<T>(result: &Result<T, StoreError>) -> Option<FenceToken> {
        match result.as_ref().err()?.kind() {
            StoreErrorKind::Fenced { current, .. } => Some(*current),
            _ => None,
        }
    }
}
