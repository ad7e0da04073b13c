//! The plan, the identity of the shard and the directory of shards.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use loom_spi::{
    Operation, PlanLedger, Publish, PublishedPlan, ShardIdentity, ShardLocation, StoreError,
    StoreErrorKind,
};

use crate::MemoryStore;
use crate::arrivals::Arrivals;

/// What a shard knows beyond its records.
#[derive(Default)]
pub(crate) struct Ledger(RwLock<Contents>);

#[derive(Default)]
struct Contents {
    plan: Option<PublishedPlan>,
    identity: Option<ShardIdentity>,
    directory: BTreeMap<u16, String>,
}

impl Ledger {
    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl PlanLedger for MemoryStore {
    async fn current(&self) -> Result<Option<PublishedPlan>, StoreError> {
        Ok(self.ledger.read().plan.clone())
    }

    async fn publish(&self, request: Publish) -> Result<(), StoreError> {
        let mut ledger = self.ledger.write();
        let current = ledger.plan.as_ref().map(|plan| plan.epoch);
        let changes = request
            .admit(current)
            .map_err(|kind| StoreError::new(Operation::PublishPlan, kind))?;
        if changes {
            let epoch = Some(request.plan.epoch);
            // All of them before the first is changed: a request is judged by one plan, wherever it goes.
            let mut stripes = self.stripes.write_all();
            let mut parents = self.parents.write_all();
            for stripe in &mut stripes {
                stripe.plan = epoch;
                stripe.arrivals = Arrivals::default();
            }
            for stripe in &mut parents {
                stripe.plan = epoch;
            }
            ledger.plan = Some(request.plan);
        }
        Ok(())
    }

    async fn identity(&self) -> Result<Option<ShardIdentity>, StoreError> {
        Ok(self.ledger.read().identity.clone())
    }

    async fn initialize(&self, identity: ShardIdentity) -> Result<(), StoreError> {
        let mut ledger = self.ledger.write();
        match &ledger.identity {
            Some(found) if *found != identity => Err(StoreError::new(
                Operation::Identity,
                StoreErrorKind::WrongShard {
                    expected: identity,
                    found: Some(found.clone()),
                },
            )),
            _ => {
                ledger.identity = Some(identity);
                Ok(())
            }
        }
    }

    async fn directory(&self) -> Result<Vec<ShardLocation>, StoreError> {
        let ledger = self.ledger.read();
        let locations = ledger.directory.iter();
        Ok(locations
            .map(|(shard, location)| ShardLocation::new(*shard, location))
            .collect())
    }

    async fn record_locations(&self, locations: Vec<ShardLocation>) -> Result<(), StoreError> {
        let locations = locations
            .into_iter()
            .map(|location| (location.shard, location.location));
        self.ledger.write().directory.extend(locations);
        Ok(())
    }
}
