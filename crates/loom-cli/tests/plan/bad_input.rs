//! What is wrong is refused with the right exit code, and told with what to do.

use super::{Bench, grown, words};

/// Runs a command on a plan with a mistake and expects exit code 2 and a place.
#[track_caller]
fn refused_at(text: impl AsRef<[u8]>, place: &str, problem: &str) {
    let bench = Bench::new();
    bench.write("bad.plan", text);
    for command in [
        "check bad.plan",
        "show bad.plan",
        "split bad.plan --factor 2",
    ] {
        let ran = bench.run(&words(&format!("plan {command}")));
        assert_eq!(ran.code, Some(2), "{command}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{command}");
        let start = format!("error: {place}: ");
        assert!(ran.stderr.starts_with(&start), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(problem), "{command}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("\n  help: "),
            "{command}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_plan_with_a_mistake_is_refused_at_line_and_column() {
    let good = loom_shard_plan::ShardPlan::new(2).unwrap().to_string();
    for (from, to, place, problem) in [
        (
            "epoch 1",
            "epoch one",
            "bad.plan:2:7",
            "expected a number, found `one`",
        ),
        ("epoch 1", "epoch 0", "bad.plan:2:7", "expected 1 to"),
        ("xxh3-64", "crc16", "bad.plan:3:6", "`xxh3-64` or"),
        (
            "buckets 4096",
            "buckets 70000",
            "bad.plan:4:9",
            "expected 1 to 65536",
        ),
        (
            "2048-4095: 1",
            "2047-4095: 1",
            "bad.plan:7:1",
            "expected 2048",
        ),
        (
            "2048-4095: 1",
            "2048-4095: 2",
            "bad.plan:7:12",
            "shard 2 is not one of",
        ),
        (
            "2048-4095: 1\n",
            "",
            "bad.plan:7:1",
            "expected them to go on to 4095",
        ),
        (
            "2048-4095",
            "<<<<<<< ours\n2048-4095",
            "bad.plan:7:1",
            "resolve this one",
        ),
        (" v1", " v2", "bad.plan:1:18", "use a newer release"),
    ] {
        assert!(good.contains(from), "{from}");
        refused_at(good.replace(from, to), place, problem);
    }
}

#[test]
fn a_mistake_in_json_is_refused_at_line_and_column() {
    let json = loom_shard_plan::ShardPlan::new(2).unwrap().to_json();
    refused_at(
        json.replace(r#""epoch":1"#, "\n \"epoch\":-1"),
        "bad.plan:2:10: epoch",
        "expected an epoch, which is a whole number, found `-1`",
    );
    refused_at(
        json.replace(r#"{"id":1,"weight":1}"#, r#"{"id":1,"weight":-1}"#),
        "bad.plan:1:130: shards[1].weight",
        "expected a weight from 0 to 4294967295, found `-1`",
    );
    refused_at(
        &json[..40],
        "bad.plan:1:41",
        "expected a key in double quotes, found the end of the document",
    );
}

#[test]
fn a_mistake_in_bytes_is_refused_at_its_offset() {
    let mut bytes = loom_shard_plan::ShardPlan::new(2).unwrap().to_bytes();
    let end = bytes.len();
    bytes.push(0);
    let place = format!("bad.plan: byte {end}");
    refused_at(bytes, &place, "1 more bytes follow");
}

#[test]
fn what_is_no_plan_is_refused_with_what_a_plan_is() {
    refused_at("", "bad.plan:1:1", "--out FILE");
    refused_at("id,shard\n1,2\n", "bad.plan:1:1", "loom plan new");
    refused_at(b"\x89PNG\r\n", "bad.plan:1:1", "found the byte 0x89");
}

#[test]
fn a_file_that_is_not_there_and_a_folder_are_wrong_usage() {
    let bench = Bench::new();
    for file in ["nowhere.plan", "."] {
        let ran = bench.run(&["plan", "check", file]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("`{file}`")), "{}", ran.stderr);
    }
}

/// Commands on `a.plan` (4 shards) and `b.plan` (growing to 5): exit code, and words of the message.
const REFUSED: &[(&str, i32, &str)] = &[
    ("new", 2, "--shards <N>"),
    ("new --shards 0", 2, "0 is not in 1..=65535"),
    ("new --shards 5000", 2, "--buckets asks for more"),
    ("new --shards 5000 --unplanned", 2, "from 1 to 4096"),
    ("new --shards 4 --buckets 0", 2, "1 to 65536 buckets, not 0"),
    (
        "new --shards 4 --buckets 65537",
        2,
        "1 to 65536 buckets, not 65537",
    ),
    (
        "new --shards 4 --buckets 64 --unplanned",
        2,
        "cannot be used with",
    ),
    (
        "new --shards 4 --format yaml",
        2,
        "possible values: text, json, bin",
    ),
    (
        "new --shards 4 --json --format text",
        2,
        "want different things",
    ),
    (
        "new --shards 4 --out no/such/folder/x",
        1,
        "cannot write `no/such/folder/x`",
    ),
    ("rebalance a.plan", 2, "--shards <N>"),
    (
        "rebalance a.plan --shards 5 --add 9",
        2,
        "cannot be used with",
    ),
    (
        "rebalance a.plan --add 4 --allow-shrink",
        2,
        "cannot be used with",
    ),
    ("rebalance a.plan --shards 5000", 2, "loom plan split"),
    ("rebalance a.plan --shards 3", 3, "add --allow-shrink"),
    ("rebalance b.plan --shards 6", 3, "loom plan settle"),
    ("rebalance a.plan --add 3", 2, "--weight ID:W"),
    ("rebalance a.plan --remove 9", 2, "loom plan show FILE"),
    ("rebalance a.plan --weight 9:1", 2, "shard 9 is no member"),
    ("rebalance a.plan --weight 3", 2, "as in 3:2"),
    ("rebalance a.plan --pin 4096:1", 2, "no bucket 4096"),
    ("rebalance a.plan --pin 1:9", 2, "shard 9 is no member"),
    ("rebalance a.plan --pin 1:1 --pin 1:2", 2, "pinned twice"),
    ("rebalance a.plan --add 7 --weight 7:2", 2, "named twice"),
    (
        "rebalance a.plan --remove 0,1,2,3",
        2,
        "keep or add at least one",
    ),
    ("rebalance a.plan --add 65536", 2, "from 0 to 65535"),
    ("settle b.plan", 2, "--all"),
    ("settle b.plan 820 --all", 2, "cannot be used with"),
    ("settle b.plan 0", 2, "not migrating: bucket"),
    ("settle b.plan 4000-9999999", 2, "no bucket 4096"),
    ("settle b.plan 9-1", 2, "expected 1-9"),
    (
        "settle a.plan --all",
        2,
        "no bucket of the plan is migrating",
    ),
    ("revert b.plan 0-10", 2, "not migrating: buckets 0-10"),
    (
        "revert a.plan --all",
        2,
        "no bucket of the plan is migrating",
    ),
    ("split a.plan", 2, "--factor <F>"),
    ("split a.plan --factor 1", 2, "1 is not in 2.."),
    ("split a.plan --factor 17", 2, "not 69632"),
    ("split a.plan --factor 4294967295", 2, "1 to 65536 buckets"),
    ("diff a.plan", 2, "<B>"),
    ("diff b.plan a.plan", 3, "must not be published"),
    (
        "show a.plan --json --format text",
        2,
        "want different things",
    ),
    (
        "show a.plan --json --svg -",
        2,
        "name a file for the picture",
    ),
    (
        "show a.plan --map sometimes",
        2,
        "possible values: auto, always, never",
    ),
    ("route a.plan a\tb", 2, "control character"),
    ("route -", 2, "cannot both be on stdin"),
];

#[test]
fn what_cannot_be_done_is_refused_with_what_to_do() {
    let bench = grown();
    let (a, b) = (bench.read("a.plan"), bench.read("b.plan"));
    for (line, code, words) in REFUSED {
        let args: Vec<&str> = ["plan"].into_iter().chain(line.split(' ')).collect();
        let ran = bench.run(&args);
        assert_eq!(ran.code, Some(*code), "{line}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: "), "{line}: {}", ran.stderr);
        // clap breaks lines where the terminal ends.
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(words), "{line}: {}", ran.stderr);
    }
    assert_eq!((bench.read("a.plan"), bench.read("b.plan")), (a, b));
}
