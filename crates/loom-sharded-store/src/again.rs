//! Sending a request a second time, which hardly ever happens.

use loom_spi::{Append, ExecutionId, FenceToken, Head, NewEvent, Read};

/// What has to be kept of a request so that it can be made again: no more than that, since it is kept for every
/// request. Its execution is in the error that it met, as every store promises.
pub(crate) trait Again: Sized {
    /// What is kept.
    type Kept: Send;

    /// Keeps what sending it uses up.
    fn keep(&self) -> Self::Kept;

    /// The request, outside of any plan.
    fn again(kept: Self::Kept, id: ExecutionId) -> Self;
}

impl Again for Read {
    type Kept = (u64, usize);

    #[inline]
    fn keep(&self) -> Self::Kept {
        (self.from, self.limit)
    }

    fn again((from, limit): Self::Kept, id: ExecutionId) -> Self {
        Self::new(id, from, limit)
    }
}

impl Again for Head {
    type Kept = ();

    #[inline]
    fn keep(&self) -> Self::Kept {}

    fn again((): Self::Kept, id: ExecutionId) -> Self {
        Self::new(id)
    }
}

/// An append without its id. Most have one event, for which nothing is allocated.
pub(crate) struct KeptAppend {
    expected: u64,
    fence: Option<FenceToken>,
    first: Option<NewEvent>,
    rest: Vec<NewEvent>,
}

impl Again for Append {
    type Kept = KeptAppend;

    #[inline]
    fn keep(&self) -> Self::Kept {
        let (first, rest) = match self.events.split_first() {
            Some((first, rest)) => (Some(first.clone()), rest.to_vec()),
            None => (None, Vec::new()),
        };
        KeptAppend {
            expected: self.expected,
            fence: self.fence,
            first,
            rest,
        }
    }

    fn again(kept: Self::Kept, id: ExecutionId) -> Self {
        let events = kept.first.into_iter().chain(kept.rest).collect();
        Self::new(id, kept.expected, events).with_fence(kept.fence)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn survives<R: Again + PartialEq + Debug>(request: &R, id: &ExecutionId) {
        assert_eq!(&R::again(request.keep(), id.clone()), request);
    }

    #[test]
    fn a_request_that_is_made_again_is_the_same() {
        let id = ExecutionId::generate();
        survives(&Read::new(id.clone(), 7, 9), &id);
        survives(&Head::new(id.clone()), &id);
        for events in 0..4 {
            let events = (0..events).map(|n| NewEvent::new(format!("e{n}"), vec![n; 3]));
            let append = Append::new(id.clone(), 5, events.collect());
            survives(&append.clone().with_fence(FenceToken(8)), &id);
            survives(&append, &id);
        }
    }
}
