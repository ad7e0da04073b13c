//! Giving space back while nobody writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use futures_executor::block_on;
use loom_spi::Operation;

use crate::space::{Release, Space};
use crate::writer::Writer;

/// Has a thread give back what deleted logs were on, once nobody has written for a while. Without one it does nothing.
///
/// The thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Vacuum {
    changes: Arc<AtomicU64>,
    wake: Option<Sender<()>>,
}

/// What is given back in one write. A caller who comes meanwhile waits for no more than that.
const PAGES: u32 = 16;
/// How many times as long as a step took the thread rests after it: there may be others in other processes, of whom
/// nothing is known here.
const REST: u32 = 20;
/// One in so many pages may stay free. What is stored next takes them.
const RESERVE: u64 = 16;

impl Vacuum {
    /// For a store without.
    pub(crate) fn none() -> Self {
        Self {
            changes: Arc::default(),
            wake: None,
        }
    }

    /// Starts the thread. An earlier process may have left something to give back, so it looks once by itself.
    pub(crate) fn start(writer: Weak<Writer>, quiet: Duration) -> std::io::Result<Self> {
        let (wake, woken) = bounded(1);
        let changes = Arc::default();
        let idle = Idle {
            changes: Arc::clone(&changes),
            woken,
            writer,
            quiet,
        };
        thread::Builder::new()
            .name("loom-sqlite-vacuum".into())
            .spawn(move || idle.run())?;
        let wake = Some(wake);
        Ok(Self { changes, wake })
    }

    /// To be called with every write.
    pub(crate) fn wrote(&self, operation: Operation) {
        let Some(wake) = &self.wake else { return };
        self.changes.fetch_add(1, Ordering::Relaxed);
        let frees = matches!(
            operation,
            Operation::Delete | Operation::Retire | Operation::Unseal | Operation::Forget
        );
        if frees {
            // When it is full the thread will look anyway.
            let _ = wake.try_send(());
        }
    }
}

/// What the thread knows.
struct Idle {
    changes: Arc<AtomicU64>,
    woken: Receiver<()>,
    writer: Weak<Writer>,
    quiet: Duration,
}

impl Idle {
    fn run(&self) {
        loop {
            if self.release() || self.woken.recv().is_err() {
                return;
            }
        }
    }

    /// Gives everything back, in steps, whenever nobody writes. Says whether the store is gone.
    fn release(&self) -> bool {
        let mut rest = self.quiet;
        loop {
            let seen = self.changes.load(Ordering::Relaxed);
            if let Err(RecvTimeoutError::Disconnected) = self.woken.recv_timeout(rest) {
                return true;
            }
            if self.changes.load(Ordering::Relaxed) != seen {
                rest = self.quiet;
                continue;
            }
            let Some(writer) = self.writer.upgrade() else {
                return true;
            };
            let started = Instant::now();
            let step = Release::new(PAGES).keeping(RESERVE);
            let released = block_on(writer.change(Operation::Delete, step));
            match released {
                Ok(space) if goes_on(&space) => rest = started.elapsed() * REST,
                // There will be another occasion. Nobody waits for this one.
                _ => return false,
            }
        }
    }
}

fn goes_on(space: &Space) -> bool {
    space.released > 0 || space.reclaiming
}
