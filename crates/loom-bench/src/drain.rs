//! Draining: what a look costs, how fast it goes, what it does to others, and a real log as time goes by.

mod check;
mod foreground;
mod rate;
mod replay;

use crate::{Failure, Outcome, Settings, logs, stores};

const SUITE: &str = "drain";

/// Every comparison of the suite.
pub(crate) fn run(settings: &Settings) -> Result<Outcome, Failure> {
    let runtime = stores::runtime()?;
    let mut outcome = Outcome::default();
    outcome.add(runtime.block_on(rate::rows())?.into());
    outcome.add(runtime.block_on(foreground::rows())?.into());
    let logs = [
        Some(logs::synthetic()),
        logs::real(settings, "loan-applications")?,
    ];
    for log in logs.into_iter().flatten() {
        outcome.add(runtime.block_on(replay::rows(&log))?);
    }
    outcome.add(runtime.block_on(check::rows())?.into());
    Ok(outcome)
}
