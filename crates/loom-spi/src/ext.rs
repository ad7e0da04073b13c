//! What callers of a store use beyond its contract.

use async_trait::async_trait;
use futures_util::stream::{self, Stream, StreamExt as _};

use crate::{
    Event, EventStore, ExecutionId, ExecutionSummary, Head, List, Operation, Read, StoreError,
    StoreErrorKind,
};

/// How many events or executions the streams ask for at a time.
const PAGE: usize = 256;

/// Conveniences for callers of an [`EventStore`], implemented for all of them.
///
/// ```
/// use futures_util::TryStreamExt;
/// use loom_spi::{Append, EventStore, EventStoreExt, ExecutionId, NewEvent, StoreError};
///
/// async fn kinds(store: &dyn EventStore, id: &ExecutionId) -> Result<Vec<String>, StoreError> {
///     store.read_all(id, 0).map_ok(|event| event.kind.to_string()).try_collect().await
/// }
/// ```
#[async_trait]
pub trait EventStoreExt: EventStore {
    /// Streams the events of a log from sequence `from` to where it ends when the stream gets there,
    /// page by page.
    ///
    /// # Errors
    /// The stream ends with the first error. An execution that disappears on the way is `NotFound`: the
    /// stream is never silently short. See [`EventStore::read`] for the others.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    fn read_all<'a>(
        &'a self,
        id: &'a ExecutionId,
        from: u64,
    ) -> impl Stream<Item = Result<Event, StoreError>> + Send + 'a {
        let pages = stream::try_unfold(Some(from), move |at| async move {
            let Some(from) = at else { return Ok(None) };
            let page = self.read(Read::new(id.clone(), from, PAGE)).await?;
            let next = from.saturating_add(page.events.len() as u64);
            if page.events.is_empty() && page.head.next_sequence > from {
                return Err(StoreError::new(
                    Operation::Read,
                    StoreErrorKind::Corrupt {
                        reason: format!(
                            "a read from sequence {from} returned nothing, but the log has {} events",
                            page.head.next_sequence
                        ),
                    },
                )
                .with_execution(id));
            }
            let more = (page.head.next_sequence > next).then_some(next);
            Ok(Some((stream::iter(page.events.into_iter().map(Ok)), more)))
        });
        flatten(pages)
    }

    /// Streams the executions that `request` selects, in list order, page by page; its `limit` is the size
    /// of a page.
    ///
    /// # Errors
    /// The stream ends with the first error; see [`EventStore::list`].
    ///
    /// # Cancel safety
    /// Reads change nothing.
    fn list_all(
        &self,
        request: List,
    ) -> impl Stream<Item = Result<ExecutionSummary, StoreError>> + Send + '_ {
        let pages = stream::try_unfold(Some(request), move |request| async move {
            let Some(mut request) = request else {
                return Ok(None);
            };
            let page = self.list(request.clone()).await?;
            let more = page.next.map(|cursor| {
                request.cursor = Some(cursor);
                request
            });
            Ok(Some((
                stream::iter(page.executions.into_iter().map(Ok)),
                more,
            )))
        });
        flatten(pages)
    }

    /// Whether the execution has a log.
    ///
    /// # Errors
    /// As [`EventStore::head`].
    ///
    /// # Cancel safety
    /// Reads change nothing.
    async fn exists(&self, id: &ExecutionId) -> Result<bool, StoreError> {
        Ok(self.head(Head::new(id.clone())).await?.is_some())
    }
}

impl<S: EventStore + ?Sized> EventStoreExt for S {}

fn flatten<T, Pages, Page>(pages: Pages) -> impl Stream<Item = Result<T, StoreError>>
where
    Pages: Stream<Item = Result<Page, StoreError>>,
    Page: Stream<Item = Result<T, StoreError>>,
{
    pages.flat_map(|page| match page {
        Ok(page) => page.left_stream(),
        Err(error) => stream::once(async { Err(error) }).right_stream(),
    })
}
