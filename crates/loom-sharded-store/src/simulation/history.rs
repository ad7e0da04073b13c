//! What callers asked and were told.

use std::cell::RefCell;
use std::rc::Rc;

use super::world::World;

/// A request about one execution, as a caller sees it. Payloads are numbers that are used once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Append {
        expected: u64,
        payload: u64,
        fence: Option<u64>,
        terminal: bool,
    },
    Read,
    Head,
    Delete {
        expected: Option<u64>,
    },
    Acquire,
    Record {
        child: u64,
    },
    Children,
    Forget,
}

/// What a caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Appended(u64),
    Conflict(u64),
    Closed(u64),
    Fenced(u64),
    Events(Vec<u64>, bool),
    NotFound,
    Head(Option<(u64, bool)>),
    Deleted(u64),
    Token(u64),
    Recorded,
    Children(Vec<u64>),
    Forgot(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) execution: usize,
    pub(super) request: Request,
    pub(super) from: u64,
    /// With its time; none when the caller does not know, so that it may have taken effect or may yet.
    pub(super) answer: Option<(Answer, u64)>,
    /// It is known to have had no effect.
    pub(super) refused: bool,
}

/// A listing, as a caller sees it.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) from: u64,
    pub(super) to: u64,
    /// With the length of the log.
    pub(super) executions: Vec<(usize, u64)>,
}

#[derive(Clone)]
pub(super) struct History {
    world: World,
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) entries: Vec<Entry>,
    pub(super) listings: Vec<Listing>,
    /// What must never happen and was seen.
    pub(super) violations: Vec<String>,
}

impl History {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            inner: Rc::default(),
        }
    }

    pub(super) fn begin(&self, execution: usize, request: Request) -> usize {
        let from = self.world.tick();
        let mut inner = self.inner.borrow_mut();
        let place = inner.entries.len();
        self.world
            .note(|| format!("#{place} execution {execution}: {request:?}"));
        inner.entries.push(Entry {
            execution,
            request,
            from,
            answer: None,
            refused: false,
        });
        place
    }

    pub(super) fn answered(&self, place: usize, answer: Answer) {
        let to = self.world.tick();
        self.world.note(|| format!("#{place} -> {answer:?}"));
        self.inner.borrow_mut().entries[place].answer = Some((answer, to));
    }

    /// It had no effect.
    pub(super) fn refused(&self, place: usize) {
        self.world.note(|| format!("#{place} -> no effect"));
        self.inner.borrow_mut().entries[place].refused = true;
    }

    pub(super) fn listed(&self, from: u64, executions: Vec<(usize, u64)>) {
        let to = self.world.tick();
        self.world
            .note(|| format!("listed {executions:?} since {from}"));
        self.inner.borrow_mut().listings.push(Listing {
            from,
            to,
            executions,
        });
    }

    pub(super) fn violation(&self, what: String) {
        self.world.note(|| format!("VIOLATION: {what}"));
        self.inner.borrow_mut().violations.push(what);
    }

    pub(super) fn inner(&self) -> std::cell::Ref<'_, Inner> {
        self.inner.borrow()
    }
}
