//! A deployment grows in the middle of an import.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use loom_shard_plan::{Placement, ShardPlan};
use support::{Bench, assert_same, count, generated, gunzip, logs, number, real_log};

/// Imports the first half, grows 4→5, imports everything in another process, drains, and looks at each step.
fn grows_in_the_middle(bench: &Bench, file: &Path, lines: &[u8]) {
    let expected = logs(lines);
    let (executions, events) = count(&expected);
    let half: Vec<u8> = {
        let all: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
        all[..all.len() / 2].concat()
    };
    let (_, stored) = count(&logs(&half));
    let first = bench.run_with_stdin(&["import", "-"], &half);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let before: Vec<BTreeSet<String>> = (0..4)
        .map(|shard| bench.ids_on(shard).into_iter().collect())
        .collect();
    assert!(
        number(&bench.json(&["status"])["open"]) > 0,
        "some executions are in the middle"
    );

    let grown = bench.json(&["rebalance", "--shards", "5", "--yes"]);
    assert_eq!((&grown["epoch"], &grown["moved"]), (&2.into(), &819.into()));
    assert_eq!(bench.ids_on(4), [""; 0], "nothing is copied");

    let rest = bench.json(&["import".as_ref(), file.as_os_str()]);
    assert_eq!(number(&rest["skipped"]), stored);
    assert_eq!(number(&rest["events"]), events - stored);
    assert_eq!(bench.audited(), (executions, events));

    let plan: ShardPlan = bench.ok(&["plan", "show"]).parse().unwrap();
    let mut new_on_the_new_shard = 0;
    for shard in 0..5_u16 {
        for id in bench.ids_on(shard) {
            let was = before.iter().position(|ids| ids.contains(&id));
            match (was, plan.route_id(&id)) {
                (Some(was), _) => {
                    assert_eq!(was, usize::from(shard), "old ones stay where they are");
                }
                (None, Placement::Settled(at)) => assert_eq!(at.get(), shard),
                (None, Placement::Migrating { to, .. }) => {
                    assert_eq!(to.get(), shard, "new ones start on the new shard");
                    new_on_the_new_shard += 1;
                }
            }
        }
    }
    assert!(new_on_the_new_shard > 0);
    assert_same(&bench.exported(), &expected);

    let drained = bench.json(&["drain"]);
    assert_eq!(
        (number(&drained["remaining"]), number(&drained["settled"])),
        (0, 819)
    );
    let status = bench.json(&["status"]);
    assert_eq!(
        (&status["epoch"], &status["migrating"]),
        (&3.into(), &0.into())
    );
    assert_same(&bench.exported(), &expected);
    assert_eq!(bench.audited(), (executions, events));
}

#[test]
fn growing_in_the_middle_of_an_import_loses_nothing() {
    let bench = Bench::with_shards(4);
    let lines = generated(600);
    let file = bench.write("log.jsonl", &lines);
    grows_in_the_middle(&bench, &file, lines.as_bytes());
}

#[test]
fn growing_in_the_middle_of_the_real_permit_log_loses_nothing() {
    let Some(file) = real_log("permits.jsonl.gz") else {
        return;
    };
    grows_in_the_middle(&Bench::with_shards(4), &file, &gunzip(&file));
}

#[test]
fn growing_in_the_middle_of_the_real_loan_log_loses_nothing() {
    let Some(file) = real_log("loan-applications.jsonl.gz") else {
        return;
    };
    grows_in_the_middle(&Bench::with_shards(4), &file, &gunzip(&file));
}

/// The import is a process of its own that began under the old plan, and is told of the new one by the shards.
#[test]
fn an_import_that_is_running_follows_the_growth() {
    let bench = Bench::with_shards(4);
    bench.limit("import_window = 16");
    let lines = generated(800);
    bench.write("log.jsonl", &lines);
    let expected = logs(lines.as_bytes());
    let mut import = bench
        .command(&["import", "log.jsonl", "--progress", "plain"])
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(import.stderr.take().unwrap()).lines();
    // It has stored its first windows, and has many before it.
    assert!(progress.nth(5).is_some());
    let grown = bench.json(&["rebalance", "--shards", "5", "--yes"]);
    assert_eq!(grown["epoch"], 2);
    assert!(progress.next().is_some(), "it is still running");
    bench.ok(&["drain"]);
    for line in progress {
        assert!(line.unwrap().starts_with("import "));
    }
    assert_eq!(import.wait().unwrap().code(), Some(0));
    assert_same(&bench.exported(), &expected);
    assert_eq!(bench.audited(), count(&expected));
    assert!(!bench.ids_on(4).is_empty());
    bench.ok(&["drain", "--until-settled"]);
    assert_same(&bench.exported(), &expected);
}

#[test]
fn open_executions_hold_up_their_own_buckets_and_no_others() {
    let bench = Bench::with_shards(4);
    let lines = generated(300);
    let open: String = lines
        .lines()
        .filter(|line| !line.contains("last"))
        .fold(String::new(), |text, line| text + line + "\n");
    bench.run_with_stdin(&["import", "-"], open.as_bytes());
    bench.ok(&["rebalance", "--shards", "5", "--yes"]);
    let drained = bench.json(&["drain"]);
    let (remaining, settled) = (number(&drained["remaining"]), number(&drained["settled"]));
    assert_eq!(drained["moved"], 0);
    assert!(remaining > 0 && settled > 0, "{drained}");
    assert_eq!(number(&drained["migrating"]), 819 - settled);
    assert!(
        settled + remaining >= 819,
        "one open execution holds up one bucket"
    );

    // They end where they are, and then they may move.
    bench.write("log.jsonl", &lines);
    bench.ok(&["import", "log.jsonl"]);
    let drained = bench.json(&["drain", "--until-settled", "--rate", "100000"]);
    assert_eq!(number(&drained["moved"]), remaining);
    assert_eq!(number(&drained["migrating"]), 0);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
}

#[test]
fn settling_before_anything_is_drained_settles_only_what_is_empty() {
    let bench = Bench::with_shards(4);
    bench.run_with_stdin(&["import", "-"], generated(500).as_bytes());
    bench.ok(&["rebalance", "--shards", "5", "--yes"]);
    let settled = bench.json(&["settle"]);
    let (done, left) = (number(&settled["settled"]), number(&settled["migrating"]));
    assert!(done > 0 && left > 0);
    assert_eq!(done + left, 819);
    let again = bench.json(&["settle"]);
    assert_eq!(
        (number(&again["settled"]), &again["epoch"]),
        (0, &settled["epoch"])
    );
}

#[test]
fn a_second_growth_while_buckets_migrate_is_refused_and_changes_nothing() {
    let bench = Bench::with_shards(2);
    bench.run_with_stdin(&["import", "-"], generated(500).as_bytes());
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    let plan = bench.ok(&["plan", "show"]);
    let config = bench.read("loom.toml");
    let ran = bench.run(&["rebalance", "--shards", "4", "--yes"]);
    ran.refused(3, &["still migrating", "loom drain"]);
    assert_eq!(bench.ok(&["plan", "show"]), plan);
    assert_eq!(bench.read("loom.toml"), config);
    assert!(!bench.path("shard-3.db").exists());
}

#[test]
fn the_same_growth_again_while_buckets_migrate_is_done_already() {
    let bench = Bench::with_shards(2);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    let plan = bench.ok(&["plan", "show"]);
    let again = bench.json(&["rebalance", "--shards", "3", "--yes"]);
    assert_eq!(
        (&again["epoch"], &again["published"]),
        (&2.into(), &false.into())
    );
    assert_eq!(again["migrating"], 1365);
    let text = bench.ok(&["rebalance", "--shards", "3"]);
    assert!(
        text.contains("nothing to do") && text.contains("loom drain"),
        "{text}"
    );
    assert_eq!(bench.ok(&["plan", "show"]), plan);
}

#[test]
fn a_deployment_shrinks_only_when_that_is_meant() {
    let bench = Bench::with_shards(3);
    let lines = generated(200);
    bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    bench
        .run(&["rebalance", "--shards", "2", "--yes"])
        .refused(3, &["--allow-shrink"]);
    bench.ok(&["rebalance", "--shards", "2", "--yes", "--allow-shrink"]);
    bench.ok(&["drain", "--until-settled"]);
    let status = bench.json(&["status"]);
    assert_eq!(status["shards"], 2);
    assert_eq!(status["per_shard"][2]["role"], "spare");
    assert_eq!(status["per_shard"][2]["executions"], 0);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    // And grows again, onto the same file.
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    bench.ok(&["drain", "--until-settled"]);
    assert_eq!(bench.json(&["status"])["shards"], 3);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
}

#[test]
fn without_a_yes_and_without_a_terminal_nothing_is_changed() {
    let bench = Bench::with_shards(2);
    let ran = bench.run(&["rebalance", "--shards", "3"]);
    ran.refused(3, &["no terminal to ask on", "--dry-run", "--yes"]);
    let dry = bench.json(&["rebalance", "--shards", "3", "--dry-run"]);
    assert_eq!(
        (&dry["published"], &dry["moved"]),
        (&false.into(), &1365.into())
    );
    assert_eq!(bench.json(&["plan", "show"])["epoch"], 1);
    assert!(!bench.path("shard-2.db").exists());
}

#[test]
fn a_balanced_deployment_has_nothing_to_move() {
    let bench = Bench::with_shards(4);
    let same = bench.json(&["rebalance", "--shards", "4", "--yes"]);
    assert_eq!((&same["epoch"], &same["moved"]), (&1.into(), &0.into()));
    assert!(
        bench
            .ok(&["rebalance", "--shards", "4"])
            .contains("nothing to do")
    );
}

#[test]
fn a_growth_that_was_interrupted_before_it_was_published_is_taken_up() {
    let bench = Bench::with_shards(2);
    // The new shard is there and named, and the plan is the old one.
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    let grown = bench.read("loom.toml");
    let other = Bench::with_shards(2);
    let deployment = other.read("loom.toml");
    let deployment = deployment
        .lines()
        .find(|line| line.starts_with("deployment"))
        .unwrap();
    let text: Vec<&str> = grown
        .lines()
        .map(|line| {
            if line.starts_with("deployment") {
                deployment
            } else {
                line
            }
        })
        .collect();
    // The file of the shard was never created: that is told.
    other.write("loom.toml", text.join("\n"));
    other
        .run(&["status"])
        .refused(4, &["shard-2.db", "there is no file"]);
    let old: Vec<&str> = text.iter().take(text.len() - 3).copied().collect();
    other.write("loom.toml", old.join("\n"));
    assert_eq!(
        other.json(&["rebalance", "--shards", "3", "--yes"])["epoch"],
        2
    );
    assert_eq!(other.json(&["status"])["shards"], 3);
}
