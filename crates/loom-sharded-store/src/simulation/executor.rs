//! Runs tasks on one thread, in an order that chance decides.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use super::world::World;

/// More than any run needs.
const MOST_STEPS: u64 = 400_000;

type Work = Pin<Box<dyn Future<Output = ()>>>;

struct Task {
    /// The node that dies or sleeps with it; none for what is on the network.
    node: Option<usize>,
    work: Work,
    woken: Arc<Woken>,
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What tasks ask of the executor.
#[derive(Clone, Default)]
pub(super) struct Spawner(Rc<RefCell<Requests>>);

#[derive(Default)]
struct Requests {
    spawned: Vec<(Option<usize>, Work)>,
    killed: Vec<usize>,
    asleep: Vec<(usize, u64)>,
}

impl Spawner {
    pub(super) fn spawn(&self, node: Option<usize>, work: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().spawned.push((node, Box::pin(work)));
    }

    /// Drops everything that a node does.
    pub(super) fn kill(&self, node: usize) {
        self.0.borrow_mut().killed.push(node);
    }

    /// Nothing of the node goes on for some steps.
    pub(super) fn sleep(&self, node: usize, steps: u64) {
        self.0.borrow_mut().asleep.push((node, steps));
    }
}

pub(super) struct Executor {
    world: World,
    spawner: Spawner,
    tasks: Vec<Task>,
    /// By node, until which step it sleeps.
    asleep: Vec<u64>,
    /// Whether a task goes on for a while before another one gets its turn.
    sticky: bool,
}

impl Executor {
    pub(super) fn new(world: World, spawner: Spawner, nodes: usize) -> Self {
        let sticky = world.one_in(2);
        Self {
            world,
            spawner,
            tasks: Vec::new(),
            asleep: vec![0; nodes],
            sticky,
        }
    }

    /// Polls until nothing is left to do.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let mut last = None;
        for step in 0..MOST_STEPS {
            self.take_requests(step);
            if self.tasks.is_empty() {
                return Ok(());
            }
            let awake = |task: &Task| task.node.is_none_or(|node| self.asleep[node] <= step);
            let woken = |task: &Task| task.woken.0.load(Ordering::SeqCst);
            let ready: Vec<usize> = (0..self.tasks.len())
                .filter(|place| awake(&self.tasks[*place]) && woken(&self.tasks[*place]))
                .collect();
            if ready.is_empty() {
                if self.asleep.iter().any(|until| *until > step) {
                    self.asleep.fill(0);
                    continue;
                }
                return Err(format!("{} tasks wait for each other", self.tasks.len()));
            }
            let stays =
                last.filter(|last| self.sticky && ready.contains(last) && !self.world.one_in(12));
            let place = stays.unwrap_or_else(|| self.world.one_of(&ready));
            last = Some(place);
            let task = &mut self.tasks[place];
            task.woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(&task.woken));
            if task
                .work
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
            {
                drop(self.tasks.swap_remove(place));
                last = None;
            }
        }
        Err(format!(
            "after {MOST_STEPS} steps {} tasks go on",
            self.tasks.len()
        ))
    }

    fn take_requests(&mut self, step: u64) {
        let requests = std::mem::take(&mut *self.spawner.0.borrow_mut());
        for node in requests.killed {
            self.tasks.retain(|task| task.node != Some(node));
            self.asleep[node] = 0;
        }
        for (node, steps) in requests.asleep {
            self.asleep[node] = step + steps;
        }
        for (node, work) in requests.spawned {
            self.add(node, work);
        }
        for message in self.world.take_messages() {
            self.add(None, message);
        }
    }

    fn add(&mut self, node: Option<usize>, work: Work) {
        self.tasks.push(Task {
            node,
            work,
            woken: Arc::new(Woken(AtomicBool::new(true))),
        });
    }
}
