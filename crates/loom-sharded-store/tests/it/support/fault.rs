//! Faults that a test asks for.

use std::sync::Mutex;

use loom_spi::{ExecutionId, Operation, StoreError, StoreErrorKind};

/// Which calls go wrong, and how. Each fault strikes once.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) call: Call,
    /// How many calls of this kind go well before.
    pub(crate) after: usize,
    /// Whether the call takes effect all the same, and only its answer is lost.
    pub(crate) takes_effect: bool,
}

impl Fault {
    /// The next call of this kind does nothing and fails.
    pub(crate) fn fails(call: Call) -> Self {
        Self {
            call,
            after: 0,
            takes_effect: false,
        }
    }

    /// The next call of this kind takes effect, and its answer is lost.
    pub(crate) fn loses_answer(call: Call) -> Self {
        Self {
            call,
            after: 0,
            takes_effect: true,
        }
    }
}

/// The kinds of calls.
pub(crate) type Call = Operation;

/// The calls that a shard has had, and the faults that are still to strike.
#[derive(Debug, Default)]
pub(crate) struct Script {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    down: bool,
    calls: Vec<Call>,
    faults: Vec<Fault>,
}

impl Script {
    pub(crate) fn set_down(&self, down: bool) {
        self.inner.lock().unwrap().down = down;
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.inner.lock().unwrap().faults.push(fault);
    }

    /// The calls since the last time this was asked.
    pub(crate) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.inner.lock().unwrap().calls)
    }

    /// Notes a call, and decides about it: an error before it, or whether to lose its answer.
    pub(crate) fn begin(&self, call: Call, id: Option<&ExecutionId>) -> Result<bool, StoreError> {
        let mut inner = self.inner.lock().unwrap();
        inner.calls.push(call);
        if inner.down {
            return Err(unavailable(call, id, "the shard is down", true));
        }
        let Some(place) = inner.faults.iter().position(|fault| fault.call == call) else {
            return Ok(false);
        };
        if inner.faults[place].after > 0 {
            inner.faults[place].after -= 1;
            return Ok(false);
        }
        let fault = inner.faults.remove(place);
        if fault.takes_effect {
            Ok(true)
        } else {
            Err(unavailable(call, id, "a fault was asked for", true))
        }
    }
}

/// The error of a call whose answer was lost.
pub(crate) fn lost(call: Call, id: Option<&ExecutionId>) -> StoreError {
    unavailable(call, id, "the answer was lost", false)
}

fn unavailable(
    call: Call,
    id: Option<&ExecutionId>,
    reason: &str,
    outcome_known: bool,
) -> StoreError {
    let reason = reason.to_owned();
    let error = StoreError::new(
        call,
        StoreErrorKind::Unavailable {
            reason,
            outcome_known,
        },
    );
    match id {
        Some(id) => error.with_execution(id),
        None => error,
    }
}
