//! Appends, beside those by hand.

use loom_store_postgres::Options;
use tokio::runtime::Runtime;

use super::by_hand::{Batches, ByHand, CHECKED, HEADED, PLAIN, Way};
use super::{Both, ROUNDS, SUITE, WRITERS};
use crate::Failure;
use crate::report::{Row, Target};
use crate::turns::Turns;
use crate::writers::Writers;

pub(super) fn rows(runtime: &Runtime, both: &Both) -> Result<Vec<Row>, Failure> {
    let store = runtime.block_on(both.ours.store("appends", Options::new()))?;
    let mut rows = Vec::new();
    let beside: [(&'static Way, usize, Option<f64>); 3] = [
        (&CHECKED, WRITERS, Some(2.5)),
        (&HEADED, WRITERS, None),
        (&PLAIN, 1, Some(0.9)),
    ];
    for (way, writers, target) in beside {
        let each = if writers == 1 { 200 } else { 40 };
        let mut ours = Writers::new(&store, writers);
        let mut theirs = runtime.block_on(ByHand::create(&both.theirs, way, writers))?;
        let turns = Turns::of(
            ROUNDS,
            || runtime.block_on(ours.append(each)),
            || runtime.block_on(theirs.append(each)),
        )?;
        runtime.block_on(theirs.verify(&both.theirs))?;
        rows.push(row(both, writers, way.what, &turns, target));
    }

    let mut ours = Writers::new(&store, WRITERS);
    let mut batches = runtime.block_on(Batches::create(&both.theirs))?;
    let turns = Turns::of(
        ROUNDS,
        || runtime.block_on(ours.append(40)),
        || runtime.block_on(batches.append(40)),
    )?;
    rows.push(row(both, WRITERS, Batches::WHAT, &turns, Some(0.3)));
    Ok(rows)
}

fn row(both: &Both, writers: usize, against: &str, turns: &Turns, target: Option<f64>) -> Row {
    let what = match writers {
        1 => "appends a second, lone writer".to_owned(),
        _ => format!("appends a second, {writers} writers"),
    };
    let note = format!("{}; both {}", turns.rates(), both.ours.setting);
    let target = target.map(Target::AtLeast);
    Row::new(SUITE, what, against, turns.rate(), target, note)
}
