//! Reading ahead: the next window is parsed while the last one is stored.

use loom_spi::Limits;
use tokio::sync::mpsc;

use super::input::Input;
use crate::failure::Failure;
use crate::jsonl::Line;

/// A window ends early once its payloads have this many bytes.
const MAX_WINDOW_BYTES: usize = 16 << 20;

/// A line, and where it stands.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) line: Line,
}

/// Some lines in order.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) lines: Vec<Numbered>,
    /// Why there are no more, when that is a failure.
    pub(super) end: Option<Failure>,
}

/// Reads windows of at most `size` lines on a thread of its own; at most two wait.
pub(super) fn read(input: Input, size: usize, limits: Limits) -> mpsc::Receiver<Window> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut input = input;
        let mut buffer = Vec::new();
        loop {
            let window = next(&mut input, &mut buffer, size, limits);
            let more = window.end.is_none() && !window.lines.is_empty();
            if window.lines.is_empty() && window.end.is_none() {
                return;
            }
            if sender.blocking_send(window).is_err() || !more {
                return;
            }
        }
    });
    receiver
}

fn next(input: &mut Input, buffer: &mut Vec<u8>, size: usize, limits: Limits) -> Window {
    let mut window = Window {
        lines: Vec::with_capacity(size.min(8192)),
        end: None,
    };
    let mut bytes = 0;
    while window.lines.len() < size && bytes < MAX_WINDOW_BYTES {
        match next_line(input, buffer, limits) {
            Ok(Some(line)) => {
                bytes += line.line.payload.len();
                window.lines.push(line);
            }
            Ok(None) => break,
            Err(failure) => {
                window.end = Some(failure);
                break;
            }
        }
    }
    window
}

fn next_line(
    input: &mut Input,
    buffer: &mut Vec<u8>,
    limits: Limits,
) -> Result<Option<Numbered>, Failure> {
    if !input.next_line(buffer)? {
        return Ok(None);
    }
    let line = Line::parse(buffer).map_err(|bad| input.fault(bad))?;
    check(&line, limits).map_err(|message| input.fault(format_args!(" {message}")))?;
    Ok(Some(Numbered {
        number: input.line(),
        line,
    }))
}

/// What the store would refuse, said before anything is sent there.
fn check(line: &Line, limits: Limits) -> Result<(), String> {
    if line.kind.is_empty() || line.kind.len() > limits.max_kind_bytes {
        return Err(format!(
            "`type` has {} bytes: expected 1 to {}",
            line.kind.len(),
            limits.max_kind_bytes
        ));
    }
    let most = limits.max_payload_bytes.min(
        limits
            .max_append_bytes
            .saturating_sub(limits.max_kind_bytes),
    );
    if line.payload.len() > most {
        return Err(format!(
            "the payload has {} bytes: expected at most {most}",
            line.payload.len()
        ));
    }
    Ok(())
}
