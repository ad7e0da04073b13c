//! Runs tasks on one thread, in an order that a seed decides.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

#[path = "../../../src/simulation/random.rs"]
mod random;

pub(crate) use random::Random;

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
