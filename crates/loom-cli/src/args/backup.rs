//! The commands that copy a deployment.

use std::path::PathBuf;

use clap::Args;

use crate::progress::ProgressMode;

/// Copy the deployment while it is used, all shards as they are at one moment, and verify the copies
///
/// Commits wait for an instant, until the state of every shard is pinned; copying comes afterwards, beside
/// everything else. An execution that is being moved at that moment is in the copy as if the power had failed: with
/// it on both shards, or sealed on one. The next drain of the restored deployment finishes the move.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// A folder that does not exist yet, or is empty
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

/// Bring a backup back, all of it or single shards, where no file is in the way
///
/// Everything is verified before anything is written. Without --config pointing at a deployment file, the one from the
/// backup is put there last. A shard that comes back beside others that went on without it is older than they are:
/// run `loom repair` on it before anything else.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// What `loom backup` has written
    #[arg(long, value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Only this shard; may be given several times [default: all]
    #[arg(long, value_name = "ID")]
    pub(crate) shard: Vec<u16>,
    /// Verify the backup, show what would be restored, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}
