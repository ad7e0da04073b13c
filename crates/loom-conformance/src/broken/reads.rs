//! Reads and heads that go wrong.

use loom_spi::{
    ExecutionId, ExecutionState, Head, LogHead, Read, ReadPage, StoreError, StoreErrorKind,
};

use super::{Fault, Mutant};

impl Mutant {
    pub(super) async fn read_wrongly(&self, mut request: Read) -> Result<ReadPage, StoreError> {
        let (id, from, limit) = (request.id.clone(), request.from, request.limit);
        match self.fault {
            Fault::ReadLimitZero if limit == 0 => request.limit = 1,
            Fault::ReadOverLimit if limit > 0 => request.limit = limit.saturating_add(1),
            Fault::ReadStartsLate => request.from = from.saturating_add(1),
            _ => {}
        }
        let mut page = self.inner.read(request).await?;
        match self.fault {
            Fault::ReadEmptyPages if limit < 3 => page.events.clear(),
            Fault::ReadPastEndNotFound if page.events.is_empty() => {
                let operation = loom_spi::Operation::Read;
                let error = StoreError::new(operation, StoreErrorKind::NotFound);
                return Err(error.with_execution(&id));
            }
            Fault::ReadHeadOfPage => {
                if let Some(last) = page.events.last() {
                    page.head.next_sequence = last.sequence + 1;
                }
            }
            Fault::ReadStale => {
                return Ok(self.notes().pages.entry(id).or_insert(page).clone());
            }
            Fault::TerminalMarkLost => {
                for event in &mut page.events {
                    event.terminal = false;
                }
            }
            Fault::OpenAfterTerminal => {
                page.head = self.closed_where_it_ended(&id, page.head);
                for event in &mut page.events {
                    let after = (id.clone(), event.sequence + 1);
                    event.terminal = self.notes().ends.contains(&after);
                }
            }
            _ => {}
        }
        Ok(page)
    }

    pub(super) async fn head_wrongly(&self, request: Head) -> Result<Option<LogHead>, StoreError> {
        let id = request.id.clone();
        if self.fault == Fault::AbsentUnderAnyPlan {
            let epoch = self.current_epoch().await?;
            let anyhow = Head::new(id.clone()).with_epoch(epoch);
            if self.inner.head(anyhow).await?.is_none() {
                return Ok(None);
            }
        }
        let mut head = match self.inner.head(request).await {
            Err(error) => match (self.fault, error.kind()) {
                (Fault::OutageIsAbsent, StoreErrorKind::Unavailable { .. }) => return Ok(None),
                _ => return Err(error),
            },
            Ok(head) => head,
        };
        if self.fault == Fault::HeadCached && head.is_some() {
            return Ok(*self.notes().heads.entry(id).or_insert(head));
        }
        if let Some(head) = &mut head {
            match self.fault {
                Fault::HeadCreatedMoves => head.created_at = head.updated_at,
                Fault::HeadNeverCloses => head.state = ExecutionState::Open,
                _ => *head = self.closed_where_it_ended(&id, *head),
            }
        }
        Ok(head)
    }

    /// The plan of the store, so that a request can be made under it.
    pub(super) async fn current_epoch(&self) -> Result<Option<loom_spi::PlanEpoch>, StoreError> {
        match self.inner.capabilities().ledger {
            Some(ledger) => Ok(ledger.current().await?.map(|plan| plan.epoch)),
            None => Ok(None),
        }
    }

    /// Closes a head whose last event was to be terminal.
    pub(super) fn closed_where_it_ended(&self, id: &ExecutionId, mut head: LogHead) -> LogHead {
        if self
            .notes()
            .ends
            .contains(&(id.clone(), head.next_sequence))
        {
            head.state = ExecutionState::Closed;
        }
        head
    }
}
