//! Looks that callers take themselves.

use std::future::poll_fn;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use crate::failure::Failure;
use crate::reader::Reader;

/// Connections on which callers look by themselves. A few rows that the system has in memory are read in a few
/// microseconds; to have that done by a thread takes several times as long.
///
/// A look may have to wait for the disk, and an async thread must not do that for long. What the system has in memory
/// cannot be asked, but it can be told by the time: after a look that took [`SLOW`], the next [`REST`] are left to the
/// threads, which also brings into memory what they read. So an async thread is held up by the disk in one of that many
/// looks at the most. It never waits for a lock: a connection that is in use, and a file that is locked, are
/// left to the threads as well.
#[derive(Debug)]
pub(crate) struct AtOnce {
    seats: Box<[Mutex<Option<Seat>>]>,
    /// How many looks are left to the threads.
    resting: AtomicU32,
}

#[derive(Debug)]
struct Seat {
    reader: Reader,
    looks: u32,
}

/// Several times what it takes to read a page of events in memory.
const SLOW: Duration = Duration::from_micros(500);
const REST: u32 = 256;
/// Other tasks of the thread get their turn after so many looks.
const YIELD_AFTER: u32 = 64;

impl AtOnce {
    pub(crate) fn new(readers: Vec<Reader>) -> Self {
        let seat = |reader| Mutex::new(Some(Seat { reader, looks: 0 }));
        Self {
            seats: readers.into_iter().map(seat).collect(),
            resting: AtomicU32::new(0),
        }
    }

    /// Looks, unless that has to be left to a thread.
    pub(crate) async fn look<T>(
        &self,
        look: impl Fn(&Reader) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        if self.rests() {
            return None;
        }
        let (found, in_a_row) = self.seats.iter().find_map(|seat| {
            // One that was left in the middle of a look is not used again.
            let mut seat = seat.try_lock().ok()?;
            let Seat { reader, looks } = seat.as_mut()?;
            let started = Instant::now();
            let found = look(reader);
            if started.elapsed() >= SLOW {
                self.resting.store(REST, Ordering::Relaxed);
            }
            *looks = (*looks + 1) % YIELD_AFTER;
            Some((found, *looks))
        })?;
        if in_a_row == 0 {
            yield_now().await;
        }
        (!is_locked(&found)).then_some(found)
    }

    /// Closes the connections, once those who look have finished.
    pub(crate) fn close(&self) {
        for seat in &self.seats {
            drop(seat.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    fn rests(&self) -> bool {
        let left = self.resting.load(Ordering::Relaxed);
        if left == 0 {
            return false;
        }
        // When several count at once the rest is a little longer.
        self.resting.store(left - 1, Ordering::Relaxed);
        true
    }
}

fn is_locked<T>(found: &Result<T, Failure>) -> bool {
    let Err(Failure::Sqlite(error)) = found else {
        return false;
    };
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use rusqlite::{Connection, ffi};

    use super::*;

    fn one_seat() -> AtOnce {
        let connection = Connection::open_in_memory().unwrap();
        AtOnce::new(vec![Reader::new(connection).unwrap()])
    }

    fn poll<T>(look: impl Future<Output = T>) -> Poll<T> {
        pin!(look).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn find(reader: &Reader) -> Result<i64, Failure> {
        Ok(reader
            .statement("SELECT 7")?
            .query_row([], |row| row.get(0))?)
    }

    /// What a look at once came to.
    fn found(at_once: &AtOnce) -> Option<i64> {
        match poll(at_once.look(find)) {
            Poll::Ready(found) => found.map(Result::unwrap),
            Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn other_tasks_get_their_turn_between_looks() {
        let at_once = one_seat();
        for _ in 1..YIELD_AFTER {
            assert_eq!(found(&at_once), Some(7));
        }
        let mut look = pin!(at_once.look(find));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(look.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(Some(Ok(7))) = look.as_mut().poll(&mut cx) else {
            panic!("the second turn is the last");
        };
    }

    #[test]
    fn after_a_slow_look_the_next_ones_are_left_to_the_threads() {
        let at_once = one_seat();
        let slow = |reader: &Reader| {
            let started = Instant::now();
            while started.elapsed() < SLOW {}
            find(reader)
        };
        assert!(matches!(poll(at_once.look(slow)), Poll::Ready(Some(Ok(7)))));
        for _ in 0..REST {
            assert_eq!(found(&at_once), None);
        }
        assert_eq!(found(&at_once), Some(7));
    }

    #[test]
    fn a_connection_in_use_is_not_waited_for() {
        let at_once = one_seat();
        let during = poll(at_once.look(|_| Ok(found(&at_once))));
        assert!(matches!(during, Poll::Ready(Some(Ok(None)))));
        assert_eq!(found(&at_once), Some(7));
    }

    #[test]
    fn a_locked_file_is_left_to_the_threads_which_wait() {
        let at_once = one_seat();
        let locked = |_: &Reader| -> Result<i64, Failure> {
            let busy = ffi::Error::new(ffi::SQLITE_BUSY);
            Err(rusqlite::Error::SqliteFailure(busy, None).into())
        };
        assert!(matches!(poll(at_once.look(locked)), Poll::Ready(None)));
        let broken = |_: &Reader| -> Result<i64, Failure> {
            let corrupt = ffi::Error::new(ffi::SQLITE_CORRUPT);
            Err(rusqlite::Error::SqliteFailure(corrupt, None).into())
        };
        assert!(matches!(
            poll(at_once.look(broken)),
            Poll::Ready(Some(Err(Failure::Sqlite(_))))
        ));
    }

    #[test]
    fn nothing_is_looked_at_once_it_is_closed() {
        let at_once = one_seat();
        at_once.close();
        assert_eq!(found(&at_once), None);
    }
}
