//! Processes that work on executions, are killed, and are followed by others that go on with the same ones.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Command, Stdio};

use fastrand::Rng;
use loom_tests::chaos::{Line, Op, Says};

use crate::judge::{all_ids, questions};
use crate::process::{Kill, Running, was_killed};
use crate::world::World;

const NODE: &str = env!("CARGO_BIN_EXE_loom-chaos-node");
/// A process answers up to 2^this before it is killed.
const ANSWERS: u32 = 8;
/// The slot that looks in the end.
const CHECKER: u64 = 99;

/// Lives one after another, until everything is over.
pub(crate) fn slot(world: &World, slot: u64) {
    let mut rng = Rng::with_seed(world.seed ^ (slot + 1));
    let mut life = 0;
    while !world.is_over() {
        live(world, slot, life, &mut rng);
        life += 1;
    }
}

fn live(world: &World, slot: u64, life: u64, rng: &mut Rng) {
    let seed = rng.u64(..).to_string();
    let answers = Kill::point(rng, ANSWERS);
    // Some end by themselves: then nothing is unknown.
    let killed = rng.u32(0..10) > 0;
    let errors = world.folder.join(format!("errors-{slot}"));
    let (name, number) = (slot.to_string(), life.to_string());
    let mut command = Command::new(NODE);
    command
        .arg("run")
        .arg(&world.folder)
        .args([&name, &number, &seed])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).unwrap());
    let mut running = Running::start(world, &mut command);
    let mut stdin = running.0.stdin.take();
    let mut stdout = BufReader::new(running.0.stdout.take().unwrap());
    let (mut answered, mut text) = (0, Vec::new());
    loop {
        text.clear();
        stdout.read_until(b'\n', &mut text).unwrap();
        // What was cut off has not been said: an operation is begun after it is announced.
        if text.last() != Some(&b'\n') {
            break;
        }
        let line: Line = serde_json::from_slice(&text).unwrap();
        world.hear(slot, life, &line);
        if world.has_failed() {
            running.kill();
        }
        match &line.says {
            Says::Begin(Op::Pause) => sleep_over_a_change(world, slot, stdin.as_mut()),
            Says::Begin(_) => {}
            Says::End { .. } => {
                answered += 1;
                if answered == answers && killed {
                    running.kill();
                }
                if (answered == answers && !killed) || world.is_over() {
                    // It answers what it has begun, and ends.
                    stdin = None;
                }
            }
        }
    }
    let status = running.0.wait().unwrap();
    world.gone("nodes", Some(slot), was_killed(status));
    if was_killed(status) {
        world.change(|state| state.judge.killed(slot, life));
    } else if !status.success() {
        let said = fs::read_to_string(&errors).unwrap();
        world.fail(format!("process {slot}.{life} ended with {status}: {said}"));
    } else if !world.state().judge.is_idle(slot) {
        world.fail(format!("process {slot}.{life} left something unanswered"));
    }
}

/// The process remembers what it has read under its plan, and goes on when there is another one.
fn sleep_over_a_change(world: &World, slot: u64, stdin: Option<&mut impl Write>) {
    let asleep = world.epoch_of(slot);
    world.wait_until(|state| state.epoch > asleep || state.satisfied == state.expected);
    if let Some(stdin) = stdin {
        // An error means that it was killed.
        let _ = stdin.write_all(b"go\n");
    }
}

/// Another process looks at every execution. Where it `writes`, also at the fences.
pub(crate) fn check(world: &World, writes: bool) {
    let mut ops = String::new();
    for id in all_ids() {
        let children = if id.starts_with("own-") { 5 } else { 0 };
        for op in questions(&id, children, writes) {
            ops.push_str(&serde_json::to_string(&op).unwrap());
            ops.push('\n');
        }
    }
    let file = world.write("questions", &ops);
    let mut command = Command::new(NODE);
    command
        .arg("check")
        .arg(&world.folder)
        .stdin(File::open(file).unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut running = Running::start(world, &mut command);
    for line in BufReader::new(running.0.stdout.take().unwrap()).lines() {
        world.hear(CHECKER, 0, &serde_json::from_str(&line.unwrap()).unwrap());
    }
    let status = running.0.wait().unwrap();
    world.gone("checks", Some(CHECKER), false);
    assert!(status.success(), "the check ended with {status}");
}
