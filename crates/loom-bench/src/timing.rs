//! Timing two things in turns.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Rounds that count. Odd, so that the median is one of them.
const ROUNDS: usize = 15;

/// Ratios over the rounds of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Ratio {
    /// Of the rounds of a comparison, of which there is at least one.
    pub(crate) fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let ratios = sorted(rounds.into_iter());
        let at = |place: usize| ratios.get(place).copied().unwrap_or(f64::NAN);
        Self {
            median: at(ratios.len() / 2),
            min: at(0),
            max: at(ratios.len().saturating_sub(1)),
        }
    }

    /// A figure that is counted, not timed.
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            median: value,
            min: value,
            max: value,
        }
    }
}

/// Two things timed in turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paired {
    /// Time of ours divided by time of theirs.
    pub(crate) ratio: Ratio,
    /// The median time of ours.
    pub(crate) ours: Duration,
    /// The median time of theirs.
    pub(crate) theirs: Duration,
}

/// The middle one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Ratio::of(values).median
}

/// Times both in turns, after one round that does not count.
pub(crate) fn pair<A, B>(mut ours: impl FnMut() -> A, mut theirs: impl FnMut() -> B) -> Paired {
    black_box(ours());
    black_box(theirs());
    let rounds: Vec<(Duration, Duration)> = (0..ROUNDS)
        .map(|_| (time(&mut ours), time(&mut theirs)))
        .collect();
    let ratios = sorted(
        rounds
            .iter()
            .map(|(a, b)| a.as_secs_f64() / b.as_secs_f64().max(1e-12)),
    );
    let median = |times: Vec<f64>| Duration::from_secs_f64(times[ROUNDS / 2]);
    Paired {
        ratio: Ratio {
            median: ratios[ROUNDS / 2],
            min: ratios[0],
            max: ratios[ROUNDS - 1],
        },
        ours: median(sorted(rounds.iter().map(|(a, _)| a.as_secs_f64()))),
        theirs: median(sorted(rounds.iter().map(|(_, b)| b.as_secs_f64()))),
    }
}

fn time<T>(run: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    black_box(run());
    start.elapsed()
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_come_out_in_order() {
        let paired = pair(
            || black_box(1_u64),
            || (0..50_000_u64).map(black_box).sum::<u64>(),
        );
        assert!(paired.ratio.min <= paired.ratio.median && paired.ratio.median <= paired.ratio.max);
    }
}
