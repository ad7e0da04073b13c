//! Faults that a test asks for.

use std::fmt;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

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

/// What happens just before a call does.
type Event = Box<dyn FnOnce() + Send>;

/// The calls that a shard has had, and what is still to happen to some.
#[derive(Default)]
pub(crate) struct Script {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    down: bool,
    yields: bool,
    takes: Duration,
    calls: Vec<Call>,
    faults: Vec<Fault>,
    events: Vec<(Call, Event)>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

impl Script {
    pub(crate) fn set_down(&self, down: bool) {
        self.inner.lock().unwrap().down = down;
    }

    pub(crate) fn add(&self, fault: Fault) {
        self.inner.lock().unwrap().faults.push(fault);
    }

    /// Something that happens just before the next call of this kind takes effect.
    pub(crate) fn before(&self, call: Call, event: impl FnOnce() + Send + 'static) {
        self.inner
            .lock()
            .unwrap()
            .events
            .push((call, Box::new(event)));
    }

    /// From now on every call lets others go first, before it takes effect and after.
    pub(crate) fn yields(&self) {
        self.inner.lock().unwrap().yields = true;
    }

    /// From now on every call takes this long, by the clock of the runtime: for tests with `start_paused = true`.
    pub(crate) fn takes(&self, time: Duration) {
        self.inner.lock().unwrap().takes = time / 2;
    }

    /// Lets others go first, if that was asked for.
    pub(crate) async fn pause(&self) {
        let (yields, takes) = {
            let inner = self.inner.lock().unwrap();
            (inner.yields, inner.takes)
        };
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if yields {
            let mut paused = false;
            poll_fn(|cx| {
                if std::mem::replace(&mut paused, true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    /// What is to happen before a call of this kind.
    pub(crate) fn event(&self, call: Call) {
        let event = {
            let mut inner = self.inner.lock().unwrap();
            let place = inner.events.iter().position(|(before, _)| *before == call);
            place.map(|place| inner.events.remove(place).1)
        };
        if let Some(event) = event {
            event();
        }
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
