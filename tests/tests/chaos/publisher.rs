//! The plan is changed again and again: grow, call it off, settle, a middle shard leaves and comes back, shrink,
//! other weights from a file. Many of these commands are killed and run again.

use fastrand::Rng;
use serde_json::Value;

use crate::movers::expect_nothing_stuck;
use crate::process::{Kill, Ran, loom, loom_ok};
use crate::world::World;

/// The most shards.
const MOST: usize = 6;
/// What is no failure of a change of plan: somebody else changed it first, or has begun to.
const LEGAL: [&str; 4] = [
    "another plan was published first",
    "is not newer than the present one",
    "still migrating",
    "are not drained",
];

/// What changes the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Grow,
    MiddleLeaves,
    Returns,
    Shrink,
    Weigh,
}

const CYCLE: [Change; 5] = [
    Change::Grow,
    Change::MiddleLeaves,
    Change::Weigh,
    Change::Returns,
    Change::Shrink,
];

/// Changes until there were enough, and everything else has happened too.
pub(crate) fn slot(world: &World) {
    let mut publisher = Publisher {
        world,
        rng: Rng::with_seed(world.seed ^ 0x44),
        left: Vec::new(),
        weighted: false,
    };
    let mut satisfied = false;
    for round in 0.. {
        publisher.cycle(CYCLE[round % CYCLE.len()]);
        let epoch = publisher.plan()["epoch"].as_u64().unwrap_or_default();
        if !satisfied && round + 1 >= CYCLE.len() && epoch > world.changes {
            satisfied = true;
            world.change(|state| state.satisfied += 1);
        }
        if world.is_over() {
            break;
        }
    }
}

struct Publisher<'a> {
    world: &'a World,
    rng: Rng,
    /// Shards that have left.
    left: Vec<u64>,
    /// Whether some weigh more than others: then their number alone does not say what a new one weighs.
    weighted: bool,
}

impl Publisher<'_> {
    fn cycle(&mut self, change: Change) {
        self.settle_all();
        let members = self.members();
        let args = match change {
            Change::Grow if members.len() < MOST => self.grown(&members),
            Change::Grow | Change::Shrink if members.len() > 3 => rebalance(&[
                "--shards",
                &(members.len() - 1).to_string(),
                "--allow-shrink",
            ]),
            Change::MiddleLeaves if members.len() > 2 => {
                let middle = members[self.rng.usize(1..members.len() - 1)];
                self.left.push(middle);
                rebalance(&["--remove", &middle.to_string()])
            }
            Change::Returns => match self.left.iter().find(|id| !members.contains(id)).copied() {
                Some(back) => {
                    self.left.retain(|left| *left != back);
                    rebalance(&["--add", &back.to_string()])
                }
                None => return,
            },
            Change::Weigh if !members.is_empty() => self.weighed(&members),
            // There are as few as there may be, or something has failed.
            _ => return,
        };
        self.publish(&args);
        for _ in 0..self.rng.u32(0..4) {
            self.let_others_work();
            let step: &[&str] = match self.rng.u32(0..5) {
                0..2 => &["revert", "--all", "--yes"],
                2..4 => &["settle"],
                // Refused while anything is left on a source.
                _ => &["settle", "0-4095"],
            };
            self.publish(&strings(step));
        }
        self.let_others_work();
    }

    /// One shard more or two, by their number or by name. Where there are servers, every other one is on a server.
    fn grown(&mut self, members: &[u64]) -> Vec<String> {
        if self.rng.bool() && !self.weighted && self.world.databases.is_empty() {
            let shards = members.len() + 1 + self.rng.usize(0..2);
            return rebalance(&["--shards", &shards.to_string()]);
        }
        let highest = members.iter().chain(&self.left).max().copied();
        let new = highest.unwrap_or_default() + 1;
        let named = format!("{new}:1");
        match self.world.database(new).filter(|_| new % 2 == 1) {
            Some(url) => rebalance(&["--add", &named, "--add-url", &url]),
            None => rebalance(&["--add", &named]),
        }
    }

    /// A plan made from a file.
    fn weighed(&mut self, members: &[u64]) -> Vec<String> {
        let now = loom_ok(self.world, &["plan", "show"]);
        self.world.write("now.plan", &now);
        self.weighted = true;
        let heavy = members[self.rng.usize(0..members.len())];
        let weight = format!("{heavy}:{}", self.rng.u32(2..4));
        let args = ["plan", "rebalance", "now.plan", "--weight", &weight];
        let next = loom(self.world, "checks", &args, None, Kill::Never, &mut |_| {});
        self.world.write("next.plan", &next.stdout);
        strings(&["publish", "next.plan", "--yes"])
    }

    /// Runs a command until it has succeeded, or the plan is another one though it was killed.
    fn publish(&mut self, args: &[String]) {
        let before = self.plan()["epoch"].as_u64();
        for attempt in 0..4 {
            let kill = if attempt < 3 && self.rng.u32(0..3) > 0 {
                Kill::Everybody(Kill::point(&mut self.rng, 7))
            } else {
                Kill::Never
            };
            let ran = loom(self.world, "publishers", args, None, kill, &mut |_| {});
            if !ran.killed {
                self.judge(args, &ran);
            }
            let epoch = self.plan()["epoch"].as_u64();
            if !ran.killed || epoch != before || self.world.has_failed() {
                break;
            }
        }
        // Others are told of it when they meet a shard that has it.
        let epoch = self.plan()["epoch"].as_u64().unwrap_or_default();
        self.world
            .change(|state| state.epoch = state.epoch.max(epoch));
    }

    fn judge(&self, args: &[String], ran: &Ran) {
        let refused = ran.code == Some(3) && LEGAL.iter().any(|text| ran.stderr.contains(text));
        let good = ran.code == Some(0) && ran.stderr.is_empty();
        if !good && !refused && !self.world.has_failed() {
            let what = format!("loom {args:?} ended with {:?}: {}", ran.code, ran.stderr);
            self.world.fail(what);
        }
    }

    /// Until no bucket migrates.
    fn settle_all(&mut self) {
        let args = strings(&["drain", "--live", "--until-settled", "--json"]);
        loop {
            let kill = if self.rng.bool() {
                Kill::Everybody(Kill::point(&mut self.rng, 9))
            } else {
                Kill::Never
            };
            let ran = loom(self.world, "drains", &args, None, kill, &mut |_| {});
            if !ran.killed {
                self.judge(&args, &ran);
                if ran.code == Some(0) {
                    expect_nothing_stuck(self.world, &ran);
                    break;
                }
            }
            if self.world.has_failed() {
                break;
            }
        }
    }

    /// Traffic under this plan.
    fn let_others_work(&mut self) {
        let begun = self.world.state().lines;
        let lines = Kill::point(&mut self.rng, 9);
        self.world.wait_until(|state| {
            state.lines >= begun + lines || state.satisfied + 1 >= state.expected
        });
    }

    fn plan(&self) -> Value {
        let args = ["plan", "show", "--json"];
        let ran = loom(self.world, "checks", &args, None, Kill::Never, &mut |_| {});
        if ran.code != Some(0) {
            if !self.world.has_failed() {
                self.world.fail(format!("loom plan show: {}", ran.stderr));
            }
            return Value::Null;
        }
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn members(&self) -> Vec<u64> {
        let plan = self.plan();
        let shards = plan["per_shard"].as_array().into_iter().flatten();
        shards
            .filter(|shard| shard["leaving"] == false)
            .filter_map(|shard| shard["shard"].as_u64())
            .collect()
    }
}

fn rebalance(args: &[&str]) -> Vec<String> {
    let mut all = strings(&["rebalance", "--yes"]);
    all.extend(strings(args));
    all
}

fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|arg| (*arg).to_owned()).collect()
}
