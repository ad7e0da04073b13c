//! Two sides that take turns, and rates.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::timing::{Ratio, median};

/// Two sides that took turns, so that a disk or a machine that is slower for a while hits both: what each made in a
/// second, by round.
pub(crate) struct Turns(Vec<(f64, f64)>);

/// Many short rounds: whoever else uses the machine disturbs some of them, and the median is of those that ran through.
/// Odd, so that it is one of them.
const ROUNDS: usize = 101;

impl Turns {
    pub(crate) fn take(
        ours: impl FnMut() -> Result<f64, Failure>,
        theirs: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        Self::of(ROUNDS, ours, theirs)
    }

    /// So many rounds, after one that does not count.
    pub(crate) fn of(
        count: usize,
        mut ours: impl FnMut() -> Result<f64, Failure>,
        mut theirs: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        let mut rounds = Vec::with_capacity(count);
        for round in 0..=count {
            let both = (ours()?, theirs()?);
            if round > 0 {
                rounds.push(both);
            }
        }
        Ok(Self(rounds))
    }

    /// One round, of a peer that takes minutes: ours is the median of a few. Nothing goes before it.
    pub(crate) fn once(
        few: usize,
        mut ours: impl FnMut() -> Result<f64, Failure>,
        mut theirs: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<Self, Failure> {
        let ours = (0..few).map(|_| ours()).collect::<Result<Vec<_>, _>>()?;
        Ok(Self(vec![(median(ours), theirs()?)]))
    }

    /// What ours makes in the time in which theirs makes one.
    pub(crate) fn rate(&self) -> Ratio {
        Ratio::of(self.0.iter().map(|(ours, theirs)| ours / theirs))
    }

    /// How much longer ours takes.
    pub(crate) fn time(&self) -> Ratio {
        Ratio::of(self.0.iter().map(|(ours, theirs)| theirs / ours))
    }

    /// The medians, as a text.
    pub(crate) fn rates(&self) -> String {
        let (ours, theirs) = self.medians();
        format!("{ours:.0} against {theirs:.0}/s")
    }

    /// The median times of one, as a text.
    pub(crate) fn micros(&self) -> String {
        let (ours, theirs) = self.medians();
        format!("{:.1} against {:.1} µs", 1e6 / ours, 1e6 / theirs)
    }

    /// The median times of so many, in seconds.
    pub(crate) fn seconds(&self, of: u64) -> (f64, f64) {
        let (ours, theirs) = self.medians();
        (of as f64 / ours, of as f64 / theirs)
    }

    pub(crate) fn medians(&self) -> (f64, f64) {
        let ours = median(self.0.iter().map(|(ours, _)| *ours));
        let theirs = median(self.0.iter().map(|(_, theirs)| *theirs));
        (ours, theirs)
    }
}

/// How many there were in a second.
pub(crate) fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-9)
}

/// Does something so many times, and says how often that is in a second.
pub(crate) fn timed(
    times: u64,
    mut what: impl FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let started = Instant::now();
    for _ in 0..times {
        what()?;
    }
    Ok(per_second(times, started.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_peer_that_has_one_round_ours_is_the_median() {
        let mut rates = [3.0, 1.0, 2.0].into_iter();
        let ours = || Ok(rates.next().unwrap_or_default());
        let Ok(turns) = Turns::once(3, ours, || Ok(4.0)) else {
            return assert_eq!("turns", "failed");
        };
        assert!((turns.rate().median - 0.5).abs() < 1e-9);
    }

    #[test]
    fn the_first_round_does_not_count_and_rates_and_times_are_inverse() {
        let mut calls = 0.0;
        let ours = || {
            calls += 1.0;
            Ok(if calls == 1.0 { 1e9 } else { 30.0 })
        };
        let Ok(turns) = Turns::take(ours, || Ok(10.0)) else {
            return assert_eq!("turns", "failed");
        };
        assert_eq!(turns.0.len(), ROUNDS);
        assert!((turns.rate().max - 3.0).abs() < 1e-9);
        assert!((turns.time().median - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(turns.rates(), "30 against 10/s");
        assert_eq!(turns.seconds(60), (2.0, 6.0));
    }
}
