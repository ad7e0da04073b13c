//! Running the command of a node.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::sync::watch;

/// The most that a command may write to stdout: its output stands in a log.
pub(crate) const MAX_OUTPUT_BYTES: usize = 256 << 10;
/// How much of the end of stderr a failure keeps.
const STDERR_TAIL_BYTES: usize = 2 << 10;

/// Why a command gave no output.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    CannotStart { program: String, source: io::Error },
    Exit { status: ExitStatus, stderr: String },
    TooMuchOutput,
    NotUtf8 { at: usize },
    Io(io::Error),
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotStart { program, source } => {
                write!(f, "`{program}` could not be started: {source}")
            }
            Self::Exit { status, stderr } => {
                write!(f, "the command ended with {status}")?;
                match stderr.trim_end() {
                    "" => Ok(()),
                    stderr => write!(f, "; it said: {stderr}"),
                }
            }
            Self::TooMuchOutput => write!(
                f,
                "the command wrote more than {MAX_OUTPUT_BYTES} bytes to stdout: have it write a file and print where that is"
            ),
            Self::NotUtf8 { at } => write!(
                f,
                "the command wrote bytes to stdout that are not UTF-8, the first at {at}: have it write a file and print where that is"
            ),
            Self::Io(error) => write!(f, "the command could not be talked to: {error}"),
        }
    }
}

/// Runs a command to its end and returns what it wrote to stdout, without newlines at the end, as `$(…)` does
/// in a shell.
///
/// The command leads a process group of its own. Whatever is left of the group when the command has ended, or when
/// `stop` says so, or when this future is dropped, is killed. After a stop this never returns: nothing
/// may be recorded about a command that was not allowed to finish.
pub(crate) async fn run(
    command: &[String],
    env: &BTreeMap<String, String>,
    folder: &Path,
    stdin: &[u8],
    mut stop: watch::Receiver<bool>,
) -> Result<String, CommandFailure> {
    let stopped = async move {
        // An error means that nobody is left who could stop it.
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = stopped => std::future::pending().await,
        result = run_unstopped(command, env, folder, stdin) => result,
    }
}

async fn run_unstopped(
    command: &[String],
    env: &BTreeMap<String, String>,
    folder: &Path,
    stdin: &[u8],
) -> Result<String, CommandFailure> {
    let Some((program, arguments)) = command.split_first() else {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "there is no program");
        return Err(CommandFailure::CannotStart {
            program: String::new(),
            source,
        });
    };
    let mut child = Command::new(program)
        .args(arguments)
        .envs(env)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| CommandFailure::CannotStart {
            program: program.clone(),
            source,
        })?;
    let group = Group::of(child.id());
    let (pipe_in, pipe_out, pipe_err) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut pipe) = pipe_in {
            // A command need not read what it is given.
            let _ = pipe.write_all(stdin).await;
        }
        std::future::pending::<Infallible>().await
    };
    let collect = async {
        let mut output = Output::default();
        let stdout = read_bounded(pipe_out, &mut output.stdout, MAX_OUTPUT_BYTES);
        let stderr = read_tail(pipe_err, &mut output.stderr);
        let (whole, _) = tokio::try_join!(stdout, stderr)?;
        Ok::<_, CommandFailure>(if whole { Some(output) } else { None })
    };
    let finish = async {
        let status = child.wait().await.map_err(CommandFailure::Io);
        // A process that was left behind would keep the pipes open.
        drop(group);
        status
    };
    let both = async {
        let mut collect = std::pin::pin!(collect);
        let mut finish = std::pin::pin!(finish);
        tokio::select! {
            // Too much output, or a broken pipe: there is nothing to wait for.
            collected = &mut collect => match collected? {
                None => Err(CommandFailure::TooMuchOutput),
                Some(output) => Ok((finish.await?, output)),
            },
            status = &mut finish => {
                let status = status?;
                match collect.await? {
                    None => Err(CommandFailure::TooMuchOutput),
                    Some(output) => Ok((status, output)),
                }
            }
        }
    };
    let (status, output) = tokio::select! {
        result = both => result?,
        never = feed => match never {},
    };
    if !status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(CommandFailure::Exit { status, stderr });
    }
    match String::from_utf8(output.stdout) {
        Ok(mut text) => {
            text.truncate(text.trim_end_matches(['\n', '\r']).len());
            Ok(text)
        }
        Err(error) => Err(CommandFailure::NotUtf8 {
            at: error.utf8_error().valid_up_to(),
        }),
    }
}

#[derive(Default)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Reads to the end; `false` when there is more than `most`.
async fn read_bounded(
    pipe: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    most: usize,
) -> Result<bool, CommandFailure> {
    let Some(pipe) = pipe else { return Ok(true) };
    let read = pipe.take(most as u64 + 1).read_to_end(into).await;
    read.map(|bytes| bytes <= most).map_err(CommandFailure::Io)
}

/// Reads to the end and keeps the last part.
async fn read_tail(
    pipe: Option<impl AsyncRead + Unpin>,
    tail: &mut Vec<u8>,
) -> Result<(), CommandFailure> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut buffer = vec![0; 4 << 10];
    loop {
        let read = pipe.read(&mut buffer).await.map_err(CommandFailure::Io)?;
        if read == 0 {
            return Ok(());
        }
        tail.extend_from_slice(&buffer[..read]);
        tail.drain(..tail.len().saturating_sub(STDERR_TAIL_BYTES));
    }
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(leader: Option<u32>) -> Self {
        Self(
            leader
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
        )
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that nothing is left of it.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn sh(script: &str, stdin: &[u8]) -> Result<String, CommandFailure> {
        let (_keep, stop) = watch::channel(false);
        let command = ["sh", "-c", script].map(String::from);
        let env = BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]);
        run(&command, &env, Path::new("/"), stdin, stop).await
    }

    #[tokio::test]
    async fn a_command_gets_its_input_environment_and_folder() {
        let out = sh("read line; echo \"$GREETING $line $(pwd)\"; echo", b"you\n").await;
        assert_eq!(out.unwrap(), "hello you /");
    }

    #[tokio::test]
    async fn input_that_is_not_read_is_no_failure() {
        assert_eq!(sh("exec true", &vec![b'x'; 1 << 20]).await.unwrap(), "");
        assert_eq!(
            sh("exec <&-; echo done", &vec![b'x'; 1 << 20])
                .await
                .unwrap(),
            "done"
        );
    }

    #[tokio::test]
    async fn large_input_and_output_pass_at_the_same_time() {
        let input = vec![b'y'; MAX_OUTPUT_BYTES];
        assert_eq!(sh("cat", &input).await.unwrap().into_bytes(), input);
    }

    #[tokio::test]
    async fn a_failure_carries_the_end_of_stderr() {
        let failure = sh(
            "echo first; yes | head -n 9000 >&2; echo no such table >&2; exit 3",
            b"",
        )
        .await;
        let text = failure.unwrap_err().to_string();
        assert!(text.contains("exit status: 3"), "{text}");
        assert!(text.ends_with("no such table"), "{text}");
        assert!(text.len() < 3000);
    }

    #[tokio::test]
    async fn output_over_the_limit_ends_the_command() {
        let failure = sh("yes", b"").await.unwrap_err();
        assert!(
            matches!(failure, CommandFailure::TooMuchOutput),
            "{failure}"
        );
    }

    #[tokio::test]
    async fn what_is_not_text_or_cannot_start_is_told() {
        let failure = sh("printf 'ab\\377'", b"").await.unwrap_err();
        assert!(
            matches!(failure, CommandFailure::NotUtf8 { at: 2 }),
            "{failure}"
        );
        let (_keep, stop) = watch::channel(false);
        let command = ["no-such-program".to_owned()];
        let failure = run(&command, &BTreeMap::new(), Path::new("/"), b"", stop).await;
        let text = failure.unwrap_err().to_string();
        assert!(
            text.contains("`no-such-program` could not be started"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn processes_that_a_command_leaves_behind_are_killed() {
        // It would hold stdout open for a minute.
        assert_eq!(sh("sleep 60 & echo started", b"").await.unwrap(), "started");
    }

    #[tokio::test]
    async fn a_stop_kills_the_command_and_reports_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("alive");
        let made = std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap();
        assert!(made.success());
        let (sender, stop) = watch::channel(false);
        let script = "exec 3>alive; echo started >&3; sleep 60 & wait";
        let command = ["sh", "-c", script].map(String::from);
        let folder = dir.path().to_owned();
        let running =
            tokio::spawn(async move { run(&command, &BTreeMap::new(), &folder, b"", stop).await });
        // Reads to the end: that comes when the last process that has the pipe open is gone.
        let reader = tokio::task::spawn_blocking(move || {
            use std::io::BufRead as _;
            let mut lines = io::BufReader::new(fs::File::open(fifo).unwrap()).lines();
            assert_eq!(lines.next().unwrap().unwrap(), "started");
            sender.send(true).unwrap();
            assert!(lines.next().is_none());
        });
        reader.await.unwrap();
        assert!(!running.is_finished(), "nothing is reported about it");
    }
}
