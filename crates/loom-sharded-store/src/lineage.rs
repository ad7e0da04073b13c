//! Lineage: edges are part of the parent's record, and are where that is.

use std::collections::HashSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use loom_spi::{
    Branch, BranchRegistry, Children, ExecutionId, Forget, Operation, Parent, ParentLink,
    RecordLineage, RouteHash, StoreError, StoreErrorKind,
};

use crate::core::{Core, restarting};
use crate::resolve::Resolution;
use crate::routing::{Route, Routing, Sides, belongs};
use crate::shard::Side;

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl BranchRegistry for Core {
    /// A child has one parent, wherever its edge is. Only the parent's own shard can refuse a second one
    /// by itself, so the others are asked first, and recordings for one child take turns in this process.
    async fn record_lineage(&self, request: RecordLineage) -> Result<(), StoreError> {
        request.check().map_err(|kind| {
            StoreError::new(Operation::RecordLineage, kind).with_execution(&request.parent)
        })?;
        let hash = request.parent.route_hash();
        let _one_at_a_time = self.lineage_lock(&request.child).lock().await;
        restarting!(
            self,
            |routing| match self.recorded(&routing, &request).await {
                Err(error) => Err(error),
                Ok(true) => return Ok(()),
                Ok(false) => match routing.route(hash) {
                    Route::Settled(side) => side.record_lineage(request.clone()).await,
                    Route::Migrating(sides) => self.record_migrating(sides, &request).await,
                },
            }
        )
    }

    async fn children(&self, request: Children) -> Result<Vec<Branch>, StoreError> {
        let hash = request.parent.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.children(request.clone()).await,
            Route::Migrating(sides) => children_of_both(sides, &request.parent).await,
        })
    }

    /// Asks every shard: an edge is kept by its parent, and only the child is known.
    async fn parent(&self, request: Parent) -> Result<Option<ParentLink>, StoreError> {
        restarting!(self, |routing| self
            .parent_under(&routing, Operation::Parent, &request.child)
            .await)
    }

    async fn forget(&self, request: Forget) -> Result<u64, StoreError> {
        let hash = request.parent.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.forget(request.clone()).await,
            Route::Migrating(sides) => self.forget_migrating(sides, &request).await,
        })
    }
}

impl Core {
    fn lineage_lock(&self, child: &ExecutionId) -> &tokio::sync::Mutex<()> {
        let RouteHash(hash) = child.route_hash();
        // Less than the number of locks, which fits.
        let place = usize::try_from(hash % self.lineage_locks.len() as u64).unwrap_or(0);
        &self.lineage_locks[place]
    }

    /// Whether the edge is there already; an error if the child has another one.
    async fn recorded(
        &self,
        routing: &Routing,
        request: &RecordLineage,
    ) -> Result<bool, StoreError> {
        let link = self
            .parent_under(routing, Operation::RecordLineage, &request.child)
            .await?;
        match link {
            None => Ok(false),
            Some(link) if link.parent == request.parent && link.label == request.label => Ok(true),
            Some(ParentLink { parent, label, .. }) => Err(StoreError::new(
                Operation::RecordLineage,
                StoreErrorKind::LineageConflict { parent, label },
            )
            .with_execution(&request.child)),
        }
    }

    /// Sources before destinations: an edge that moves meanwhile is on one of them when it is asked.
    async fn parent_under(
        &self,
        routing: &Routing,
        operation: Operation,
        child: &ExecutionId,
    ) -> Result<Option<ParentLink>, StoreError> {
        let passes = routing.passes(None);
        let mut found: Option<ParentLink> = None;
        for (sides, as_source) in [(passes.sources, true), (passes.destinations, false)] {
            let links =
                try_join_all(sides.iter().map(|side| side.parent(operation, child))).await?;
            for (side, link) in sides.iter().zip(links) {
                let Some(link) = link else { continue };
                let placement = routing.placement(link.parent.route_hash());
                // What lies on a shard that the plan does not name for the parent is not there.
                if !belongs(placement, side.id(), as_source) {
                    continue;
                }
                match &found {
                    Some(known) if *known != link => {
                        let reason = format!(
                            "it is recorded as the branch `{}` of `{}` and as the branch `{}` of `{}`",
                            known.label, known.parent, link.label, link.parent
                        );
                        let kind = StoreErrorKind::Corrupt { reason };
                        let error = StoreError::new(operation, kind).with_execution(child);
                        return Err(error.with_shard(side.id().get()));
                    }
                    _ => found = Some(link),
                }
            }
        }
        Ok(found)
    }

    /// Where the parent's record is: its log, or else the edges that it has so far; without either, where the
    /// log would be created. The cache is not asked: a shard that the parent has left would take the edge
    /// without complaint.
    async fn record_migrating(
        &self,
        sides: Sides<'_>,
        request: &RecordLineage,
    ) -> Result<(), StoreError> {
        if self.offers.relocation {
            return Box::pin(self.record_relocating(sides, request)).await;
        }
        let parent = &request.parent;
        let _alone = self.moves.alone(parent).await;
        let resolution = self
            .resolve(Operation::RecordLineage, parent, sides)
            .await?;
        let ahead = matches!(resolution, Resolution::Nowhere(_))
            && self.has_lineage(sides.source, parent).await?;
        if !ahead {
            return resolution.side().record_lineage(request.clone()).await;
        }
        sides.source.record_lineage(request.clone()).await?;
        // Whoever has created the parent on the destination since may have missed this edge.
        let created = self
            .look(Operation::RecordLineage, parent, sides.destination)
            .await?;
        match created {
            Some(_) => sides.destination.record_lineage(request.clone()).await,
            None => Ok(()),
        }
    }

    /// Whether edges start from `parent` on this shard.
    pub(crate) async fn has_lineage(
        &self,
        side: Side<'_>,
        parent: &ExecutionId,
    ) -> Result<bool, StoreError> {
        if !self.offers.branches {
            return Ok(false);
        }
        let branches = side.children(Children::new(parent.clone())).await?;
        Ok(!branches.is_empty())
    }

    /// Takes the edges from the source to the destination: copies all, then removes all. Nobody else may work
    /// on the execution meanwhile.
    pub(crate) async fn move_lineage(
        &self,
        sides: Sides<'_>,
        parent: &ExecutionId,
    ) -> Result<(), StoreError> {
        self.copy_lineage(sides, parent).await?;
        self.forget_on_source(sides, parent).await
    }

    pub(crate) async fn copy_lineage(
        &self,
        sides: Sides<'_>,
        parent: &ExecutionId,
    ) -> Result<(), StoreError> {
        if !self.offers.branches {
            return Ok(());
        }
        for branch in sides.source.children(Children::new(parent.clone())).await? {
            let edge = RecordLineage::new(parent.clone(), branch.child, branch.label);
            sides.destination.record_lineage(edge).await?;
        }
        Ok(())
    }

    pub(crate) async fn forget_on_source(
        &self,
        sides: Sides<'_>,
        parent: &ExecutionId,
    ) -> Result<(), StoreError> {
        if self.offers.branches {
            sides.source.forget(Forget::new(parent.clone())).await?;
        }
        Ok(())
    }

    async fn forget_migrating(
        &self,
        sides: Sides<'_>,
        request: &Forget,
    ) -> Result<u64, StoreError> {
        if self.offers.relocation {
            return Box::pin(self.forget_relocating(sides, request)).await;
        }
        let _no_move = self.moves.alone(&request.parent).await;
        let known = children_of_both(sides, &request.parent).await?;
        sides.source.forget(request.clone()).await?;
        sides.destination.forget(request.clone()).await?;
        Ok(known.len() as u64)
    }
}

/// The source's branches are the older ones; one that is on both sides is counted once.
async fn children_of_both(
    sides: Sides<'_>,
    parent: &ExecutionId,
) -> Result<Vec<Branch>, StoreError> {
    let mut branches = sides.source.children(Children::new(parent.clone())).await?;
    let newer = sides
        .destination
        .children(Children::new(parent.clone()))
        .await?;
    let known: HashSet<ExecutionId, ahash::RandomState> =
        branches.iter().map(|branch| branch.child.clone()).collect();
    branches.extend(
        newer
            .into_iter()
            .filter(|branch| !known.contains(&branch.child)),
    );
    Ok(branches)
}

impl Side<'_> {
    pub(crate) async fn record_lineage(self, mut request: RecordLineage) -> Result<(), StoreError> {
        self.stamp(&mut request.epoch);
        let branches = self.branches(Operation::RecordLineage)?;
        branches.record_lineage(request).await.map_err(self.blame())
    }

    pub(crate) async fn children(self, mut request: Children) -> Result<Vec<Branch>, StoreError> {
        self.stamp(&mut request.epoch);
        let branches = self.branches(Operation::Children)?;
        branches.children(request).await.map_err(self.blame())
    }

    pub(crate) async fn forget(self, mut request: Forget) -> Result<u64, StoreError> {
        self.stamp(&mut request.epoch);
        let branches = self.branches(Operation::Forget)?;
        branches.forget(request).await.map_err(self.blame())
    }

    async fn parent(
        self,
        operation: Operation,
        child: &ExecutionId,
    ) -> Result<Option<ParentLink>, StoreError> {
        let mut request = Parent::new(child.clone());
        self.stamp(&mut request.epoch);
        let answer = self.branches(operation)?.parent(request).await;
        answer
            .map_err(self.blame())
            .map_err(|error| crate::resolve::on_the_way(operation, child, error))
    }
}
