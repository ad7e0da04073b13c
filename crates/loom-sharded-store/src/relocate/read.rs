//! Reading, where records can be sealed.

use loom_spi::{Operation, Read, ReadPage, StoreError, StoreErrorKind};

use super::change::{ROUNDS, unsettled};
use crate::core::Core;
use crate::resolve::Resolution;
use crate::routing::Sides;
use crate::rules::Rule;

impl Core {
    /// A sealed copy on the source is read as long as the destination has nothing: reads move no data.
    pub(crate) async fn read_relocating(
        &self,
        sides: Sides<'_>,
        request: &Read,
    ) -> Result<ReadPage, StoreError> {
        let id = &request.id;
        if let Some(side) = self.cache.get(id, sides) {
            let answer = side.read(request.clone()).await;
            let doubtful = match &answer {
                Ok(page) => page.head.sealed,
                Err(error) => matches!(error.kind(), StoreErrorKind::NotFound),
            };
            if !self.rules.keep(Rule::CacheIsHint) || !doubtful {
                self.counters.cache_hits.count();
                return answer;
            }
            self.cache.remove(id);
        }
        for _ in 0..ROUNDS {
            let resolution = self.resolve(Operation::Read, id, sides).await?;
            let answer = resolution.side().read(request.clone()).await;
            match (&resolution, &answer) {
                // It has been moved since it was looked for.
                (Resolution::Source(..), Err(error))
                    if matches!(error.kind(), StoreErrorKind::NotFound) =>
                {
                    self.cache.remove(id);
                }
                _ => return answer,
            }
        }
        Err(unsettled(Operation::Read, sides, id))
    }
}
