//! The commands that copy a deployment, and the one that tidies it up.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

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

/// Remove the logs of executions that ended long ago, and give their space back, a little at a time
///
/// What belongs together goes together: an execution and all that branched off from it are removed when all of
/// them have been closed for that long, and kept otherwise. Branches go first, so that an interrupted run leaves nothing
/// behind that the next one does not find.
#[derive(Debug, Args)]
pub(crate) struct Retain {
    /// How long ago the last event has to be: 30d, 12h, 90m, 45s
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) closed_for: Duration,
    /// Count what would be removed and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// At most so many removals a second
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<NonZeroU32>,
    /// How to show progress on stderr
    #[arg(long, value_enum, default_value_t)]
    pub(crate) progress: ProgressMode,
}

/// Reads `30d`. A number alone is refused: nobody would agree on its unit.
fn age(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number and a unit: 30d, 12h, 90m, 45s".to_owned();
    let unit = text.chars().next_back().ok_or_else(expected)?;
    let seconds = match unit {
        'd' => 24 * 60 * 60,
        'h' => 60 * 60,
        'm' => 60,
        's' => 1,
        _ => return Err(expected()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected());
    }
    let number: u64 = number.parse().map_err(|_| expected())?;
    let seconds = number.checked_mul(seconds).ok_or_else(expected)?;
    Ok(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5_400)));
        for wrong in [
            "",
            "30",
            "d",
            "-1d",
            "+1d",
            "1.5d",
            "30 d",
            "1w",
            "99999999999999999999d",
            "300000000000000d",
            "1é",
        ] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
    }
}
