//! What a store answers when it does not do what was asked.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::{ExecutionId, FenceToken, PlanEpoch, ShardIdentity};

/// A cause from a lower layer.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why an operation of a store did not happen: what was asked, of which execution and shard, what is in
/// the way, and whether asking again can help.
///
/// ```
/// use loom_spi::{ExecutionId, Operation, Retry, StoreError, StoreErrorKind};
///
/// let error = StoreError::new(
///     Operation::Append,
///     StoreErrorKind::SequenceConflict { expected: 4, actual: 6 },
/// )
/// .with_execution(&ExecutionId::new("order-7")?)
/// .with_shard(2);
/// assert_eq!(error.retry(), Retry::AfterReread);
/// assert!(error.to_string().starts_with("cannot append to execution `order-7` on shard 2: "));
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[derive(Debug)]
pub struct StoreError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: Operation,
    kind: StoreErrorKind,
    execution: Option<ExecutionId>,
    shard: Option<u16>,
    source: Option<BoxError>,
}

impl StoreError {
    /// An error of `operation`, about no execution and no shard in particular.
    #[must_use]
    pub fn new(operation: Operation, kind: StoreErrorKind) -> Self {
        Self(Box::new(Inner {
            operation,
            kind,
            execution: None,
            shard: None,
            source: None,
        }))
    }

    /// Names the execution, unless one is named already.
    #[must_use]
    pub fn with_execution(mut self, id: &ExecutionId) -> Self {
        self.0.execution.get_or_insert_with(|| id.clone());
        self
    }

    /// Names the shard, unless one is named already.
    #[must_use]
    pub fn with_shard(mut self, shard: u16) -> Self {
        self.0.shard.get_or_insert(shard);
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What is in the way.
    #[must_use]
    pub fn kind(&self) -> &StoreErrorKind {
        &self.0.kind
    }

    /// What was asked.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.0.operation
    }

    /// Which execution it was about.
    #[must_use]
    pub fn execution(&self) -> Option<&ExecutionId> {
        self.0.execution.as_ref()
    }

    /// Which shard answered, or could not be reached.
    #[must_use]
    pub fn shard(&self) -> Option<u16> {
        self.0.shard
    }

    /// Whether and how asking again can help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.0.kind.retry()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}", self.0.operation)?;
        if let Some(id) = &self.0.execution {
            write!(f, " execution `{id}`")?;
        }
        if let Some(shard) = self.0.shard {
            write!(f, " on shard {shard}")?;
        }
        write!(f, ": {}", self.0.kind)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|source| source as &(dyn Error + 'static))
    }
}

/// What is in the way of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The request can never succeed as it stands.
    #[error("invalid argument: {reason}")]
    InvalidArgument {
        /// What is wrong with it and what was expected.
        reason: String,
    },
    /// The execution does not exist.
    #[error("it does not exist")]
    NotFound,
    /// The log is longer or shorter than the caller believes.
    #[error(
        "expected the next sequence to be {expected}, but it is {actual}: read what was appended and decide anew"
    )]
    SequenceConflict {
        /// The next sequence that the caller expected.
        expected: u64,
        /// The next sequence of the log; 0 when there is none.
        actual: u64,
    },
    /// A terminal event closed the execution.
    #[error("it is closed: a terminal event stands at sequence {}, and nothing can follow it", next_sequence.saturating_sub(1))]
    Closed {
        /// How many events the log has.
        next_sequence: u64,
    },
    /// The record is sealed: it is being moved to another shard.
    #[error("it is sealed, because it is being moved to another shard: resolve it again")]
    Sealed,
    /// [`Relocation::retire`](crate::Relocation::retire) was asked of a record that is not sealed.
    #[error("it is not sealed, and only sealed records may be retired: seal it first")]
    NotSealed,
    /// Another writer holds a higher fence token, or the execution is fenced and no token was sent.
    #[error("fenced out: the execution is held under token {current}, the request carries {}", OrNone(presented.as_ref()))]
    Fenced {
        /// The token that was sent.
        presented: Option<FenceToken>,
        /// The highest token that the store has seen.
        current: FenceToken,
    },
    /// Another holder's lease has not lapsed.
    #[error(
        "leased to `{holder}` for another {} ms: wait, or take it over on purpose", remaining.as_millis()
    )]
    Leased {
        /// Who holds it.
        holder: String,
        /// How long it still runs, by the store's clock.
        remaining: Duration,
    },
    /// The shard is under a newer plan than the request, or under another one of the same epoch.
    #[error("the shard is under plan {current}, the request under {}: read the newer plan and start again", OrNone(presented.as_ref()))]
    StalePlan {
        /// The plan that the request was made under; `None` outside any plan.
        presented: Option<PlanEpoch>,
        /// The plan of the shard.
        current: PlanEpoch,
    },
    /// The request is under a newer plan than the shard.
    #[error("the request is under plan {presented}, the shard still under {}: publish the newer plan there first", OrNone(current.as_ref()))]
    ShardBehind {
        /// The plan that the request was made under.
        presented: PlanEpoch,
        /// The plan of the shard.
        current: Option<PlanEpoch>,
    },
    /// Somebody else published first.
    #[error("another plan was published first: {}", OrNone(current.as_ref()))]
    PublishConflict {
        /// The plan of the shard.
        current: Option<PlanEpoch>,
    },
    /// A different record exists under the id that is being imported.
    #[error("a different record exists here under this id: {reason}")]
    RecordConflict {
        /// Where they differ.
        reason: String,
    },
    /// The record was deleted or forgotten here under this plan, by a request that left a mark, so it cannot
    /// be imported.
    #[error("it was deleted here under this plan")]
    DeletedHere,
    /// The child already has a parent or a label, and it is another one.
    #[error("it already is the branch `{label}` of execution `{parent}`")]
    LineageConflict {
        /// The recorded parent.
        parent: ExecutionId,
        /// The recorded label.
        label: String,
    },
    /// The store could not be reached or did not answer. Never a statement about what exists.
    #[error("the store is unavailable: {reason}{}", if *outcome_known { "; nothing was changed" } else { "; whether it took effect is unknown" })]
    Unavailable {
        /// What happened, without secrets.
        reason: String,
        /// Whether it is certain that the operation did not take effect.
        outcome_known: bool,
    },
    /// The store is another one than it should be: a swapped location or a wiped server.
    #[error("the store says that it is {}, expected {expected}", OrNone(found.as_ref()))]
    WrongShard {
        /// What the deployment says should be here.
        expected: ShardIdentity,
        /// What the store says it is; `None` when it was never initialised.
        found: Option<ShardIdentity>,
    },
    /// The store cannot do this.
    #[error("the store does not offer {capability}")]
    Unsupported {
        /// Which capability is missing.
        capability: &'static str,
    },
    /// What is stored breaks the format or the contract.
    #[error("the stored data is corrupt: {reason}")]
    Corrupt {
        /// What was found and what was expected.
        reason: String,
    },
}

impl StoreErrorKind {
    /// Whether and how asking again can help.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::SequenceConflict { .. } | Self::PublishConflict { .. } => Retry::AfterReread,
            Self::Sealed
            | Self::StalePlan { .. }
            | Self::ShardBehind { .. }
            | Self::Leased { .. }
            | Self::Unavailable {
                outcome_known: true,
                ..
            } => Retry::Safe,
            Self::Unavailable {
                outcome_known: false,
                ..
            } => Retry::OutcomeUnknown,
            Self::InvalidArgument { .. }
            | Self::NotFound
            | Self::Closed { .. }
            | Self::NotSealed
            | Self::Fenced { .. }
            | Self::RecordConflict { .. }
            | Self::DeletedHere
            | Self::LineageConflict { .. }
            | Self::WrongShard { .. }
            | Self::Unsupported { .. }
            | Self::Corrupt { .. } => Retry::Never,
        }
    }
}

/// Whether asking again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the same request will be refused again.
    Never,
    /// Yes, once the caller has read what changed and made a new request of it.
    AfterReread,
    /// Yes: nothing was changed, the same request may be sent again after a while.
    Safe,
    /// Not blindly: it may have taken effect. Read first, then decide.
    OutcomeUnknown,
}

/// What was asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Opening the store.
    Open,
    /// [`EventStore::append`](crate::EventStore::append)
    Append,
    /// [`EventStore::read`](crate::EventStore::read)
    Read,
    /// [`EventStore::head`](crate::EventStore::head)
    Head,
    /// [`EventStore::list`](crate::EventStore::list)
    List,
    /// [`EventStore::delete`](crate::EventStore::delete)
    Delete,
    /// [`Fencing::acquire_fence`](crate::Fencing::acquire_fence)
    AcquireFence,
    /// [`Fencing::renew_lease`](crate::Fencing::renew_lease)
    RenewLease,
    /// [`Fencing::release_lease`](crate::Fencing::release_lease)
    ReleaseLease,
    /// [`Relocation::seal`](crate::Relocation::seal)
    Seal,
    /// [`Relocation::import`](crate::Relocation::import)
    Import,
    /// [`Relocation::retire`](crate::Relocation::retire)
    Retire,
    /// [`Relocation::unseal`](crate::Relocation::unseal)
    Unseal,
    /// [`Relocation::inspect`](crate::Relocation::inspect).
    Inspect,
    /// [`Relocation::records`](crate::Relocation::records)
    Records,
    /// [`PlanLedger::current`](crate::PlanLedger::current)
    CurrentPlan,
    /// [`PlanLedger::publish`](crate::PlanLedger::publish)
    PublishPlan,
    /// [`PlanLedger::identity`](crate::PlanLedger::identity) and
    /// [`PlanLedger::initialize`](crate::PlanLedger::initialize)
    Identity,
    /// [`PlanLedger::directory`](crate::PlanLedger::directory) and
    /// [`PlanLedger::record_locations`](crate::PlanLedger::record_locations)
    Directory,
    /// [`BranchRegistry::record_lineage`](crate::BranchRegistry::record_lineage)
    RecordLineage,
    /// [`BranchRegistry::children`](crate::BranchRegistry::children)
    Children,
    /// [`BranchRegistry::parent`](crate::BranchRegistry::parent)
    Parent,
    /// [`BranchRegistry::forget`](crate::BranchRegistry::forget)
    Forget,
    /// Moving one execution between shards.
    Migrate,
    /// Asking what a bucket still holds on its source.
    Drain,
}

impl fmt::Display for Operation {
    /// A phrase that goes between "cannot" and the name of an execution.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open the store",
            Self::Append => "append to",
            Self::Read => "read",
            Self::Head => "look up",
            Self::List => "list executions",
            Self::Delete => "delete",
            Self::AcquireFence => "acquire the fence of",
            Self::RenewLease => "renew the lease of",
            Self::ReleaseLease => "release the lease of",
            Self::Seal => "seal",
            Self::Import => "import",
            Self::Retire => "retire",
            Self::Unseal => "unseal",
            Self::Inspect => "inspect record",
            Self::Records => "list records",
            Self::CurrentPlan => "read the plan",
            Self::PublishPlan => "publish the plan",
            Self::Identity => "check the identity of the store",
            Self::Directory => "use the shard directory",
            Self::RecordLineage => "record the lineage of",
            Self::Children => "list the branches of",
            Self::Parent => "look up the parent of",
            Self::Forget => "forget the branches of",
            Self::Migrate => "migrate",
            Self::Drain => "check what is left to drain",
        })
    }
}

/// Prints `none` where there is nothing.
struct OrNone<'a, T>(Option<&'a T>);

impl<T: fmt::Display> fmt::Display for OrNone<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlanFingerprint;

    #[test]
    fn a_message_says_what_was_asked_of_whom_and_what_to_do() {
        let id = ExecutionId::new("order-7").unwrap();
        let error = StoreError::new(
            Operation::Append,
            StoreErrorKind::Fenced {
                presented: None,
                current: FenceToken(3),
            },
        )
        .with_execution(&id)
        .with_shard(0);
        assert_eq!(
            error.to_string(),
            "cannot append to execution `order-7` on shard 0: fenced out: the execution is held \
             under token 3, the request carries none"
        );
        let error = StoreError::new(Operation::List, StoreErrorKind::Sealed);
        assert!(
            error
                .to_string()
                .starts_with("cannot list executions: it is sealed")
        );
    }

    #[test]
    fn the_first_shard_and_execution_named_stay() {
        let (first, second) = (
            ExecutionId::new("a").unwrap(),
            ExecutionId::new("b").unwrap(),
        );
        let error = StoreError::new(Operation::Read, StoreErrorKind::NotFound)
            .with_shard(1)
            .with_shard(2)
            .with_execution(&first)
            .with_execution(&second);
        assert_eq!((error.shard(), error.execution()), (Some(1), Some(&first)));
    }

    #[test]
    fn an_append_of_unknown_outcome_is_not_called_safe_to_repeat() {
        let unavailable = |outcome_known| StoreErrorKind::Unavailable {
            reason: "connection reset".into(),
            outcome_known,
        };
        assert_eq!(unavailable(true).retry(), Retry::Safe);
        assert_eq!(unavailable(false).retry(), Retry::OutcomeUnknown);
        assert!(unavailable(false).to_string().contains("unknown"));
    }

    #[test]
    fn a_plan_that_is_absent_prints_as_none() {
        let presented = PlanEpoch::new(2, PlanFingerprint(0xab));
        let text = StoreErrorKind::ShardBehind {
            presented,
            current: None,
        }
        .to_string();
        assert!(
            text.contains("epoch 2 (000000000000000000000000000000ab)"),
            "{text}"
        );
        assert!(text.contains("still under none"), "{text}");
    }

    #[test]
    fn errors_stay_small_on_the_stack() {
        assert_eq!(size_of::<StoreError>(), size_of::<usize>());
    }
}
