//! How many buckets each shard should have.

use std::cmp::Reverse;

/// What speaks for a shard when buckets are shared out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) weight: u64,
    /// Buckets it has.
    pub(crate) held: u32,
    /// Of those, and of those that it is to get, how many it must have.
    pub(crate) pinned: u32,
}

/// The share of each claim, in order; together `buckets`.
///
/// Everyone gets the whole part of the weighted share, and the buckets that are left go one each to
/// claims whose share has a fraction: so every share is within one bucket of fair, and exactly 0 for
/// weight 0. First to those that hold more than the whole part already, since each of them that gets
/// one has one less to give up: so the moves are the fewest that any such distribution needs. Then to
/// the others. Within both groups by largest remainder (Hamilton's method), ties to the earlier claim.
///
/// The largest remainder alone would not do. With unequal weights it is known to take from one whose
/// share grows, to round another up: draining one shard would then move a bucket between two others.
///
/// A claim with more pinned buckets than its share gets exactly those, and the others share the
/// rest.
///
/// Some weight must be above 0, and at most `buckets` be pinned.
pub(crate) fn targets(buckets: u32, claims: &[Claim]) -> Vec<u32> {
    let mut shares: Vec<u32> = claims.iter().map(|claim| claim.pinned).collect();
    let (free, rest) = without_overpinned(buckets, claims);
    let weights: u64 = free.iter().map(|at| claims[*at].weight).sum();
    if weights == 0 {
        return shares;
    }
    // Weights are below 2^32 and buckets at most 2^16, so nothing here overflows.
    let mut order = Vec::with_capacity(free.len());
    let mut left = rest;
    for at in free {
        let claim = claims[at];
        let share = claim.weight * rest;
        let whole = share / weights;
        left -= whole;
        shares[at] = bucket_count(whole);
        let fraction = share % weights;
        let keeps = fraction > 0 && u64::from(claim.held) > whole;
        order.push((keeps, fraction, Reverse(at)));
    }
    order.sort_unstable_by(|a, b| b.cmp(a));
    for ((.., Reverse(at)), _) in order.into_iter().zip(0..left) {
        shares[at] += 1;
    }
    shares
}

/// The claims whose pins do not exceed their share, and how many buckets they share.
///
/// Taking an overpinned claim out makes the others' shares smaller, never larger, so going from
/// the most overpinned to the least finds them all in one pass.
fn without_overpinned(buckets: u32, claims: &[Claim]) -> (Vec<usize>, u64) {
    let mut rest = u64::from(buckets);
    let mut weights: u64 = claims.iter().map(|claim| claim.weight).sum();
    if claims.iter().all(|claim| claim.pinned == 0) {
        let free = (0..claims.len())
            .filter(|at| claims[*at].weight > 0)
            .collect();
        return (free, rest);
    }
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_unstable_by(|a, b| {
        let (a, b) = (&claims[*a], &claims[*b]);
        // Weight 0 first, then pinned/weight, the largest first.
        (a.weight > 0)
            .cmp(&(b.weight > 0))
            .then((u64::from(b.pinned) * a.weight).cmp(&(u64::from(a.pinned) * b.weight)))
    });
    let overpinned = order
        .iter()
        .take_while(|at| {
            let claim = &claims[**at];
            let pinned = u64::from(claim.pinned);
            let over = claim.weight == 0 || pinned * weights > claim.weight * rest;
            if over {
                rest -= pinned;
                weights -= claim.weight;
            }
            over
        })
        .count();
    let mut free = order.split_off(overpinned);
    free.sort_unstable();
    (free, rest)
}

/// A share is at most the `u32` it is a part of.
fn bucket_count(share: u64) -> u32 {
    u32::try_from(share).unwrap_or(u32::MAX)
}
