//! Sound stores pass, however awkward they are.

use loom_conformance::broken::Outage;

use crate::support::Sound;

loom_conformance::event_store!(
    unreachable,
    Sound {
        outage: Outage::Unreachable,
        awkward: false,
    }
);

loom_conformance::event_store!(
    awkward,
    Sound {
        outage: Outage::AnswersLost,
        awkward: true,
    }
);
