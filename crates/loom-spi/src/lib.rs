#![doc = include_str!("../README.md")]

mod admission;
mod capabilities;
mod dispatch;
mod epoch;
mod error;
mod event;
mod ext;
mod fencing;
mod id;
mod ledger;
mod limits;
mod lineage;
mod relocation;
mod relocation_requests;
mod request;
mod route;
mod store;

pub use admission::{ImportAdmission, RecordState};
pub use capabilities::Capabilities;
pub use dispatch::{
    CancelRequest, Cancellation, DispatchError, DispatchRequest, ExecutionDispatcher,
    ExecutionOutcome, Failure, FailureKind, Upstream,
};
pub use epoch::{PlanEpoch, PlanFingerprint};
pub use error::{BoxError, Operation, Retry, StoreError, StoreErrorKind};
pub use event::{Event, NewEvent, Timestamp};
pub use ext::EventStoreExt;
pub use fencing::{AcquireFence, FenceToken, Fencing, ReleaseLease, RenewLease, Require};
pub use id::{ExecutionId, InvalidExecutionId};
pub use ledger::{DeploymentId, PlanLedger, Publish, PublishedPlan, ShardIdentity, ShardLocation};
pub use limits::Limits;
pub use lineage::{Branch, BranchRegistry, Children, Forget, Parent, ParentLink, RecordLineage};
pub use relocation::Relocation;
pub use relocation_requests::{
    Import, Imported, Inspect, RecordPage, RecordSummary, Records, Retire, Seal, SealedRecord,
    Unseal,
};
pub use request::{
    Append, Appended, Delete, Deleted, ExecutionState, ExecutionSummary, Head, List, ListCursor,
    ListPage, LogHead, Read, ReadPage,
};
pub use route::{InvalidRouteFilter, RouteFilter, RouteHash};
pub use store::EventStore;
