//! Buckets as they are written on a command line.

use std::ops::RangeInclusive;
use std::str::FromStr;

use loom_shard_plan::{PlanError, ShardPlan};

/// One argument: `7`, `820-1023`, or several with commas, so that what `loom plan diff` prints can
/// be pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets(Vec<RangeInclusive<u32>>);

impl FromStr for Buckets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A list that is pasted in two pieces has a comma at the end of the first.
        let list = text.trim();
        let list = list.strip_suffix(',').unwrap_or(list);
        let ranges = list.split(',').map(|part| range(part.trim()));
        Ok(Self(ranges.collect::<Result<_, _>>()?))
    }
}

fn range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let bucket = |part: &str| {
        let digits = part.bytes().all(|byte| byte.is_ascii_digit());
        // How many there are is for the plan to say.
        let number = Some(part).filter(|_| digits).and_then(|it| it.parse().ok());
        number
            .ok_or_else(|| format!("expected buckets, as in 7, 820-1023 or 3,8-20; found `{text}`"))
    };
    let Some((first, last)) = text.split_once('-') else {
        return bucket(text).map(|only| only..=only);
    };
    let (first, last): (u32, u32) = (bucket(first)?, bucket(last)?);
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
            ("", "as in 7, 820-1023 or 3,8-20; found ``"),
            (",", "found ``"),
            ("1,,2", "found ``"),
            (",1", "found ``"),
            ("1,2,,", "found ``"),
            ("x", "as in 7, 820-1023 or 3,8-20; found `x`"),
            ("1-", "found `1-`"),
            ("9-1", "expected 1-9"),
            ("1--3", "found `1--3`"),
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
