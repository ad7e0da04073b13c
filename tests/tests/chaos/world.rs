//! What all threads of the test share: where the deployment is, how far everything is, and what went wrong.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use loom_tests::chaos::{Line, Says};

use crate::judge::Judge;

/// How many commands a failure tells of.
const TOLD: usize = 24;

/// The deployment and everything that happens to it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) folder: PathBuf,
    pub(crate) loom: PathBuf,
    pub(crate) seed: u64,
    /// Databases that shards can be put into. Without any, all are in files.
    pub(crate) databases: Vec<String>,
    /// How many processes shall be killed, at least.
    pub(crate) kills: u64,
    /// How often the plan shall change, at least.
    pub(crate) changes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

/// How far everything is.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) judge: Judge,
    /// What processes have printed, all together.
    pub(crate) lines: u64,
    /// Processes that were killed, by what they did.
    pub(crate) killed: HashMap<&'static str, u64>,
    /// Processes that ended by themselves, by what they did.
    pub(crate) ended: HashMap<&'static str, u64>,
    /// Processes that run.
    pub(crate) alive: u64,
    /// Kills while at least four processes ran.
    pub(crate) crowded: u64,
    /// The newest plan that anybody has told of.
    pub(crate) epoch: u64,
    /// The plans of the processes that run, by slot.
    epochs: HashMap<u64, u64>,
    /// Answers that a process gave under another plan than another process had at that moment.
    pub(crate) mixed: u64,
    /// Threads that have done what they have to do.
    pub(crate) satisfied: u64,
    /// How many there are.
    pub(crate) expected: u64,
    /// The last commands that change plans or move, and what became of them.
    pub(crate) history: VecDeque<String>,
    pub(crate) failures: Vec<String>,
}

impl State {
    pub(crate) fn kills(&self) -> u64 {
        self.killed.values().sum()
    }

    pub(crate) fn note(&mut self, command: String) {
        if self.history.len() == TOLD {
            self.history.pop_front();
        }
        self.history.push_back(command);
    }

    fn is_over(&self, kills: u64) -> bool {
        !self.failures.is_empty() || (self.satisfied == self.expected && self.kills() >= kills)
    }
}

/// What has to have happened before a run is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    pub(crate) kills: u64,
    pub(crate) changes: u64,
}

impl World {
    pub(crate) fn new(
        folder: &Path,
        loom: PathBuf,
        seed: u64,
        enough: Enough,
        expected: u64,
    ) -> Self {
        let state = State {
            expected,
            epoch: 1,
            ..State::default()
        };
        Self {
            folder: folder.to_owned(),
            loom,
            seed,
            databases: Vec::new(),
            kills: enough.kills,
            changes: enough.changes,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Where a shard is that goes to a server: those take turns.
    pub(crate) fn database(&self, shard: u64) -> Option<String> {
        let servers = self.databases.len() as u64;
        let server = usize::try_from(shard.checked_rem(servers)?).ok()?;
        Some(format!("{}?schema=shard_{shard}", self.databases[server]))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A thread that panicked has said why; the others end for it, and go on looking at the state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes everybody who waits for that.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.notify_all();
        result
    }

    /// Waits until something is so, or something has failed.
    pub(crate) fn wait_until(&self, is_so: impl Fn(&State) -> bool) {
        let mut state = self.state();
        while !is_so(&state) && state.failures.is_empty() {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn fail(&self, what: impl Into<String>) {
        self.change(|state| state.failures.push(what.into()));
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.state().failures.is_empty()
    }

    /// Whether all that was to happen has happened, or something went wrong.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over(self.kills)
    }

    /// A process that works on executions said something.
    pub(crate) fn hear(&self, slot: u64, life: u64, line: &Line) {
        self.change(|state| {
            state.lines += 1;
            if let Says::End { epoch, .. } = line.says {
                state.epochs.insert(slot, epoch);
                state.epoch = state.epoch.max(epoch);
                if state.epochs.values().any(|other| *other != epoch) {
                    state.mixed += 1;
                }
            }
            if let Err(wrong) = state.judge.hear(slot, life, line) {
                state.failures.push(wrong);
            }
        });
    }

    /// The plan that the process of a slot was under when it last said something.
    pub(crate) fn epoch_of(&self, slot: u64) -> u64 {
        self.state().epochs.get(&slot).copied().unwrap_or_default()
    }

    /// A process has ended.
    pub(crate) fn gone(&self, kind: &'static str, slot: Option<u64>, killed: bool) {
        self.change(|state| {
            if killed {
                *state.killed.entry(kind).or_default() += 1;
                state.crowded += u64::from(state.alive >= 4);
            } else {
                *state.ended.entry(kind).or_default() += 1;
            }
            state.alive -= 1;
            if let Some(slot) = slot {
                state.epochs.remove(&slot);
            }
        });
    }
}
