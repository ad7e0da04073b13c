//! `loom plan check`.

use loom_shard_plan::PlanFormat;
use serde::Serialize;

use super::args::{Check, Format};
use super::emit::encoded;
use super::input::{PlanFile, open};
use super::summary::Summary;
use crate::failure::Failure;
use crate::output::{Output, Tone};

/// A plan that is fine.
#[derive(Debug, Serialize)]
struct Checked<'a> {
    file: &'a str,
    format: &'static str,
    canonical: bool,
    #[serde(flatten)]
    summary: Summary,
}

pub(crate) fn run(args: &Check, output: Output) -> Result<(), Failure> {
    let file = open(&args.file)?;
    let differs = first_difference(&file);
    if let Some(line) = differs.filter(|_| args.canonical) {
        let name = &file.name;
        let format = format_name(file.format);
        return Err(Failure::usage(format!(
            "{name}:{line}:1: a plan, but not written as `loom plan` writes it, from this line on"
        ))
        .with_help(format!(
            "`loom plan show {name} --format {format}` writes it; comments and spacing are lost by that"
        )));
    }
    let checked = Checked {
        file: &file.name,
        format: format_name(file.format),
        canonical: differs.is_none(),
        summary: Summary::of(&file.plan),
    };
    output.print(&checked, |output| text(&checked, output))
}

/// What `--format` calls it.
fn format_name(format: PlanFormat) -> &'static str {
    match format {
        PlanFormat::Text => "text",
        PlanFormat::Json => "json",
        _ => "bin",
    }
}

/// The first line in which a file is not what would be written for its plan.
fn first_difference(file: &PlanFile) -> Option<usize> {
    let format = match file.format {
        PlanFormat::Text => Format::Text,
        PlanFormat::Json => Format::Json,
        // There is one form, and the decoder takes no other.
        _ => return None,
    };
    let canonical = encoded(&file.plan, format);
    // JSON ends with its bracket; that files end with a newline is a custom of files.
    if format == Format::Json && canonical.strip_suffix(b"\n") == Some(&file.bytes) {
        return None;
    }
    let at = canonical
        .iter()
        .zip(&file.bytes)
        .take_while(|(a, b)| a == b)
        .count();
    if at == canonical.len().max(file.bytes.len()) {
        return None;
    }
    let before = file.bytes.iter().take(at);
    Some(before.filter(|byte| **byte == b'\n').count() + 1)
}

fn text(checked: &Checked<'_>, output: Output) -> String {
    let mut text = format!(
        "{}: {}, {}, fingerprint {}\n",
        checked.file,
        output.paint(Tone::Good, "valid"),
        checked.summary.headline(),
        checked.summary.fingerprint
    );
    for warning in &checked.summary.warnings {
        text.push_str(&output.paint(Tone::Warn, "warning:"));
        text.push(' ');
        text.push_str(warning);
        text.push('\n');
    }
    text
}
