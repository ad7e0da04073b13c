//! `loom plan show`.

use super::{Bench, grown, plan, words};

#[test]
fn without_a_terminal_the_plan_is_shown_as_text_that_can_be_read_back() {
    let bench = grown();
    assert_eq!(bench.ok(&words("plan show b.plan")), bench.read("b.plan"));
}

#[test]
fn json_has_the_keys_that_scripts_rely_on() {
    let bench = grown();
    let shown = bench.json(&words("plan show b.plan"));
    assert_eq!(shown["epoch"], 2);
    assert_eq!(shown["buckets"], 4096);
    assert_eq!(shown["shards"], 5);
    assert_eq!(shown["migrating"], 819);
    let fingerprint = plan(&bench.read("b.plan")).fingerprint().to_string();
    assert_eq!(shown["fingerprint"], fingerprint);
    let four = &shown["per_shard"][4];
    assert_eq!(four["shard"], 4);
    assert_eq!(
        (&four["buckets"], &four["arriving"]),
        (&819.into(), &819.into())
    );
    assert_eq!(
        shown["migrations"][0]["buckets"][0],
        serde_json::json!([820, 1023])
    );
}

#[test]
fn the_map_is_shown_where_it_is_asked_for() {
    let bench = Bench::new();
    bench.ok(&words("plan new --shards 3 --buckets 192 --out a.plan"));
    bench.ok(&words("plan rebalance a.plan --add 7 --out b.plan"));
    let ran = bench.run(&words("plan show b.plan --map always"));
    insta::assert_snapshot!(ran.shown());
}

#[test]
fn the_picture_is_written_beside_what_is_shown() {
    let bench = grown();
    let shown = bench.ok(&words("plan show b.plan --svg b.svg"));
    assert_eq!(shown, bench.read("b.plan"));
    let picture = bench.read("b.svg");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("migrating from shard 0 to shard 4: 204 (820-1023)"));
    assert_eq!(bench.ok(&words("plan show b.plan --svg -")), picture);
}

#[test]
fn another_format_is_a_conversion() {
    let bench = grown();
    let json = bench.ok(&words("plan show b.plan --format json"));
    let expected = plan(&bench.read("b.plan"));
    assert_eq!(json, format!("{}\n", expected.to_json()));
    let bytes = bench
        .command(&words("plan show b.plan --format bin"))
        .output()
        .unwrap();
    assert_eq!(bytes.stdout, expected.to_bytes());
}

#[test]
fn without_a_file_it_is_the_plan_of_the_deployment() {
    let bench = Bench::with_shards(3);
    let shown = bench.ok(&["plan", "show"]);
    assert_eq!(shown, bench.ok(&words("plan new --shards 3")));
    assert_eq!(bench.json(&["plan", "show"])["epoch"], 1);
}

#[test]
fn the_deployment_comes_under_the_plan_that_was_reviewed() {
    let bench = Bench::with_shards(4);
    bench.write("a.plan", bench.ok(&["plan", "show"]));
    bench.ok(&words("plan rebalance a.plan --shards 5 --out b.plan"));
    bench.ok(&words("rebalance --shards 5 --yes"));
    assert_eq!(bench.ok(&["plan", "show"]), bench.read("b.plan"));
}

#[test]
fn without_a_file_and_without_a_deployment_it_is_wrong_usage() {
    let ran = Bench::new().run(&["plan", "show"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}
