//! Inputs that are nearly plans: good files with pieces changed, cut out, doubled and mixed.
//!
//! What the fuzz targets do without end, for a moment and on any toolchain.

use std::fs;

use loom_shard_plan::ShardPlan;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::chain::cases;
use crate::formats::{fixtures, from_hex};

#[derive(Debug, Clone)]
enum Change {
    Replace(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, Index),
    Double(Index, Index),
    /// A number, in a text.
    Number(Index, u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let byte = || {
        prop_oneof![
            any::<u8>(),
            prop::sample::select(b"0123456789-:>, \n#\"{}[]\xfb\xfc\xfd".to_vec())
        ]
    };
    let index = any::<Index>;
    let number = prop_oneof![
        any::<u64>(),
        0..10_u64,
        65_530..65_540_u64,
        Just(1 << 32),
        Just(1 << 53)
    ];
    let change = prop_oneof![
        (index(), byte()).prop_map(|(at, byte)| Change::Replace(at, byte)),
        (index(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (index(), prop::collection::vec(byte(), 1..6))
            .prop_map(|(at, new)| Change::Insert(at, new)),
        (index(), index()).prop_map(|(from, to)| Change::Cut(from, to)),
        (index(), index()).prop_map(|(from, to)| Change::Double(from, to)),
        (index(), number).prop_map(|(at, number)| Change::Number(at, number)),
    ];
    prop::collection::vec(change, 1..4)
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let end = bytes.len();
        if end == 0 {
            break;
        }
        match change {
            Change::Replace(at, byte) => bytes[at.index(end)] = *byte,
            Change::Flip(at, bit) => bytes[at.index(end)] ^= 1 << bit,
            Change::Insert(at, new) => {
                let at = at.index(end);
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Cut(from, to) | Change::Double(from, to) => {
                let (from, to) = (from.index(end), to.index(end));
                let range = from.min(to)..from.max(to).min(from.min(to) + 40);
                let piece = bytes[range.clone()].to_vec();
                if matches!(change, Change::Cut(..)) {
                    bytes.drain(range);
                } else {
                    bytes.splice(range.end..range.end, piece);
                }
            }
            Change::Number(at, number) => {
                let is_digit = |byte: &u8| byte.is_ascii_digit();
                let Some(first) = bytes[at.index(end)..].iter().position(is_digit) else {
                    continue;
                };
                let first = at.index(end) + first;
                let len = bytes[first..]
                    .iter()
                    .take_while(|byte| is_digit(byte))
                    .count();
                bytes.splice(first..first + len, number.to_string().into_bytes());
            }
        }
    }
    bytes
}

/// The good files, as `extension` has them; small ones, so that a change hits something.
fn good(extension: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(fixtures())
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    paths.sort();
    let of_format = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|is| is == extension));
    of_format
        .map(|path| fs::read(path).unwrap())
        .filter(|file| file.len() < 4000)
        .collect()
}

/// Whatever was accepted is a plan like any other.
fn is_sound(plan: &ShardPlan) {
    assert_eq!(plan.to_string().parse().as_ref(), Ok(plan));
    assert_eq!(ShardPlan::from_json(&plan.to_json()).as_ref(), Ok(plan));
    assert_eq!(ShardPlan::from_bytes(&plan.to_bytes()).as_ref(), Ok(plan));
    let held: u32 = plan
        .loads()
        .iter()
        .map(loom_shard_plan::ShardLoad::buckets)
        .sum();
    assert_eq!(held, plan.bucket_count());
}

proptest! {
    #![proptest_config(cases(4000))]

    #[test]
    fn changed_text_is_refused_or_a_plan(which: Index, changes in changes()) {
        let files = good("plan");
        let text = changed(which.get(&files).clone(), &changes);
        if let Ok(plan) = String::from_utf8_lossy(&text).parse() {
            is_sound(&plan);
        }
    }

    #[test]
    fn changed_json_is_refused_or_a_plan(which: Index, changes in changes()) {
        let files = good("json");
        let json = changed(which.get(&files).clone(), &changes);
        let json = String::from_utf8_lossy(&json);
        if let Ok(plan) = ShardPlan::from_json(&json) {
            is_sound(&plan);
            // What reads a part of a document takes no less, and the same plan.
            assert_eq!(serde_json::from_str::<ShardPlan>(&json).unwrap(), plan);
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_exactly_the_bytes_of_a_plan(which: Index, changes in changes()) {
        let files = good("hex");
        let hex = String::from_utf8(which.get(&files).clone()).unwrap();
        let bytes = changed(from_hex(&hex), &changes);
        if let Ok(plan) = ShardPlan::from_bytes(&bytes) {
            assert_eq!(plan.to_bytes(), bytes);
            is_sound(&plan);
        }
    }

    #[test]
    fn any_bytes_at_all_are_refused_or_a_plan(bytes: Vec<u8>, tail: Vec<u8>) {
        let mut started = b"LSP\x01".to_vec();
        started.extend(&tail);
        for bytes in [&bytes, &started] {
            if let Ok(plan) = ShardPlan::from_bytes(bytes) {
                is_sound(&plan);
            }
            let text = String::from_utf8_lossy(bytes);
            assert!(text.parse::<ShardPlan>().is_err() && ShardPlan::from_json(&text).is_err());
        }
    }
}
