//! `loom plan route`.

use super::{grown, plan, words};

const IDS: [&str; 4] = ["order-42", "b", "incident/é", "x y"];

#[test]
fn ids_are_shown_with_their_bucket_and_both_sides() {
    let bench = grown();
    let args = [
        "plan",
        "route",
        "b.plan",
        "order-42",
        "b",
        "incident/é",
        "x y",
    ];
    insta::assert_snapshot!(bench.run(&args).shown());
}

#[test]
fn json_is_where_the_library_routes_them() {
    let bench = grown();
    let expected = plan(&bench.read("b.plan"));
    let mut args = words("plan route b.plan");
    args.extend(IDS);
    let routes = bench.json(&args);
    for (id, route) in IDS.iter().zip(routes.as_array().unwrap()) {
        assert_eq!(route["id"], *id);
        assert_eq!(route["bucket"], expected.bucket_of_id(id));
        let placement = expected.route_id(id);
        assert_eq!(route["shard"], placement.destination().get());
        let from = placement.source().map(loom_shard_plan::ShardId::get);
        assert_eq!(route["migrating_from"], serde_json::json!(from));
    }
    assert_eq!(
        routes[1]["migrating_from"], 1,
        "one of them is to be migrating"
    );
}

#[test]
fn ids_come_from_stdin_where_none_is_given() {
    let bench = grown();
    let mut args = words("plan route b.plan");
    let lines = format!("{}\r\n{}", IDS[..2].join("\n"), IDS[2..].join("\n"));
    let piped = bench.run_with_stdin(&args, lines.as_bytes());
    args.extend(IDS);
    assert_eq!(piped.stdout, bench.ok(&args));
}

#[test]
fn no_id_at_all_is_an_empty_document() {
    let ran = grown().run_with_stdin(&words("plan route b.plan --json"), b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "[]\n"));
}

#[test]
fn a_line_that_is_no_id_is_told_by_its_number() {
    let bench = grown();
    for (lines, place) in [
        (b"a\n\nb\n".to_vec(), "<stdin>:2: "),
        (b"a\nb\n\xff\n".to_vec(), "<stdin>:3: the line is not UTF-8"),
        (vec![b'x'; 100_000], "<stdin>:1: "),
    ] {
        let ran = bench.run_with_stdin(&words("plan route b.plan"), &lines);
        assert_eq!(ran.code, Some(2));
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
    }
}
