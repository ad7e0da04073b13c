//! The shards that a change of plan works on.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::{DeploymentId, StoreError};

use crate::core::Offers;
use crate::shard::Shard;
use crate::{Connect, OpenError};

/// Every shard that is connected, whether the plan names it or not, and how to reach more.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) known: BTreeMap<ShardId, Shard>,
    pub(crate) deployment: Option<DeploymentId>,
    pub(crate) connect: Option<Arc<dyn Connect>>,
    pub(crate) offers: Offers,
}

/// What to think of a store that has no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unused {
    /// It is about to become a shard.
    Taken,
    /// It should have one.
    Refused,
}

impl Planner {
    /// The shards that a store is opened with: at least one, each under its own number, and either all with
    /// a ledger or none.
    pub(crate) fn new(
        shards: Vec<Shard>,
        deployment: Option<DeploymentId>,
        connect: Option<Arc<dyn Connect>>,
    ) -> Result<Self, OpenError> {
        let mut known: BTreeMap<ShardId, Shard> = BTreeMap::new();
        let mut offers: Option<(ShardId, Offers)> = None;
        for shard in shards {
            let (id, own) = (shard.id, Offers::of(&*shard.store));
            offers = Some(match offers {
                None => (id, own),
                Some((other, so_far)) if so_far.ledgers == own.ledgers => (other, so_far.and(own)),
                Some((other, so_far)) => {
                    let (with, without) = if so_far.ledgers {
                        (other, id)
                    } else {
                        (id, other)
                    };
                    return Err(OpenError::MixedLedgers { with, without });
                }
            });
            refuse_same_store(&known, &shard)?;
            if known.insert(id, shard).is_some() {
                return Err(OpenError::DuplicateShard { shard: id });
            }
        }
        let (first, offers) = offers.ok_or(OpenError::NoShards)?;
        if deployment.is_some() && !offers.ledgers {
            let what = "stating the deployment";
            return Err(OpenError::NoLedger { what, shard: first });
        }
        Ok(Self {
            known,
            deployment,
            connect,
            offers,
        })
    }

    /// Takes the deployment from the shards, if it was not stated and they name one: then they have to agree.
    pub(crate) async fn adopt_deployment(&mut self) -> Result<(), StoreError> {
        if self.deployment.is_some() || !self.offers.ledgers {
            return Ok(());
        }
        for shard in self.known.values() {
            if let Some(identity) = shard.identity().await? {
                self.deployment = Some(identity.deployment);
                break;
            }
        }
        Ok(())
    }

    /// Connects to the shards of `plan` that are not known yet. Unused stores are taken only if `unused` says
    /// so: once a plan that names a shard is published, an unused store in its place is another one.
    pub(crate) async fn connect_missing(
        &mut self,
        plan: &ShardPlan,
        unused: Unused,
    ) -> Result<(), OpenError> {
        for shard in plan.shards().iter().map(loom_shard_plan::Shard::id) {
            if self.known.contains_key(&shard) {
                continue;
            }
            let Some(connect) = self.connect.clone() else {
                return Err(OpenError::MissingShard { shard });
            };
            let location = self.location_of(shard).await;
            let store = connect
                .connect(shard, location.as_deref())
                .await
                .map_err(|source| OpenError::Connect { shard, source })?;
            let shard = Shard { id: shard, store };
            if unused == Unused::Refused {
                self.verify(&shard).await?;
            }
            self.admit(shard).await?;
        }
        Ok(())
    }

    /// Takes a shard in, if it is the one it should be and offers what the others do.
    pub(crate) async fn admit(&mut self, shard: Shard) -> Result<(), OpenError> {
        let offers = Offers::of(&*shard.store);
        if offers.ledgers != self.offers.ledgers {
            let other = self.known.keys().next().copied().unwrap_or(shard.id);
            let (with, without) = if offers.ledgers {
                (shard.id, other)
            } else {
                (other, shard.id)
            };
            return Err(OpenError::MixedLedgers { with, without });
        }
        if let Some(what) = self.offers.missing_from(offers) {
            return Err(OpenError::LessCapable {
                shard: shard.id,
                what,
            });
        }
        refuse_same_store(&self.known, &shard)?;
        self.verify_unless_unused(&shard).await?;
        self.known.insert(shard.id, shard);
        Ok(())
    }

    /// Refuses a store that is not the shard of this deployment that it should be, if one was stated.
    pub(crate) async fn verify(&self, shard: &Shard) -> Result<(), StoreError> {
        match &self.deployment {
            Some(deployment) => shard.verify(deployment).await,
            None => Ok(()),
        }
    }

    /// As [`verify`](Self::verify), but takes an unused store: it becomes a shard when a plan that names it
    /// is published.
    pub(crate) async fn verify_unless_unused(&self, shard: &Shard) -> Result<(), StoreError> {
        if self.deployment.is_some() && shard.identity().await?.is_some() {
            self.verify(shard).await
        } else {
            Ok(())
        }
    }

    /// What the first directory that knows it says about a shard. A hint for the resolver: a directory that
    /// cannot be read is passed over.
    async fn location_of(&self, shard: ShardId) -> Option<String> {
        if !self.offers.ledgers {
            return None;
        }
        for other in self.known.values() {
            if let Ok(Some(location)) = other.location_of(shard.get()).await {
                return Some(location);
            }
        }
        None
    }
}

/// A store under two numbers would be moved to itself, and then removed.
fn refuse_same_store(known: &BTreeMap<ShardId, Shard>, shard: &Shard) -> Result<(), OpenError> {
    let same = |other: &&Shard| {
        std::ptr::addr_eq(Arc::as_ptr(&other.store), Arc::as_ptr(&shard.store))
            && other.id != shard.id
    };
    match known.values().find(same) {
        Some(other) => Err(OpenError::SameStore {
            shard: shard.id,
            other: other.id,
        }),
        None => Ok(()),
    }
}
