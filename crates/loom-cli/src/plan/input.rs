//! Reading a plan from a file or stdin, in whichever format it is.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::str;

use loom_shard_plan::{DecodeError, DecodeProblem, Location, PlanFormat, ShardPlan};

use crate::failure::Failure;

/// More than the longest plan has, even as JSON that a tool has spread over lines.
const MAX_BYTES: u64 = 32 << 20;
/// How the binary format starts.
const MAGIC: &[u8] = b"LSP";

const NOT_A_PLAN: &str = "expected a plan: text that starts with `loom-shard-plan v1`, JSON, or the bytes of \
     one; `loom plan new` writes a first plan";
const EMPTY: &str = "the shell empties a file before a command that is redirected into it can read it: \
     write with `--out FILE` instead of `> FILE`";
const DERIVE: &str = "plans are derived, not written by hand: take the plan before it, and \
     `loom plan rebalance`, `settle` or `revert`";

/// A plan, and what it was read from.
#[derive(Debug)]
pub(crate) struct PlanFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) format: PlanFormat,
    pub(crate) plan: ShardPlan,
}

/// Reads a plan; `-` is stdin.
pub(crate) fn read(path: &Path) -> Result<ShardPlan, Failure> {
    open(path).map(|file| file.plan)
}

/// Reads a plan and keeps its bytes.
pub(crate) fn open(path: &Path) -> Result<PlanFile, Failure> {
    let (name, bytes) = if is_stream(path) {
        ("<stdin>".to_owned(), bounded(io::stdin().lock()))
    } else {
        let bytes = File::open(path).and_then(bounded_file);
        (path.display().to_string(), bytes)
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::usage(format!("there is no plan at `{name}`")),
        _ => Failure::usage(format!("cannot read the plan `{name}`")).with_cause(error),
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!(
            "`{name}` has more than {MAX_BYTES} bytes, which no plan has"
        ))
        .with_help(NOT_A_PLAN));
    }
    let (format, plan) = decode(&name, &bytes)?;
    Ok(PlanFile {
        name,
        bytes,
        format,
        plan,
    })
}

/// Whether `path` means stdin, or stdout.
pub(crate) fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn bounded_file(file: File) -> io::Result<Vec<u8>> {
    // Some systems open folders, and then fail to read them in words of their own.
    if file.metadata()?.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    bounded(file)
}

fn bounded(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn decode(name: &str, bytes: &[u8]) -> Result<(PlanFormat, ShardPlan), Failure> {
    if bytes.is_empty() {
        return Err(
            Failure::usage(format!("{name}:1:1: expected a plan, found an empty file"))
                .with_help(EMPTY),
        );
    }
    if bytes.starts_with(MAGIC) {
        return match ShardPlan::from_bytes(bytes) {
            Ok(plan) => Ok((PlanFormat::Binary, plan)),
            Err(error) => Err(fault(name, &error)),
        };
    }
    let text = str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(bytes, error.valid_up_to());
        let found = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        Failure::usage(format!(
            "{name}:{line}:{column}: expected UTF-8 text, found the byte {found:#04x}"
        ))
        .with_help(NOT_A_PLAN)
    })?;
    let (format, plan) = if text.trim_start().starts_with('{') {
        (PlanFormat::Json, ShardPlan::from_json(text))
    } else {
        (PlanFormat::Text, text.parse())
    };
    plan.map(|plan| (format, plan))
        .map_err(|error| fault(name, &error))
}

/// `file:line:column: what is wrong`, as editors and CI services understand it.
fn fault(name: &str, error: &DecodeError) -> Failure {
    let problem = error.problem();
    let (message, at_start) = match error.location() {
        Location::Line { line, column } => (
            format!("{name}:{line}:{column}: {problem}"),
            (*line, *column) == (1, 1),
        ),
        Location::Item { path, line, column } => {
            (format!("{name}:{line}:{column}: {path}: {problem}"), false)
        }
        Location::Offset(offset) => (format!("{name}: byte {offset}: {problem}"), *offset == 0),
        other => (format!("{name}: {other}: {problem}"), false),
    };
    match problem {
        DecodeProblem::Version(_) => {
            Failure::usage(message).with_help(concat!("this is loom ", env!("CARGO_PKG_VERSION")))
        }
        _ if at_start => Failure::usage(message).with_help(NOT_A_PLAN),
        _ => Failure::usage(message).with_help(DERIVE),
    }
}

/// Line and column of a byte, both from 1; the column counts characters.
fn place(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes));
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ShardPlan {
        ShardPlan::new(3).unwrap()
    }

    #[test]
    fn each_format_is_told_by_its_first_bytes() {
        let (text, json, bytes) = (plan().to_string(), plan().to_json(), plan().to_bytes());
        let commented = format!("# the plan\n\n{text}");
        let spread = format!("\n  {json}\n");
        for (input, format) in [
            (text.as_bytes(), PlanFormat::Text),
            (commented.as_bytes(), PlanFormat::Text),
            (json.as_bytes(), PlanFormat::Json),
            (spread.as_bytes(), PlanFormat::Json),
            (bytes.as_slice(), PlanFormat::Binary),
        ] {
            assert_eq!(decode("p", input).unwrap(), (format, plan()));
        }
    }

    #[test]
    fn a_byte_that_is_no_text_is_found_by_line_and_column() {
        let error = decode("p", b"loom-shard-plan v1\n\xc3\xa9 \xff").unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("error: p:2:3: expected UTF-8 text, found the byte 0xff"),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_plan_at_all_is_told_apart_from_a_plan_with_a_mistake() {
        let help = |input: &[u8]| decode("p", input).unwrap_err().to_string();
        assert!(help(b"[server]\nport = 1\n").contains("loom plan new"));
        assert!(help(b"").contains("--out FILE"));
        let mistaken = plan().to_string().replace("2730", "2731");
        assert!(help(mistaken.as_bytes()).contains("loom plan rebalance"));
    }
}
