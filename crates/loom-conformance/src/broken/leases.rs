//! Leases that go wrong.

use loom_spi::{AcquireFence, Operation, ReleaseLease, RenewLease, StoreError, StoreErrorKind};

use super::notes::pause;
use super::{Fault, Mutant};

impl Mutant {
    /// Changes what an acquisition says about leases.
    pub(super) async fn change_lease(&self, request: &mut AcquireFence) -> Result<(), StoreError> {
        match self.fault {
            Fault::LeaseIgnored => request.take_over = true,
            Fault::LeaseIgnoredByTheNameless => request.take_over |= request.holder.is_none(),
            Fault::TakeOverRefused => request.take_over = false,
            Fault::LeaseNeverLapses => {
                request.lease = request.lease.map(|lease| lease.saturating_mul(1000));
            }
            Fault::LeaseRefusesItsHolder => {
                let mut notes = self.notes();
                notes.acquisitions += 1;
                let (holder, number) = (request.holder.take(), notes.acquisitions);
                // The first one keeps its name, so that it is only this that is wrong.
                request.holder = holder.map(|holder| match number {
                    1 => holder,
                    _ => format!("{holder} once more ({number})"),
                });
            }
            Fault::LeaseNotAtomic => {
                if self.notes().leased.contains(&request.id) {
                    return Ok(());
                }
                pause().await;
                request.take_over = true;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) async fn renew_wrongly(&self, mut request: RenewLease) -> Result<(), StoreError> {
        let fencing = self.fencing(Operation::RenewLease)?;
        if self.fault == Fault::RenewDoesNothing {
            return self.check_token(&request.id, request.token, Operation::RenewLease);
        }
        let renewed = fencing.renew_lease(request.clone()).await;
        match Self::right_token(&renewed).filter(|_| self.fault == Fault::RenewIgnoresToken) {
            Some(token) => {
                request.token = token;
                fencing.renew_lease(request).await
            }
            None => renewed,
        }
    }

    pub(super) async fn release_wrongly(
        &self,
        mut request: ReleaseLease,
    ) -> Result<(), StoreError> {
        let fencing = self.fencing(Operation::ReleaseLease)?;
        if self.fault == Fault::ReleaseDoesNothing {
            return self.check_token(&request.id, request.token, Operation::ReleaseLease);
        }
        let released = fencing.release_lease(request.clone()).await;
        match Self::right_token(&released).filter(|_| self.fault == Fault::ReleaseIgnoresToken) {
            Some(token) => {
                request.token = token;
                fencing.release_lease(request).await
            }
            None => released,
        }
    }

    /// What a renewal or a release that does nothing still checks.
    fn check_token(
        &self,
        id: &loom_spi::ExecutionId,
        presented: loom_spi::FenceToken,
        operation: Operation,
    ) -> Result<(), StoreError> {
        let known = self.notes().tokens.get(id).copied();
        let kind = match known {
            None => StoreErrorKind::NotFound,
            Some(current) if current == presented => return Ok(()),
            Some(current) => StoreErrorKind::Fenced {
                presented: Some(presented),
                current,
            },
        };
        Err(StoreError::new(operation, kind).with_execution(id))
    }
}
