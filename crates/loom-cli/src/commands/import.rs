//! `loom import`.

use crate::args::Import;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::import::{Effort, Input, import};
use crate::output::{Output, Tone, count, counted};

/// Refuses a file that is not there before any shard is opened.
pub(super) fn check(import: &Import) -> Result<(), Failure> {
    if import.file == std::path::Path::new("-") || import.file.exists() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "there is no file `{}`: expected JSON lines, or `-` for stdin",
        import.file.display()
    )))
}

pub(super) async fn run(
    args: &Import,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let input = Input::open(&args.file)?;
    let limits = deployment.config.limits;
    let default = Effort::default();
    let effort = Effort {
        window: limits.import_window.unwrap_or(default.window),
        appends: limits.import_appends.unwrap_or(default.appends),
    };
    let totals = import(&deployment.store, input, effort, args.progress).await?;
    output.print(&totals, |output| {
        let mut text = format!(
            "{} {} of {}",
            output.paint(Tone::Good, "imported"),
            counted(totals.events, "event"),
            counted(totals.executions, "execution"),
        );
        if totals.skipped > 0 {
            text.push_str(&format!(
                "; {} had been stored before",
                count(totals.skipped)
            ));
        }
        text.push('\n');
        text
    })
}
