//! `loom plan …`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Show the plan of the deployment, or one in a file
    Show {
        /// A plan as text or JSON [default: that of the deployment]
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}
