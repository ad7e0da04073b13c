//! Reading and looking up.

use loom_spi::{Head, LogHead, Operation, Read, ReadPage, StoreError, StoreErrorKind};

use crate::core::{Core, restarting};
use crate::resolve::Resolution;
use crate::routing::{Route, Sides};

impl Core {
    pub(crate) async fn read(&self, request: Read) -> Result<ReadPage, StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.read(request.clone()).await,
            Route::Migrating(sides) => self.read_migrating(sides, &request).await,
        })
    }

    async fn read_migrating(
        &self,
        sides: Sides<'_>,
        request: &Read,
    ) -> Result<ReadPage, StoreError> {
        if self.offers.relocation {
            return Box::pin(self.read_relocating(sides, request)).await;
        }
        self.ask(Operation::Read, &request.id, sides, doubtful_page, |side| {
            side.read(request.clone())
        })
        .await
    }

    pub(crate) async fn head(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let hash = request.id.route_hash();
        restarting!(self, |routing| match routing.route(hash) {
            Route::Settled(side) => side.head(request.clone()).await,
            Route::Migrating(sides) => self.head_migrating(sides, &request).await,
        })
    }

    /// A look-up is what resolving does anyway.
    async fn head_migrating(
        &self,
        sides: Sides<'_>,
        request: &Head,
    ) -> Result<Option<LogHead>, StoreError> {
        let id = &request.id;
        if let Some(side) = self.cache.get(id, sides) {
            if let Some(head) = side.head(request.clone()).await?
                && !head.sealed
            {
                self.counters.cache_hits.count();
                return Ok(Some(head));
            }
            self.cache.remove(id);
        }
        // Without seals, the answer is made of two looks that a move must not come between.
        let _no_move = if self.offers.relocation {
            None
        } else {
            Some(self.moves.shared(id).await)
        };
        Ok(match self.resolve(Operation::Head, id, sides).await? {
            Resolution::Destination(_, head) | Resolution::Source(_, head) => Some(head),
            Resolution::Nowhere(_) => None,
        })
    }
}

/// Whether a move could be the reason for the answer. A sealed copy counts only where there is no other.
fn doubtful_page(answer: &Result<ReadPage, StoreError>) -> bool {
    match answer {
        Ok(page) => page.head.sealed,
        Err(error) => matches!(error.kind(), StoreErrorKind::NotFound),
    }
}
