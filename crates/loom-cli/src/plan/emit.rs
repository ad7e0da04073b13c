//! Writing a plan, and saying what it is.

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use loom_shard_plan::ShardPlan;

use super::args::{Format, Target};
use super::input::is_stream;
use super::summary::Summary;
use crate::failure::Failure;
use crate::output::{Output, write_stderr, write_stdout};
use crate::staged::stage;

/// Writes a derived plan to where it was asked for, and a line about it to where the plan does not
/// go: to stdout if that is free, else to stderr.
pub(crate) fn emit(
    plan: &ShardPlan,
    target: &Target,
    about: &str,
    output: Output,
) -> Result<(), Failure> {
    if let Some(path) = target.out.as_deref().filter(|path| !is_stream(path)) {
        let bytes = encoded(plan, target.format.unwrap_or(Format::Text));
        replace(path, &bytes)?;
        output.print(&Summary::of(plan), |_| {
            format!("{}: {about}\n", path.display())
        })?;
    } else {
        let format = match (target.format, output.json()) {
            (None, false) => Format::Text,
            (None | Some(Format::Json), true) => Format::Json,
            (Some(format), false) => format,
            (Some(_), true) => return Err(two_formats()),
        };
        if format == Format::Bin && io::stdout().is_terminal() {
            return Err(Failure::usage("a terminal cannot show the bytes of a plan")
                .with_help("add --out FILE, or a pipe"));
        }
        write_stdout(&encoded(plan, format))?;
        write_stderr(&format!("{about}\n"));
    }
    warn(plan);
    Ok(())
}

/// The plan as a file: its canonical text, its JSON on one line, or its bytes.
pub(crate) fn encoded(plan: &ShardPlan, format: Format) -> Vec<u8> {
    match format {
        Format::Text => plan.to_string().into_bytes(),
        Format::Json => format!("{}\n", plan.to_json()).into_bytes(),
        Format::Bin => plan.to_bytes(),
    }
}

/// Writes what is allowed and probably not wanted to stderr.
pub(crate) fn warn(plan: &ShardPlan) {
    for warning in plan.warnings() {
        write_stderr(&format!("warning: {warning}\n"));
    }
}

/// Writes a file as a whole or not at all, so that a command may write the file that it has read.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        // What a link points to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let permissions = fs::metadata(&path).map(|meta| meta.permissions()).ok();
        let mut file = stage(&path, permissions)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(&path)?;
        Ok(())
    };
    write().map_err(|error| Failure::io("write", path, error))
}

/// `--json` and `--format` that want different things.
pub(crate) fn two_formats() -> Failure {
    Failure::usage("--json and --format want different things on stdout")
        .with_help("leave one of them out, or write the plan to a file with --out")
}
