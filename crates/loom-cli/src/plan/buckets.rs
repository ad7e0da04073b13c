//! Buckets as they are written on a command line.

use std::ops::RangeInclusive;
use std::str::FromStr;

use loom_shard_plan::{PlanError, ShardPlan};

use super::args::number;

/// One argument: `7`, `820-1023`, or several with commas, so that what `loom plan diff` prints can
/// be pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets(Vec<RangeInclusive<u32>>);

impl FromStr for Buckets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim);
        let ranges: Vec<_> = parts
            .filter(|part| !part.is_empty())
            .map(range)
            .collect::<Result<_, _>>()?;
        if ranges.is_empty() {
            return Err("expected buckets, as in 7 or 820-1023".to_owned());
        }
        Ok(Self(ranges))
    }
}

fn range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let bucket = |text: &str| number(text, "a bucket", u32::MAX);
    let Some((first, last)) = text.split_once('-') else {
        return bucket(text).map(|only| only..=only);
    };
    let (first, last) = (bucket(first)?, bucket(last)?);
    if last < first {
        return Err(format!(
            "the range {first}-{last} runs backwards; expected {last}-{first}"
        ));
    }
    Ok(first..=last)
}

/// The buckets of all arguments, checked against the plan before a range of billions is walked.
pub(crate) fn within(plan: &ShardPlan, arguments: &[Buckets]) -> Result<Vec<u32>, PlanError> {
    let mut buckets = Vec::new();
    for range in arguments.iter().flat_map(|argument| &argument.0) {
        if *range.end() >= plan.bucket_count() {
            return Err(PlanError::NoSuchBucket {
                bucket: (*range.start()).max(plan.bucket_count()),
                buckets: plan.bucket_count(),
            });
        }
        buckets.extend(range.clone());
    }
    Ok(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_a_range_and_a_pasted_list_are_read() {
        let read = |text: &str| text.parse::<Buckets>().map(|buckets| buckets.0);
        assert_eq!(read("7"), Ok(vec![7..=7]));
        assert_eq!(read("820-1023"), Ok(vec![820..=1023]));
        assert_eq!(read("1-3, 9,"), Ok(vec![1..=3, 9..=9]));
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        for (text, expected) in [
            ("", "as in 7 or 820-1023"),
            (",", "as in 7 or 820-1023"),
            ("x", "expected a bucket from 0 to 4294967295, found `x`"),
            ("1-", "found ``"),
            ("9-1", "expected 1-9"),
            ("1--3", "found `-3`"),
            ("4294967296", "found `4294967296`"),
        ] {
            let error = text.parse::<Buckets>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_range_beyond_the_plan_names_the_first_bucket_that_is_not_there() {
        let plan = ShardPlan::new(2).unwrap();
        let huge = ["4000-4294967295".parse().unwrap()];
        let error = within(&plan, &huge).unwrap_err();
        assert_eq!(
            error,
            PlanError::NoSuchBucket {
                bucket: 4096,
                buckets: 4096
            }
        );
    }
}
