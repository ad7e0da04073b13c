//! Runs tasks on one thread, in an order that a seed decides.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// `xorshift64*`: the same numbers for the same seed, everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Any seed but 0 will do, and similar ones must not begin alike.
        let mut random = Self((seed.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.below(1);
        random
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }

    /// One of some things.
    pub(crate) fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        let place = self.below(things.len() as u64);
        &things[usize::try_from(place).unwrap()]
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls the tasks until all are done, each time one of those that have been woken. Not from within a
/// runtime of tokio's, whose own idea of fairness would come in between.
///
/// # Panics
/// When tasks are left and none of them will ever be woken.
pub(crate) fn interleave(seed: u64, tasks: Vec<Pin<Box<dyn Future<Output = impl Sized> + '_>>>) {
    let mut random = Random::new(seed);
    // Every other run lets a task go on for a while before another one gets its turn, so that one can be done
    // with much while another has not moved.
    let sticky = seed % 2 == 1;
    let mut last = None;
    let mut running: Vec<_> = tasks
        .into_iter()
        .map(|task| (task, Arc::new(Woken(AtomicBool::new(true)))))
        .collect();
    while !running.is_empty() {
        let ready: Vec<usize> = running
            .iter()
            .enumerate()
            .filter(|(_, (_, woken))| woken.0.load(Ordering::SeqCst))
            .map(|(place, _)| place)
            .collect();
        assert!(
            !ready.is_empty(),
            "seed {seed}: {} tasks wait for each other",
            running.len()
        );
        let stays = last.filter(|last| sticky && ready.contains(last) && random.below(16) > 0);
        let place = stays.unwrap_or_else(|| *random.one_of(&ready));
        last = Some(place);
        let (task, woken) = &mut running[place];
        woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(woken));
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
        {
            drop(running.swap_remove(place));
        }
    }
}
