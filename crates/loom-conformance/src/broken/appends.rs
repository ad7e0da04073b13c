//! Appends that go wrong.

use loom_spi::{Append, Appended, Delete, FenceToken, Head, StoreError, StoreErrorKind, Timestamp};

use super::notes::pause;
use super::{Fault, Mutant};

impl Mutant {
    /// What goes wrong for executions that were moved, or are being moved.
    pub(super) async fn append_to_moved(&self, request: &mut Append) -> Result<(), StoreError> {
        let (id, creates) = (request.id.clone(), request.expected == 0);
        let sealed = || {
            let error = StoreError::new(loom_spi::Operation::Append, StoreErrorKind::Sealed);
            error.with_execution(&id)
        };
        match self.fault {
            Fault::ImportBlocksCreation
                if creates && self.notes().moves.staged.contains_key(&id) =>
            {
                return Err(sealed());
            }
            Fault::MarkBlocksCreation if creates && self.notes().moves.marks.contains(&id) => {
                return Err(sealed());
            }
            Fault::ImportCountsAnew if creates && self.notes().moves.imported.contains(&id) => {
                let head = Head::new(id).with_epoch(request.epoch);
                let head = self.inner.head(head).await?;
                request.expected = head.map_or(0, |head| head.next_sequence);
            }
            Fault::RetireKeepsSequence => {
                let retired = self.notes().moves.retired.get(&id).copied();
                if retired == Some(request.expected) {
                    request.expected = 0;
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) async fn append_wrongly(&self, mut request: Append) -> Result<Appended, StoreError> {
        let expected = request.expected;
        match self.fault {
            Fault::ExpectedOffByOne => {
                self.append_if(request, |expected, actual| expected + 1 == actual)
                    .await
            }
            Fault::ExpectedIgnored => self.append_if(request, |_, _| true).await,
            Fault::GapsClosed => {
                self.append_if(request, |expected, actual| expected > actual)
                    .await
            }
            Fault::AppendNotAtomic => {
                let head = Head::new(request.id.clone()).with_epoch(request.epoch);
                let length = self
                    .inner
                    .head(head)
                    .await?
                    .map_or(0, |head| head.next_sequence);
                if length != expected {
                    return self.inner.append(request).await;
                }
                pause().await;
                self.append_if(request, |_, _| true).await
            }
            Fault::CreationOverwrites => {
                if expected == 0 {
                    let gone = Delete::new(request.id.clone()).with_epoch(request.epoch);
                    // It may well not be there.
                    let _ = self.inner.delete(gone).await;
                }
                self.inner.append(request).await
            }
            Fault::OneByOne | Fault::HalfVisible | Fault::TornByDrop => {
                self.append_one_by_one(request).await
            }
            Fault::EmptyAccepted if request.events.is_empty() => Ok(Appended::new(expected)),
            Fault::NextSequenceWrong => self
                .inner
                .append(request)
                .await
                .map(|_| Appended::new(expected)),
            Fault::EventsReversed => {
                // A terminal event stays where it belongs.
                if request.events.iter().all(|event| !event.terminal) {
                    request.events.reverse();
                }
                self.inner.append(request).await
            }
            Fault::OpenAfterTerminal => self.append_without_end(request).await,
            Fault::ClosedIsConflict => self.append_closed_as_conflict(request).await,
            Fault::TimeRewritten
            | Fault::PayloadAsText
            | Fault::KindFolded
            | Fault::KindTruncated => {
                self.change_events(&mut request);
                self.inner.append(request).await
            }
            Fault::TokenIgnored
            | Fault::TokenOptional
            | Fault::HigherTokenForgotten
            | Fault::DeleteForgetsFence
            | Fault::ClosedBeforeFenced => self.append_fenced_wrongly(request).await,
            _ => self.inner.append(request).await,
        }
    }

    /// Appends at the end all the same when the length that was expected is wrong in a certain way.
    async fn append_if(
        &self,
        mut request: Append,
        wrong_is_fine: impl Fn(u64, u64) -> bool,
    ) -> Result<Appended, StoreError> {
        loop {
            match self.inner.append(request.clone()).await {
                Err(error) => match error.kind() {
                    StoreErrorKind::SequenceConflict { expected, actual }
                        if wrong_is_fine(*expected, *actual) =>
                    {
                        request.expected = *actual;
                    }
                    _ => return Err(error),
                },
                done => return done,
            }
        }
    }

    async fn append_one_by_one(&self, request: Append) -> Result<Appended, StoreError> {
        if request.events.len() < 2 {
            return self.inner.append(request).await;
        }
        let mut next = request.expected;
        for event in &request.events {
            let mut one = request.clone();
            (one.expected, one.events) = (next, vec![event.clone()]);
            next = self.inner.append(one).await?.next_sequence;
            if self.fault != Fault::OneByOne {
                pause().await;
            }
        }
        Ok(Appended::new(next))
    }

    /// Stores a terminal event as one that is not, and remembers where it was.
    async fn append_without_end(&self, mut request: Append) -> Result<Appended, StoreError> {
        let id = request.id.clone();
        let terminal = request.events.last().is_some_and(|event| event.terminal);
        if let Some(last) = request.events.last_mut() {
            last.terminal = false;
        }
        let appended = self.inner.append(request).await?;
        if terminal {
            self.notes().ends.insert((id, appended.next_sequence));
        }
        Ok(appended)
    }

    async fn append_closed_as_conflict(&self, request: Append) -> Result<Appended, StoreError> {
        let (id, expected) = (request.id.clone(), request.expected);
        self.inner
            .append(request)
            .await
            .map_err(|error| match error.kind() {
                StoreErrorKind::Closed { next_sequence } => {
                    let actual = *next_sequence;
                    let kind = StoreErrorKind::SequenceConflict { expected, actual };
                    StoreError::new(error.operation(), kind).with_execution(&id)
                }
                _ => error,
            })
    }

    fn change_events(&self, request: &mut Append) {
        for event in &mut request.events {
            match self.fault {
                Fault::TimeRewritten => event.recorded_at = Timestamp::now(),
                Fault::PayloadAsText => {
                    let text = String::from_utf8_lossy(&event.payload).into_owned();
                    event.payload = text.into();
                }
                Fault::KindFolded => event.kind = event.kind.to_lowercase().into(),
                _ => event.kind = event.kind[..event.kind.floor_char_boundary(64)].into(),
            }
        }
    }

    async fn append_fenced_wrongly(&self, mut request: Append) -> Result<Appended, StoreError> {
        if self.fault == Fault::HigherTokenForgotten {
            let known = self.notes().tokens.get(&request.id).copied();
            request.fence = request.fence.min(known);
        }
        let Err(error) = self.inner.append(request.clone()).await else {
            let next = request.expected + request.events.len() as u64;
            return Ok(Appended::new(next));
        };
        let StoreErrorKind::Fenced { presented, current } = *error.kind() else {
            return Err(error);
        };
        let with_the_right_one =
            |token: FenceToken| self.inner.append(request.clone().with_fence(token));
        match self.fault {
            Fault::TokenIgnored => with_the_right_one(current).await,
            Fault::TokenOptional if presented.is_none() => with_the_right_one(current).await,
            Fault::DeleteForgetsFence if self.notes().deleted.contains(&request.id) => {
                with_the_right_one(current).await
            }
            Fault::ClosedBeforeFenced => {
                let head = Head::new(request.id.clone()).with_epoch(request.epoch);
                match self.inner.head(head).await? {
                    Some(head) if head.is_closed() => with_the_right_one(current).await,
                    _ => Err(error),
                }
            }
            _ => Err(error),
        }
    }
}
