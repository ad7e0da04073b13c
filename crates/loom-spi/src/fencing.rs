//! Fencing: a writer that was replaced can no longer write.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

use crate::request::request;
use crate::{ExecutionId, StoreError, StoreErrorKind};

/// A number that grows with every change of writer. A store remembers the highest one it has seen for an
/// execution, in an append or an acquisition, and refuses lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FenceToken(pub u64);

impl FenceToken {
    /// The last token: `i64::MAX`, so that SQL's integers hold every one.
    pub const MAX: Self = Self(i64::MAX.cast_unsigned());
}

impl fmt::Display for FenceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Hands out fence tokens, and leases that keep honest workers from fencing each other out for ever.
///
/// # Contract
/// - A token is greater than every token that the store has handed out or seen for the execution, and at
///   least the `floor`.
/// - From the first acquisition on, an append without a token, or with a lower one than the highest seen, is
///   refused as `Fenced`. A higher one is accepted and remembered.
/// - A fence can be taken before the execution exists, and outlives its deletion.
/// - Leases lapse by the store's clock, never the caller's. They protect nothing by themselves: the
///   token does.
#[async_trait]
pub trait Fencing: Send + Sync {
    /// Takes the fence, and with it a lease if one is asked for.
    ///
    /// # Errors
    /// `Leased` when another holder's lease has not lapsed and `take_over` is not set, `NotFound` when
    /// [`Require::Exists`] is not met, `Sealed`, `InvalidArgument` (a lease without a holder or of zero
    /// length, a floor past the last token), `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped acquisition may still take effect: whoever wants to write acquires again.
    async fn acquire_fence(&self, request: AcquireFence) -> Result<FenceToken, StoreError>;

    /// Makes the lease that belongs to `token` last `lease` from now, by the store's clock.
    ///
    /// # Errors
    /// `Fenced` when `token` is not the highest that the store has seen, `NotFound` when the execution was
    /// never fenced, `InvalidArgument` when the lease lasts less than a millisecond or the token was acquired
    /// without a holder, `Sealed`, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped renewal may still take effect.
    async fn renew_lease(&self, request: RenewLease) -> Result<(), StoreError>;

    /// Ends the lease that belongs to `token`; the fence stays. Does nothing when there is no lease.
    ///
    /// # Errors
    /// `Fenced` when `token` is not the highest that the store has seen, `NotFound` when the execution was
    /// never fenced, `Sealed`, `StalePlan`, `ShardBehind`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Never torn. A dropped release may still take effect.
    async fn release_lease(&self, request: ReleaseLease) -> Result<(), StoreError>;
}

request! {
    /// Asks for a fence.
    AcquireFence {
        /// The execution.
        id: ExecutionId,
    }
    optional {
        /// The token will be at least this: how a fence travels between shards.
        floor: Option<FenceToken> = None, with_floor(impl Into<Option<FenceToken>>),
        /// What must be there.
        require: Require = Require::Nothing, with_require(Require),
        /// Who asks, for the messages that others get: 1 to 255 bytes. Needed for a lease.
        holder: Option<String> = None, with_holder(impl Into<Option<String>>),
        /// Keep others from acquiring for this long, unless they take over. A resolution of one
        /// millisecond is kept.
        lease: Option<Duration> = None, with_lease(impl Into<Option<Duration>>),
        /// Acquire although another holder's lease runs.
        take_over: bool = false, with_take_over(bool),
    }
}

impl AcquireFence {
    /// Checks what can be said without looking at the store: for implementers.
    ///
    /// # Errors
    /// [`StoreErrorKind::InvalidArgument`] when a lease has no holder or lasts less than a millisecond,
    /// or the holder is not 1 to 255 bytes long.
    pub fn check(&self) -> Result<(), StoreErrorKind> {
        let reason = match (&self.holder, self.lease) {
            (Some(holder), _) if holder.is_empty() || holder.len() > 255 => {
                format!("the holder has {} bytes: expected 1 to 255", holder.len())
            }
            (None, Some(_)) => "a lease needs a holder".to_owned(),
            (_, Some(lease)) => return check_lease(lease),
            (_, None) => return Ok(()),
        };
        Err(StoreErrorKind::InvalidArgument { reason })
    }
}

impl RenewLease {
    /// Checks what can be said without looking at the store: for implementers.
    ///
    /// # Errors
    /// [`StoreErrorKind::InvalidArgument`] when the lease lasts less than a millisecond.
    pub fn check(&self) -> Result<(), StoreErrorKind> {
        check_lease(self.lease)
    }
}

fn check_lease(lease: Duration) -> Result<(), StoreErrorKind> {
    if lease.as_millis() == 0 {
        let reason = "a lease lasts at least one millisecond".to_owned();
        return Err(StoreErrorKind::InvalidArgument { reason });
    }
    Ok(())
}

/// A condition of [`AcquireFence`] and of [`RecordLineage`](crate::RecordLineage).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Require {
    /// None: the fence may come before the execution.
    #[default]
    Nothing,
    /// An unsealed record exists: a log, a fence or lineage.
    Exists,
}

request! {
    /// Makes a lease last longer.
    RenewLease {
        /// The execution.
        id: ExecutionId,
        /// The token that came with the lease.
        token: FenceToken,
        /// How long from now.
        lease: Duration,
    }
    optional {}
}

request! {
    /// Gives a lease up.
    ReleaseLease {
        /// The execution.
        id: ExecutionId,
        /// The token that came with the lease.
        token: FenceToken,
    }
    optional {}
}
