//! Changing a deployment's plan step by step: draining live executions, settling, calling off, publishing a file,
//! moving one execution, members by name.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;

use loom_shard_plan::{Placement, ShardPlan};
use support::{Bench, assert_same, count, generated, logs, number};

/// Two shards with open executions alone, on their way to three.
fn growing(executions: u64) -> (Bench, String) {
    let bench = Bench::with_shards(2);
    let lines: String = generated(executions)
        .lines()
        .filter(|line| !line.contains("\"last\""))
        .fold(String::new(), |text, line| text + line + "\n");
    bench.write("open.jsonl", &lines);
    bench.ok(&["import", "open.jsonl"]);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    (bench, lines)
}

fn plan(bench: &Bench) -> ShardPlan {
    bench.ok(&["plan", "show"]).parse().unwrap()
}

/// An execution that is still on the source of its bucket, with the source and the destination.
fn waiting(bench: &Bench) -> (String, u16, u16) {
    let plan = plan(bench);
    let mut ids = (0..2).flat_map(|shard| bench.ids_on(shard));
    let found = ids.find_map(|id| match plan.route_id(&id) {
        Placement::Migrating { from, to } => Some((id, from.get(), to.get())),
        Placement::Settled(_) => None,
    });
    found.unwrap()
}

#[test]
fn open_executions_are_moved_when_that_is_asked_for_and_go_on_where_they_are_then() {
    let (bench, lines) = growing(200);
    let left = number(&bench.json(&["drain"])["remaining"]);
    assert!(left > 0);
    let drained = bench.json(&["drain", "--live", "--rate", "100000", "--until-settled"]);
    assert_eq!(
        (number(&drained["moved"]), number(&drained["remaining"])),
        (left, 0)
    );
    assert_eq!(drained["migrating"], 0);
    assert!(number(&drained["settled"]) > 0);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    // They end on their new shard.
    let all = generated(200);
    bench.write("all.jsonl", &all);
    bench.ok(&["import", "all.jsonl"]);
    assert_same(&bench.exported(), &logs(all.as_bytes()));
    bench.audited();
}

#[test]
fn progress_of_a_drain_is_told_in_lines() {
    let (bench, _) = growing(50);
    let ran = bench.run(&["drain", "--live", "--progress", "plain", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("drain "), "{}", ran.stderr);
    assert!(ran.stderr.contains(" moved, "), "{}", ran.stderr);
}

/// Killed wherever it is, it leaves every execution whole, and the next one goes on.
#[test]
fn a_drain_of_open_executions_that_is_killed_is_taken_up() {
    let (bench, lines) = growing(400);
    let expected = logs(lines.as_bytes());
    let drain = ["drain", "--live", "--progress", "plain"];
    for _ in 0..3 {
        bench.kill_when(&drain, |line| !line.contains(" 0 moved"));
        assert_eq!(bench.audited(), count(&expected));
        assert_same(&bench.exported(), &expected);
    }
    let drained = bench.json(&["drain", "--live", "--until-settled"]);
    assert_eq!(drained["migrating"], 0);
    assert_same(&bench.exported(), &expected);
    assert_eq!(bench.audited(), count(&expected));
}

/// S7: what is not drained is named, with its shard.
#[test]
fn settling_a_bucket_that_is_not_drained_names_the_shard_and_the_executions() {
    let (bench, _) = growing(200);
    let (id, from, _) = waiting(&bench);
    let bucket = plan(&bench).bucket_of_id(&id);
    let before = bench.ok(&["plan", "show"]);
    let ran = bench.run(&["settle", &bucket.to_string()]);
    ran.refused(
        3,
        &[
            &format!("bucket {bucket} still has"),
            &format!("on shard {from}"),
            &format!("`{id}`"),
            "loom drain --live",
        ],
    );
    assert_eq!(bench.ok(&["plan", "show"]), before);
}

#[test]
fn buckets_that_are_drained_settle_by_name_and_by_range_and_again_without_harm() {
    let (bench, _) = growing(0);
    let migrating: Vec<u32> = plan(&bench).migrating_buckets().iter().collect();
    let (first, next) = (migrating[0], migrating[1]);
    assert_eq!(next, first + 1, "a range");
    let range = format!("{first}-{next}");
    let settled = bench.json(&["settle", &range]);
    assert_eq!(
        (&settled["epoch"], &settled["settled"]),
        (&3.into(), &2.into())
    );
    assert_eq!(number(&settled["migrating"]), migrating.len() as u64 - 2);
    let again = bench.json(&["settle", &range]);
    assert_eq!((&again["epoch"], &again["settled"]), (&3.into(), &0.into()));
    bench
        .run(&["settle", "4096"])
        .refused(2, &["4096", "loom plan show"]);
    bench.run(&["settle", "9-1"]).refused(2, &["1-9"]);
    let rest = bench.json(&["settle"]);
    assert_eq!(number(&rest["settled"]), migrating.len() as u64 - 2);
    assert_eq!(rest["migrating"], 0);
}

#[test]
fn a_growth_is_called_off_half_way_with_nothing_lost() {
    let (bench, lines) = growing(200);
    let (id, from, to) = waiting(&bench);
    bench.ok(&["move", &id]);
    assert!(bench.ids_on(to).contains(&id));
    bench
        .run(&["revert", "--all"])
        .refused(3, &["no terminal to ask on", "--dry-run", "--yes"]);
    let dry = bench.json(&["revert", "--all", "--dry-run"]);
    assert_eq!(
        (&dry["published"], &dry["epoch"]),
        (&false.into(), &3.into())
    );
    assert_eq!(bench.json(&["plan", "show"])["epoch"], 2);

    let reverted = bench.json(&["revert", "--all", "--yes"]);
    assert_eq!(reverted["published"], true);
    assert_eq!(reverted["epoch"], 3);
    assert_eq!(reverted["reverted"], 1365);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    let drained = bench.json(&["drain", "--live", "--until-settled"]);
    assert_eq!(drained["migrating"], 0);
    assert!(bench.ids_on(from).contains(&id), "it is back");
    assert_eq!(bench.ids_on(to), [""; 0]);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    bench.audited();
    // Nothing is left to call off.
    let nothing = bench.json(&["revert", "--all", "--yes"]);
    assert_eq!(nothing["published"], false);
    assert!(bench.ok(&["revert", "--all"]).contains("nothing to do"));
    bench
        .run(&["revert", "7", "--yes"])
        .refused(2, &["bucket 7", "not migrating"]);
    bench.run(&["revert"]).refused(2, &["--all"]);
}

#[test]
fn one_execution_is_moved_now_and_one_that_is_there_says_so() {
    let (bench, lines) = growing(200);
    let (id, from, to) = waiting(&bench);
    let moved = bench.json(&["move", &id]);
    assert_eq!((&moved["from"], &moved["to"]), (&from.into(), &to.into()));
    assert_eq!(moved["moves"][0]["outcome"], "moved");
    let again = bench.json(&["move", &id]);
    assert_eq!(again["moves"][0]["outcome"], "already_there");
    assert_eq!((&again["from"], &again["to"]), (&().into(), &to.into()));
    let plan = plan(&bench);
    let settled = bench
        .ids_on(0)
        .into_iter()
        .find(|id| !plan.route_id(id).is_migrating())
        .unwrap();
    let stays = bench.json(&["move", &settled]);
    assert_eq!(stays["moves"][0]["outcome"], "settled");
    assert_eq!(stays["to"], 0);
    assert!(bench.ok(&["move", &settled]).contains("settled there"));

    bench
        .run(&["move", "nobody"])
        .refused(1, &["there is no execution `nobody`"]);
    let ran = bench.run(&["move", &settled, "nobody", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["moves"].as_array().unwrap().len(), 1);
    assert_eq!(document["failed"][0]["execution"], "nobody");
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
}

#[test]
fn a_reviewed_plan_is_published_from_a_file_in_any_format() {
    let bench = Bench::with_shards(2);
    bench.ok(&["plan", "show", "--format", "text"]);
    for (step, format) in ["text", "json", "bin"].into_iter().enumerate() {
        let now = bench.ok(&["plan", "show"]);
        bench.write("now.plan", &now);
        let weight = format!("0:{}", step + 2);
        let target = ["--format", format, "--out", "next.plan"];
        let derive = ["plan", "rebalance", "now.plan", "--weight", &weight];
        bench.ok(&[&derive[..], &target].concat());
        bench
            .run(&["publish", "next.plan"])
            .refused(3, &["no terminal to ask on"]);
        let dry = bench.json(&["publish", "next.plan", "--dry-run"]);
        assert_eq!(dry["published"], false);
        let published = bench.json(&["publish", "next.plan", "--yes"]);
        assert_eq!(published["published"], true);
        assert!(number(&published["moved"]) > 0);
        // S19: an answer that was lost is asked for again.
        let again = bench.json(&["publish", "next.plan", "--yes"]);
        assert_eq!(
            (&again["published"], &again["epoch"]),
            (&false.into(), &published["epoch"])
        );
        bench.ok(&["drain", "--until-settled"]);
    }
}

/// S14
#[test]
fn an_older_plan_from_a_backup_is_refused_with_the_newer_epoch_and_what_to_do() {
    let bench = Bench::with_shards(2);
    let first = bench.ok(&["plan", "show"]);
    bench.write("backup.plan", &first);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    bench.ok(&["drain", "--until-settled"]);
    let now = bench.ok(&["plan", "show"]);
    bench.run(&["publish", "backup.plan", "--yes"]).refused(
        3,
        &[
            "a plan of epoch 1",
            "under epoch 3",
            "loom plan show",
            "loom repair",
        ],
    );
    assert_eq!(bench.ok(&["plan", "show"]), now);
}

#[test]
fn a_plan_that_would_lose_executions_is_refused_with_the_reason() {
    let bench = Bench::with_shards(2);
    let now = bench.ok(&["plan", "show"]);
    let edited = now
        .replace("epoch 1", "epoch 2")
        .replace("0-2047: 0", "0-2047: 1");
    bench.write("edited.plan", edited);
    bench.run(&["publish", "edited.plan", "--yes"]).refused(
        3,
        &[
            "must not follow",
            "loses what is on shard 0",
            "loom plan rebalance",
        ],
    );
    let skipped = now.replace("epoch 1", "epoch 7");
    bench.write("skipped.plan", skipped);
    bench
        .run(&["publish", "skipped.plan", "--yes"])
        .refused(3, &["must not follow", "epoch"]);
    bench.write("no.plan", "[server]\n");
    bench
        .run(&["publish", "no.plan", "--yes"])
        .refused(2, &["no.plan:1:1"]);
    bench
        .run(&["publish", "absent.plan"])
        .refused(2, &["absent.plan"]);
    // A shard that nobody has said where it is.
    bench.write("now.plan", &now);
    bench.ok(&[
        "plan",
        "rebalance",
        "now.plan",
        "--add",
        "5",
        "--out",
        "five.plan",
    ]);
    bench
        .run(&["publish", "five.plan", "--yes"])
        .refused(3, &["shard 5", "loom shard add"]);
    assert_eq!(bench.ok(&["plan", "show"]), now);
}

#[test]
fn members_join_leave_and_change_their_weight_by_name() {
    let bench = Bench::with_shards(3);
    let lines = generated(100);
    bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    let changed = bench.json(&[
        "rebalance",
        "--add",
        "7:2",
        "--add-url",
        "sqlite:disk/seven.db",
        "--remove",
        "1",
        "--weight",
        "0:3",
        "--yes",
    ]);
    assert_eq!(changed["joins"], serde_json::json!([7]));
    assert_eq!(changed["leaves"], serde_json::json!([1]));
    assert!(bench.path("disk/seven.db").exists());
    // The plan is the one that a review would have seen.
    bench.ok(&["drain", "--live", "--until-settled"]);
    let status = bench.json(&["status"]);
    let buckets = |shard: u64| {
        let rows = status["per_shard"].as_array().unwrap().iter();
        let row = rows.into_iter().find(|row| row["shard"] == shard).unwrap();
        (
            row["role"].as_str().unwrap().to_owned(),
            number(&row["buckets"]),
        )
    };
    assert_eq!(buckets(0), ("member".to_owned(), 2048));
    assert_eq!(buckets(1), ("spare".to_owned(), 0));
    assert_eq!(buckets(2).1 + buckets(7).1, 2048);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));

    for (args, says) in [
        (&["--add", "7"][..], "--weight ID:W"),
        (&["--remove", "9"], "loom shard ls"),
        (&["--add", "8", "--remove", "8"], "named twice"),
        (&["--shards", "2", "--add", "8"], "--add"),
        (&[], "--shards"),
        (&["--allow-shrink", "--remove", "2"], "--allow-shrink"),
    ] {
        let mut all = vec!["rebalance", "--yes"];
        all.extend(args);
        bench.run(&all).refused(2, &[says]);
    }
}

/// S17
#[test]
fn a_weight_that_is_the_weight_already_moves_nothing_and_says_so() {
    let bench = Bench::with_shards(2);
    let same = bench.json(&["rebalance", "--weight", "0:1", "--yes"]);
    assert_eq!(
        (&same["published"], &same["moved"], &same["epoch"]),
        (&false.into(), &0.into(), &1.into())
    );
    let text = bench.ok(&["rebalance", "--weight", "0:1"]);
    assert!(text.contains("nothing to do"), "{text}");
}

/// S3
#[test]
fn members_do_not_change_while_buckets_migrate_and_the_refusal_names_the_buckets() {
    let (bench, _) = growing(10);
    let before = bench.ok(&["plan", "show"]);
    bench.run(&["rebalance", "--add", "3", "--yes"]).refused(
        3,
        &[
            "still migrating",
            "1366-2730",
            "loom drain --live",
            "loom revert",
        ],
    );
    assert_eq!(bench.ok(&["plan", "show"]), before);
    assert!(!bench.path("shard-3.db").exists());
}

#[test]
fn a_shard_is_added_ahead_of_the_plan_that_uses_it() {
    let bench = Bench::with_shards(2);
    let added = bench.json(&["shard", "add", "sqlite:more/two.db"]);
    assert_eq!(
        (&added["shard"], &added["added"]),
        (&2.into(), &true.into())
    );
    assert!(bench.path("more/two.db").exists());
    assert_eq!(
        bench.json(&["plan", "show"])["epoch"],
        1,
        "nothing is routed to it"
    );
    let again = bench.json(&["shard", "add", "sqlite:more/two.db"]);
    assert_eq!(
        (&again["shard"], &again["added"]),
        (&2.into(), &false.into())
    );
    bench
        .run(&["shard", "add", "sqlite:x.db", "--id", "2"])
        .refused(3, &["there is a shard 2 already"]);
    bench
        .run(&["shard", "add", "mysql://u:hunter2@h/d"])
        .refused(2, &["expected `sqlite:PATH`"]);
    bench
        .run(&["shard", "add", "sqlite:shard-0.db", "--id", "9"])
        .refused(3, &["is shard 0 already"]);
    let listed = bench.json(&["shard", "ls"]);
    assert_eq!(listed["shards"][2]["role"], "spare");
    assert_eq!(listed["shards"][2]["url"], "sqlite:more/two.db");
    assert_eq!(
        bench.json(&["rebalance", "--shards", "3", "--yes"])["joins"],
        serde_json::json!([2])
    );
    bench.ok(&["drain", "--until-settled"]);
    assert!(!bench.path("shard-2.db").exists());
}

#[test]
fn shards_are_listed_with_who_they_are_and_what_they_hold_even_when_one_is_down() {
    let bench = Bench::with_shards(2);
    bench.run_with_stdin(&["import", "-"], generated(50).as_bytes());
    let listed = bench.json(&["shard", "ls"]);
    let shards = listed["shards"].as_array().unwrap();
    let held: u64 = shards.iter().map(|shard| number(&shard["records"])).sum();
    assert_eq!(held, 50);
    for (id, shard) in shards.iter().enumerate() {
        assert_eq!(shard["shard"], id);
        assert_eq!(shard["reachable"], true);
        assert_eq!(
            (&shard["epoch"], &shard["buckets"]),
            (&1.into(), &2048.into())
        );
        let identity = shard["identity"].as_str().unwrap();
        assert!(
            identity.starts_with(&format!("shard {id} of deployment")),
            "{identity}"
        );
    }
    fs::remove_file(bench.path("shard-1.db")).unwrap();
    let listed = bench.json(&["shard", "ls"]);
    assert_eq!(listed["shards"][0]["reachable"], true);
    assert_eq!(listed["shards"][1]["reachable"], false);
    let problem = listed["shards"][1]["problem"].as_str().unwrap();
    assert!(problem.contains("shard 1"), "{problem}");
    let text = bench.ok(&["shard", "ls"]);
    assert!(text.contains("unreachable shard 1"), "{text}");
}

/// It is in the plan while it leaves, so that what it holds is the present.
#[test]
fn a_shard_that_was_leaving_and_holds_executions_can_be_kept() {
    let bench = Bench::with_shards(4);
    let lines = generated(100);
    bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    bench.ok(&["rebalance", "--shards", "3", "--allow-shrink", "--yes"]);
    bench.ok(&["revert", "--all", "--yes"]);
    bench.ok(&["drain", "--until-settled"]);
    assert!(!bench.ids_on(3).is_empty());
    let kept = bench.json(&["rebalance", "--add", "3", "--yes"]);
    assert_eq!(kept["published"], true);
    bench.ok(&["drain", "--until-settled"]);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
}
