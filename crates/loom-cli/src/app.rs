//! From the process's arguments to its exit code.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::args::Cli;
use crate::commands;
use crate::failure::Failure;
use crate::output::{colour_wanted, printable, write_stderr};

/// How long threads that cannot be interrupted, such as one that waits for stdin, are waited for at the end.
const GRACE: Duration = Duration::from_millis(500);

/// Runs the command line and says how the process ends.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no failure.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    install_tracing();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // It may quote what stands in a file or a log.
            for line in failure.to_string().lines() {
                write_stderr(&format!("{}\n", printable(line)));
            }
            failure.code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed("cannot start the runtime").with_cause(error))?;
    let result = runtime.block_on(commands::run(cli));
    runtime.shutdown_timeout(GRACE);
    result
}

/// `LOOM_LOG` says what is told on stderr, in the syntax of `RUST_LOG`; warnings by default.
fn install_tracing() {
    let filter = EnvFilter::try_from_env("LOOM_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && colour_wanted())
        .init();
}
