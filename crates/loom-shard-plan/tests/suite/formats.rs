//! The three formats: what was written once is read for ever, and nothing else is.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use loom_shard_plan::{
    DecodeError, Fingerprint, HashFunction, RebalanceOptions, ShardId, ShardPlan, Topology,
};
use proptest::prelude::*;

use crate::chain::{any_plan, cases};

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

/// The files of a directory that end like this, by name.
fn files(dir: &Path, extension: &str) -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    paths.sort();
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    paths
        .into_iter()
        .map(|path| (name(&path), fs::read_to_string(path).unwrap()))
        .collect()
}

pub(crate) fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |two: &[char]| u8::from_str_radix(&two.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn plans_of_version_1_are_read_and_written_as_they_were() {
    let dir = fixtures();
    let fingerprints = fs::read_to_string(dir.join("fingerprints.txt")).unwrap();
    let plans = files(&dir, "plan");
    assert_eq!(fingerprints.lines().count(), plans.len());
    for (name, text) in plans {
        let other =
            |extension| fs::read_to_string(dir.join(&name).with_extension(extension)).unwrap();
        let plan: ShardPlan = text.parse().unwrap();
        assert_eq!(plan.to_string(), text, "{name}");
        let json = other("json");
        assert_eq!(ShardPlan::from_json(&json), Ok(plan.clone()), "{name}");
        assert_eq!(plan.to_json(), json.trim_end(), "{name}");
        let bytes = from_hex(&other("hex"));
        assert_eq!(ShardPlan::from_bytes(&bytes), Ok(plan.clone()), "{name}");
        assert_eq!(plan.to_bytes(), bytes, "{name}");
        let line = format!("{}  {name}", plan.fingerprint());
        assert!(fingerprints.lines().any(|known| known == line), "{line}");
    }
}

/// Computed again, the plans of the fixtures come out the same: machines that compute a rebalance
/// with different versions of this crate get the same bytes.
#[test]
fn plans_are_computed_as_they_were() {
    let read = |name: &str| -> ShardPlan {
        fs::read_to_string(fixtures().join(name).with_extension("plan"))
            .unwrap()
            .parse()
            .unwrap()
    };
    let settle = |plan: &ShardPlan| plan.settled_all(plan.migrating_buckets().iter()).unwrap();
    let grow = RebalanceOptions::default();
    let four = ShardPlan::new(4).unwrap();
    assert_eq!(four, read("four-shards"));
    let five = four.rebalanced(5, grow).unwrap();
    assert_eq!(five, read("growing-to-five"));
    assert_eq!(settle(&five), read("settled-on-five"));
    let three = settle(&five)
        .rebalanced(3, grow.allow_shrink(true))
        .unwrap();
    assert_eq!(three, read("shrinking-to-three"));
    assert_eq!(five.split(3).unwrap(), read("split"));
    assert_eq!(ShardPlan::adopting(65).unwrap(), read("adopted-sixty-five"));
    let adopted = ShardPlan::adopting(5).unwrap();
    assert_eq!(
        adopted.rebalanced(6, grow).unwrap(),
        read("adopted-five-growing")
    );
    let mut grown = ShardPlan::new(1).unwrap();
    for shards in 2..=16 {
        grown = settle(&grown.rebalanced(shards, grow).unwrap());
    }
    assert_eq!(grown, read("grown-one-by-one"));
    let weights = [(1, 3), (7, 1), (8, 1), (9, 0), (65_535, 4)];
    let weighted = weights
        .into_iter()
        .fold(Topology::new(), |topology, (id, weight)| {
            topology.joining(ShardId(id), weight).unwrap()
        });
    let weighted = ShardPlan::first(&weighted, 1000, HashFunction::Xxh3_64).unwrap();
    assert_eq!(weighted, read("weighted"));
}

/// Every refused file with its error.
fn refused(extension: &str, decode: impl Fn(&str) -> Result<ShardPlan, DecodeError>) -> String {
    let files = files(&fixtures().join("refused"), extension).into_iter();
    let lines = files.map(|(name, content)| match decode(&content) {
        Ok(plan) => format!("{name}\n  is read as {plan:?}\n"),
        Err(error) => format!("{name}\n  {error}\n"),
    });
    lines.collect()
}

#[test]
fn refused_text_names_the_line_the_column_and_what_was_expected() {
    assert_snapshot!(refused("plan", str::parse));
}

#[test]
fn refused_json_names_the_line_the_column_and_what_was_expected() {
    assert_snapshot!(refused("json", ShardPlan::from_json));
}

#[test]
fn refused_bytes_name_the_offset_and_what_was_expected() {
    assert_snapshot!(refused("hex", |hex| ShardPlan::from_bytes(&from_hex(hex))));
}

#[test]
fn more_bytes_than_any_plan_has_are_refused_unread() {
    let error = ShardPlan::from_bytes(&vec![0; 3 << 20])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("3145728 bytes are more than a plan can have"),
        "{error}"
    );
}

#[test]
fn text_may_have_comments_blank_lines_odd_spacing_and_split_runs() {
    let edited = "# Grown for the sale.\r\n\r\nloom-shard-plan   v1\r\nepoch 2 # was 1\nhash xxh3-64\n\
                  buckets 8\n\tshard 0 : weight 1\nshards 1 - 2: weight 1\n\n 0 - 1 :0\n2: 0\n\
                  3-6:cycle 1,2\n7:1->2";
    let plan: ShardPlan = edited.parse().unwrap();
    let canonical = "loom-shard-plan v1\nepoch 2\nhash xxh3-64\nbuckets 8\nshards 0-2: weight 1\n\
                     0-2: 0\n3-6: cycle 1, 2\n7: 1 -> 2\n";
    assert_eq!(plan.to_string(), canonical);
}

#[test]
fn json_may_have_any_spacing_any_order_of_keys_and_escapes() {
    let edited = " {\r\n\t\"placements\" : [ { \"shard\":0, \"cycle\": [ ], \"last\":3,\"first\" :0 } ,\
                  {\"cycle\":[{\"migrating_from\":0,\"shard\":1},{\"shard\":0}],\"last\":7,\"first\":4}],\n\
                  \"shards\":[{\"leaving\":false,\"weight\":1,\"id\":0},{\"id\":1,\"weight\":2}],\
                  \"version\":1,\"buckets\":8,\"\\u0065poch\":2,\"hash\":\"\\u0078xh3-64\",\
                  \"format\":\"loom\\u002Dshard-plan\" } \n";
    let plan = ShardPlan::from_json(edited).unwrap();
    let canonical = "loom-shard-plan v1\nepoch 2\nhash xxh3-64\nbuckets 8\nshard 0: weight 1\n\
                     shard 1: weight 2\n0-3: 0\n4-7: cycle 0 -> 1, 0\n";
    assert_eq!(plan.to_string(), canonical);
}

#[test]
fn a_plan_can_be_part_of_another_document() {
    let plan = ShardPlan::new(3).unwrap();
    let document = serde_json::json!({ "deployment": "eu", "plan": plan });
    let read: ShardPlan = serde_json::from_value(document["plan"].clone()).unwrap();
    assert_eq!(read, plan);
    let mut broken = document["plan"].clone();
    broken["placements"][1]["first"] = 7.into();
    let error = serde_json::from_value::<ShardPlan>(broken)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("placements[1]: the range starts with bucket 7"),
        "{error}"
    );
}

#[test]
fn the_largest_plans_are_read_back() {
    let mut every_shard = Topology::equal(u16::MAX);
    every_shard = every_shard.joining(ShardId(u16::MAX), u32::MAX).unwrap();
    let all_differ = ShardPlan::first(&every_shard, 65_536, HashFunction::Xxh3_64).unwrap();
    let shift = |bucket: u32| {
        (
            bucket,
            ShardId(u16::try_from((bucket + 40_000) % 65_536).unwrap()),
        )
    };
    let pins = (0..65_536).map(shift);
    let topology = pins.fold(every_shard, |to, (bucket, shard)| to.pinning(bucket, shard));
    let all_move = all_differ.rebalance(&topology).unwrap();
    assert!(all_move.migrating().count() > 65_000);
    for plan in [all_differ, all_move] {
        assert_eq!(ShardPlan::from_bytes(&plan.to_bytes()).unwrap(), plan);
        assert_eq!(ShardPlan::from_json(&plan.to_json()).unwrap(), plan);
        assert_eq!(plan.to_string().parse::<ShardPlan>().unwrap(), plan);
    }
}

#[test]
fn a_balanced_plan_of_4096_buckets_has_well_under_a_kibibyte() {
    for shards in [1, 4, 16, 64] {
        assert!(ShardPlan::new(shards).unwrap().to_bytes().len() < 256);
        assert!(ShardPlan::adopting(shards).unwrap().to_bytes().len() < 256);
    }
}

#[test]
fn a_fingerprint_is_read_back_from_its_digits_and_bytes() {
    let fingerprint = ShardPlan::new(4).unwrap().fingerprint();
    assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    assert_eq!(
        Fingerprint::from_be_bytes(fingerprint.to_be_bytes()),
        fingerprint
    );
    for wrong in [
        "",
        "12",
        "+1234567890123456789012345678901",
        "g1234567890123456789012345678901",
    ] {
        assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn every_plan_goes_through_every_format_to_identical_bytes(plan in any_plan()) {
        let (text, json, bytes) = (plan.to_string(), plan.to_json(), plan.to_bytes());
        let from_text: ShardPlan = text.parse().unwrap();
        let from_json = ShardPlan::from_json(&json).unwrap();
        let from_bytes = ShardPlan::from_bytes(&bytes).unwrap();
        for read in [from_text, from_json, from_bytes] {
            prop_assert_eq!(&read, &plan);
            prop_assert_eq!(read.to_string(), text.as_str());
            prop_assert_eq!(read.to_json(), json.as_str());
            prop_assert_eq!(read.to_bytes(), bytes.as_slice());
            prop_assert_eq!(read.fingerprint(), plan.fingerprint());
        }
    }

    #[test]
    fn json_is_read_whatever_its_layout(plan in any_plan()) {
        // Keys in alphabetical order: the placements come before the shards.
        let value: serde_json::Value = serde_json::from_str(&plan.to_json()).unwrap();
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(&ShardPlan::from_json(&value.to_string()).unwrap(), &plan);
        prop_assert_eq!(&ShardPlan::from_json(&pretty).unwrap(), &plan);
        prop_assert_eq!(serde_json::from_str::<ShardPlan>(&pretty).unwrap(), plan);
    }

    #[test]
    fn plans_that_differ_have_different_fingerprints(one in any_plan(), other in any_plan()) {
        prop_assert_eq!(one == other, one.fingerprint() == other.fingerprint());
        prop_assert_eq!(one == other, one.to_string() == other.to_string());
    }
}

/// The first bucket of the cycle is placed as the run before it, whose last bucket it should be.
#[test]
fn a_run_that_goes_on_in_the_cycle_after_it_is_not_the_one_binary_form() {
    let bytes = [
        76, 83, 80, 1, 65, 1, 251, 0, 16, 2, 0, 0, 0, 252, 21, 255, 255, 12, 0, 251, 1, 8, 0, 252,
        0, 202, 40, 2, 251, 250, 12, 1, 0, 251, 6, 3, 4, 0, 4, 0, 1, 251, 88, 2,
    ];
    assert!(ShardPlan::from_bytes(&bytes).is_err());
}
