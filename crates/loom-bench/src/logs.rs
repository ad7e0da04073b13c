//! Event logs in the order in which things happened.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use flate2::read::GzDecoder;
use loom_spi::{ExecutionId, NewEvent, Timestamp};
use serde::Deserialize;

use crate::{Failure, Settings};

/// The events of many executions, by time.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) name: String,
    pub(crate) events: Vec<Logged>,
}

#[derive(Debug)]
pub(crate) struct Logged {
    pub(crate) execution: ExecutionId,
    pub(crate) event: NewEvent,
}

impl Logged {
    pub(crate) fn at(&self) -> i64 {
        self.event.recorded_at.as_millis()
    }
}

#[derive(Deserialize)]
struct Line {
    execution: String,
    at: i64,
    r#type: String,
    #[serde(default)]
    last: bool,
}

/// A real log, if somebody said where it is.
pub(crate) fn real(settings: &Settings, name: &str) -> Result<Option<Log>, Failure> {
    let Some(folder) = &settings.data else {
        eprintln!("SKIPPED: {name}: neither --data nor LOOM_DATA names a folder with it");
        return Ok(None);
    };
    let path = folder.join(format!("{name}.jsonl.gz"));
    let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut events = Vec::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let line = line?;
        let Line {
            execution,
            at,
            r#type,
            last,
        } = serde_json::from_str(&line)?;
        let event = NewEvent::new(r#type, line.into_bytes());
        let event = event.recorded_at(Timestamp::from_millis(at));
        events.push(Logged {
            execution: ExecutionId::new(execution)?,
            event: if last { event.terminal() } else { event },
        });
    }
    // The order of equal times is that of the file.
    events.sort_by_key(Logged::at);
    let name = name.to_owned();
    Ok(Some(Log { name, events }))
}

/// A log of the same shape: executions begin all the time, have about twenty events, most are over within days,
/// and a few last for weeks.
pub(crate) fn synthetic() -> Log {
    const EXECUTIONS: u64 = 4_000;
    const DAYS: u64 = 166;
    let hour = 3_600_000;
    let mut random = Random(7);
    let mut events = Vec::new();
    for n in 0..EXECUTIONS {
        let Ok(execution) = ExecutionId::new(format!("case-{n}")) else {
            continue;
        };
        let begins = random.below(DAYS * 24 * hour);
        let count = 3 + random.below(34);
        // The product of three is small most of the time, and now and then it is not.
        let weeks = random.below(100) * random.below(100) * random.below(100);
        let step = 1 + weeks * 9 * 7 * 24 * hour / 1_000_000 / count;
        for sequence in 0..count {
            let at = i64::try_from(begins + sequence * step).unwrap_or(i64::MAX);
            let event = NewEvent::new(format!("step-{}", sequence % 7), vec![7; 120])
                .recorded_at(Timestamp::from_millis(at));
            let last = sequence + 1 == count;
            events.push(Logged {
                execution: execution.clone(),
                event: if last { event.terminal() } else { event },
            });
        }
    }
    events.sort_by_key(Logged::at);
    let name = "a synthetic log".to_owned();
    Log { name, events }
}

/// The generator `SplitMix64`: the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}
