//! Processes: started, listened to, killed, and never left behind.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fastrand::Rng;

use crate::world::World;

/// A process that ends with this, at the latest.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(world: &World, command: &mut Command) -> Self {
        let child = command.current_dir(&world.folder).spawn().unwrap();
        world.change(|state| state.alive += 1);
        Self(child)
    }

    pub(crate) fn kill(&mut self) {
        // An error means that it has ended and was waited for.
        let _ = self.0.kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn was_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}

/// When a command is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kill {
    Never,
    /// When it has told so many lines of progress.
    Told(u64),
    /// When everybody together has told so many lines since it was started.
    Everybody(u64),
}

impl Kill {
    /// After 1 to 2^`bits` lines, small numbers as often as large ones.
    pub(crate) fn point(rng: &mut Rng, bits: u32) -> u64 {
        let most = 1_u64 << rng.u32(0..=bits);
        rng.u64(most / 2..most) + 1
    }
}

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) killed: bool,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A line of progress, as it comes.
pub(crate) type OnLine<'a> = &'a mut (dyn FnMut(&str) + Send);

/// Runs `loom`, and kills it when it is time. Whoever asks judges how it ended.
pub(crate) fn loom<S: AsRef<OsStr>>(
    world: &World,
    kind: &'static str,
    args: &[S],
    env: Option<(&str, &str)>,
    kill: Kill,
    on_line: OnLine<'_>,
) -> Ran {
    let mut command = Command::new(&world.loom);
    command
        .args(args)
        .env_remove("LOOM_CONFIG")
        .env_remove("LOOM_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some((name, value)) = env {
        command.env(name, value);
    }
    let mut running = Running::start(world, &mut command);
    let begun = world.state().lines;
    let mut stdout = running.0.stdout.take().unwrap();
    let stderr = BufReader::new(running.0.stderr.take().unwrap());
    let (told, quiet) = (AtomicU64::new(0), AtomicBool::new(false));
    let ran = thread::scope(|scope| {
        let out = scope.spawn(move || {
            let mut text = Vec::new();
            stdout.read_to_end(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        });
        let (told, quiet) = (&told, &quiet);
        let err = scope.spawn(move || {
            let mut text = String::new();
            for line in stderr.lines() {
                let line = line.unwrap();
                on_line(&line);
                text.push_str(&line);
                text.push('\n');
                world.change(|state| {
                    state.lines += 1;
                    told.fetch_add(1, Ordering::SeqCst);
                });
            }
            world.change(|_| quiet.store(true, Ordering::SeqCst));
            text
        });
        world.wait_until(|state| {
            let due = match kill {
                Kill::Never => false,
                Kill::Told(lines) => told.load(Ordering::SeqCst) >= lines,
                Kill::Everybody(lines) => state.lines >= begun + lines,
            };
            due || quiet.load(Ordering::SeqCst)
        });
        // Where it is quiet, it has ended or is about to.
        let due = !quiet.load(Ordering::SeqCst);
        if due || world.has_failed() {
            running.kill();
        }
        (out.join().unwrap(), err.join().unwrap())
    });
    let status = running.0.wait().unwrap();
    let killed = was_killed(status);
    world.gone(kind, None, killed);
    if ["publishers", "drains", "moves"].contains(&kind) {
        let args: Vec<_> = args
            .iter()
            .map(|arg| arg.as_ref().display().to_string())
            .collect();
        world.change(|state| {
            let lines = state.lines;
            state.note(format!(
                "loom {} during lines {begun} to {lines}: {status}; plan epoch {}",
                args.join(" "),
                state.epoch
            ));
        });
    }
    Ran {
        killed,
        code: status.code(),
        stdout: ran.0,
        stderr: ran.1,
    }
}

/// Runs `loom` to its end, which has to be a good one.
pub(crate) fn loom_ok<S: AsRef<OsStr>>(world: &World, args: &[S]) -> String {
    let ran = loom(world, "checks", args, None, Kill::Never, &mut |_| {});
    let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
    assert_eq!(ran.code, Some(0), "loom {args:?}: {}", ran.stderr);
    ran.stdout
}

/// Notes a failure unless the command was killed or has succeeded.
pub(crate) fn expect_ok(world: &World, what: &str, ran: &Ran) -> bool {
    if !ran.killed && ran.code != Some(0) && !world.has_failed() {
        world.fail(format!(
            "{what} ended with {:?}: {}{}",
            ran.code, ran.stdout, ran.stderr
        ));
    }
    !ran.killed && ran.code == Some(0)
}
