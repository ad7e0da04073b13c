//! A shard is gone, was restored from a backup, or is another file than it was.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};

use loom_shard_plan::{Placement, ShardId, ShardPlan};
use rustix::fs::{FlockOperation, fcntl_lock};
use support::{Bench, assert_same, generated, logs, number};

fn plan(bench: &Bench) -> ShardPlan {
    bench.ok(&["plan", "show"]).parse().unwrap()
}

fn deployment(bench: &Bench) -> String {
    bench.json(&["shard", "ls"])["deployment"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Takes a shard's file away as a broken disk would.
fn lose(bench: &Bench, shard: u16) {
    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(bench.path(format!("shard-{shard}.db{end}")));
    }
}

/// Nobody has the file open, so that it is whole.
fn back_up(bench: &Bench, shard: u16) {
    let file = bench.path(format!("shard-{shard}.db"));
    fs::copy(file, bench.path("backup.db")).unwrap();
}

fn restore(bench: &Bench, shard: u16) {
    lose(bench, shard);
    let file = bench.path(format!("shard-{shard}.db"));
    fs::copy(bench.path("backup.db"), file).unwrap();
}

#[test]
fn the_role_of_shards_whose_plan_nobody_knows_is_not_known_either() {
    let bench = Bench::with_shards(1);
    lose(&bench, 0);
    let text = bench.ok(&["shard", "ls"]);
    assert!(text.contains("plan unknown"), "{text}");
    let listed = bench.json(&["shard", "ls"]);
    assert_eq!(listed["shards"][0]["role"], "unknown");
}

/// One event for each of these executions, at the sequence given.
fn event(ids: &[String], sequence: usize) -> String {
    let mut lines = String::new();
    for id in ids {
        for step in 0..=sequence {
            writeln!(
                lines,
                "{{\"execution\":\"{id}\",\"at\":{step},\"type\":\"step {step}\"}}"
            )
            .unwrap();
        }
    }
    lines
}

fn import(bench: &Bench, lines: &str) {
    let ran = bench.run_with_stdin(&["import", "-"], lines.as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_shard_that_is_gone_blocks_publication_until_it_is_given_up() {
    let bench = Bench::with_shards(4);
    let lines = generated(200);
    import(&bench, &lines);
    let kept: BTreeSet<String> = [0, 1, 3]
        .into_iter()
        .flat_map(|shard| bench.ids_on(shard))
        .collect();
    lose(&bench, 2);
    bench
        .run(&["rebalance", "--shards", "5", "--yes"])
        .refused(4, &["shard 2", "there is no file"]);

    let ran = bench.run(&["shard", "abandon", "2"]);
    ran.refused(
        3,
        &[
            "loses data",
            "--yes-lose-data",
            "1,024 of 4,096 buckets",
            "25.0 %",
        ],
    );
    assert!(bench.read("loom.toml").contains("id = 2"));

    let given_up = bench.json(&["shard", "abandon", "2", "--yes-lose-data"]);
    assert_eq!(
        (&given_up["shard"], &given_up["epoch"]),
        (&2.into(), &2.into())
    );
    assert_eq!(given_up["lost_buckets"], 1024);
    assert_eq!(given_up["lost_share"], 0.25);
    assert_eq!(given_up["settled"], serde_json::json!([[2048, 3071]]));
    assert_eq!(given_up["published"], true);
    assert!(!bench.read("loom.toml").contains("id = 2"));

    let status = bench.json(&["status"]);
    assert_eq!(
        (&status["shards"], &status["migrating"]),
        (&3.into(), &0.into())
    );
    assert_eq!(number(&status["executions"]), kept.len() as u64);
    let buckets: Vec<u64> = status["per_shard"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| number(&row["buckets"]))
        .collect();
    assert_eq!(buckets, [1366, 1365, 1365]);
    // What is left is whole; what is lost can be stored again, and the deployment grows again.
    assert!(bench.exported().keys().all(|id| kept.contains(id)));
    import(&bench, &lines);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    bench.ok(&["rebalance", "--shards", "4", "--yes"]);
    bench.ok(&["drain", "--until-settled"]);
    bench.audited();
}

#[test]
fn the_lowest_shard_which_decides_can_be_given_up_too() {
    let bench = Bench::with_shards(3);
    lose(&bench, 0);
    bench.ok(&["shard", "abandon", "0", "--yes-lose-data"]);
    assert_eq!(plan(&bench).shards().len(), 2);
    // The command is over, and repeating it is no mistake.
    bench
        .run(&["shard", "abandon", "0", "--yes-lose-data"])
        .refused(2, &["not in the plan of epoch 2"]);
}

#[test]
fn what_is_still_on_the_source_is_kept_when_the_destination_is_given_up() {
    let bench = Bench::with_shards(2);
    let lines = generated(200);
    import(&bench, &lines);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    let plan = plan(&bench);
    let moving = bench
        .ids_on(0)
        .into_iter()
        .find(|id| plan.route_id(id).is_migrating())
        .unwrap();
    bench.ok(&["move", &moving]);
    lose(&bench, 2);
    let given_up = bench.json(&["shard", "abandon", "2", "--yes-lose-data"]);
    assert_eq!(
        (&given_up["lost_buckets"], &given_up["epoch"]),
        (&1365.into(), &3.into())
    );
    assert_eq!(given_up["settled"], serde_json::json!([]));
    let mut expected = logs(lines.as_bytes());
    expected.remove(&moving);
    assert_same(&bench.exported(), &expected);
    bench.audited();
}

#[test]
fn a_shard_that_answers_is_not_given_up() {
    let bench = Bench::with_shards(3);
    let before = bench.ok(&["plan", "show"]);
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(3, &["shard 1 answers", "loom rebalance --remove 1"]);
    bench
        .run(&["shard", "abandon", "9", "--yes-lose-data"])
        .refused(2, &["not in the plan"]);
    // Two at once cannot be given up: the others have to answer.
    lose(&bench, 1);
    lose(&bench, 2);
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(4, &["all the others have to answer", "shard 2"]);
    assert!(before.contains("epoch 1"));
}

#[test]
fn a_shard_that_another_process_has_locked_is_not_given_up() {
    let bench = Bench::with_shards(2);
    bench.limit("busy_timeout_ms = 50");
    let path = bench.path("shard-1.db");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(3, &["shard 1 is there", "locked by another process"]);
    drop(file);
    bench.ok(&["status"]);
}

#[test]
fn a_shard_that_was_given_up_and_comes_back_is_no_member_until_it_is_repaired() {
    let bench = Bench::with_shards(3);
    let lines = generated(100);
    import(&bench, &lines);
    back_up(&bench, 2);
    let config = bench.read("loom.toml");
    lose(&bench, 2);
    bench.ok(&["shard", "abandon", "2", "--yes-lose-data"]);
    let left = bench.exported();
    restore(&bench, 2);
    bench.write("loom.toml", config);
    assert_eq!(bench.json(&["status"])["per_shard"][2]["role"], "spare");
    assert_same(&bench.exported(), &left);
    // Letting it join would take what it holds for the present.
    for args in [&["--shards", "3"][..], &["--add", "2"]] {
        bench
            .run(&[&["rebalance", "--yes"][..], args].concat())
            .refused(3, &["shard 2", "still holds", "loom repair 2"]);
    }
    bench.write("now.plan", bench.ok(&["plan", "show"]));
    bench.ok(&[
        "plan",
        "rebalance",
        "now.plan",
        "--add",
        "2",
        "--out",
        "next.plan",
    ]);
    bench
        .run(&["publish", "next.plan", "--yes"])
        .refused(3, &["shard 2", "still holds"]);
    assert_eq!(plan(&bench).shards().len(), 2);
    // What it held can be brought home, and then it is as good as new.
    let brought = bench.json(&["repair", "2", "--yes"]);
    assert_eq!(
        number(&brought["moved"]),
        (logs(lines.as_bytes()).len() - left.len()) as u64
    );
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    bench.ok(&["publish", "next.plan", "--yes"]);
    bench.ok(&["drain", "--until-settled"]);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    bench.audited();
}

#[test]
fn a_repair_leaves_logs_that_differ_to_somebody_who_decides() {
    let bench = Bench::with_shards(2);
    let ids: Vec<String> = (0..20).map(|n| format!("e-{n}")).collect();
    import(&bench, &event(&ids, 2));
    back_up(&bench, 1);
    let config = bench.read("loom.toml");
    lose(&bench, 1);
    bench.ok(&["shard", "abandon", "1", "--yes-lose-data"]);
    let left = bench.exported();
    let mut lost: Vec<String> = ids
        .into_iter()
        .filter(|id| !left.contains_key(id.as_str()))
        .collect();
    assert!(lost.len() > 2);
    // Of one only the beginning is written anew, the others go on otherwise, and one is not written at all.
    lost.pop();
    let mut anew = event(&lost[..1], 0);
    for id in &lost[1..] {
        anew += &event(std::slice::from_ref(id), 0);
        writeln!(
            anew,
            "{{\"execution\":\"{id}\",\"at\":1,\"type\":\"other\"}}"
        )
        .unwrap();
    }
    import(&bench, &anew);
    restore(&bench, 1);
    bench.write("loom.toml", config);
    let ran = bench.run(&["repair", "1", "--yes", "--json"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let repaired: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(number(&repaired["differing"]), lost.len() as u64);
    assert_eq!(
        (number(&repaired["moved"]), number(&repaired["removed"])),
        (1, 0)
    );
    let audited = bench.run(&["audit"]);
    assert_ne!(audited.code, Some(0));
    assert!(
        audited.stdout.contains("loom resolve"),
        "{}",
        audited.stdout
    );
}

/// S23
#[test]
fn a_shard_from_yesterdays_backup_is_refused_and_repaired() {
    let bench = Bench::with_shards(2);
    let ids: Vec<String> = (0..60).map(|n| format!("order-{n}")).collect();
    import(&bench, &event(&ids, 0));
    back_up(&bench, 1);
    // Since then the deployment has grown, what was on shard 1 went on, and some of it was moved and removed.
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    bench.ok(&["drain", "--live", "--until-settled"]);
    import(&bench, &event(&ids, 1));
    let now = plan(&bench);
    let was =
        |id: &String| ShardPlan::new(2).unwrap().route_id(id) == Placement::Settled(ShardId(1));
    let is = |id: &String, shard| now.route_id(id) == Placement::Settled(ShardId(shard));
    let removed = ids.iter().find(|id| was(id) && is(id, 2)).unwrap().clone();
    bench.ok(&["rm", &removed, "--force"]);
    let stale = ids.iter().filter(|id| was(id) && is(id, 2)).count() - 1;
    let kept = ids.iter().filter(|id| was(id) && is(id, 1)).count();
    assert!(stale > 0 && kept > 0);
    restore(&bench, 1);

    // Nobody writes to it before it is repaired.
    for args in [
        &["status"][..],
        &["drain"],
        &["settle"],
        &["ls"],
        &["rebalance", "--shards", "4", "--yes"],
    ] {
        let ran = bench.run(args);
        ran.refused(3, &["shard 1", "loom repair 1"]);
    }
    let listed = bench.json(&["shard", "ls"]);
    assert_eq!(
        (&listed["shards"][1]["epoch"], &listed["epoch"]),
        (&1.into(), &3.into())
    );

    bench
        .run(&["repair", "1"])
        .refused(3, &["no terminal to ask on", "--dry-run"]);
    let found = bench.json(&["repair", "1", "--dry-run"]);
    assert_eq!(found["repaired"], false);
    let repaired = bench.json(&["repair", "1", "--yes"]);
    for report in [&found, &repaired] {
        assert_eq!((&report["was"], &report["epoch"]), (&1.into(), &3.into()));
        assert_eq!(number(&report["records"]), (stale + kept + 1) as u64);
        assert_eq!(number(&report["kept"]), kept as u64);
        assert_eq!(report["differing"], 0);
    }
    assert_eq!(
        number(&repaired["removed"]) + number(&repaired["moved"]),
        (stale + 1) as u64
    );
    let buckets: u64 = repaired["buckets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|range| number(&range[1]) - number(&range[0]) + 1)
        .sum();
    assert_eq!(buckets, 1365);

    // What was appended on it since the backup is gone, and nothing else.
    let exported = bench.exported();
    for id in ids.iter().filter(|id| **id != removed) {
        let lost = was(id) && is(id, 1);
        assert_eq!(exported[id].len(), if lost { 1 } else { 2 }, "{id}");
    }
    bench.audited();
    // It is over, and repeating it changes nothing.
    let again = bench.json(&["repair", "1", "--yes"]);
    assert_eq!(
        (number(&again["kept"]), &again["was"]),
        (kept as u64, &3.into())
    );
    assert_eq!(number(&again["records"]), kept as u64);
    bench.ok(&["rebalance", "--shards", "4", "--yes"]);
    bench.ok(&["drain", "--live", "--until-settled"]);
    bench.audited();
}

/// Killed wherever it tells of progress, it is taken up by the next one.
#[test]
fn a_repair_that_is_killed_is_taken_up() {
    let bench = Bench::with_shards(2);
    let ids: Vec<String> = (0..600).map(|n| format!("order-{n}")).collect();
    import(&bench, &event(&ids, 0));
    back_up(&bench, 1);
    bench.ok(&["rebalance", "--shards", "3", "--yes"]);
    bench.ok(&["drain", "--live", "--until-settled"]);
    restore(&bench, 1);
    let repair = ["repair", "1", "--yes", "--progress", "plain"];
    assert!(bench.kill_when(&repair, |line| line.contains("repairing, 256 records")));
    bench.run(&["status"]).refused(3, &["loom repair 1"]);
    bench.ok(&repair);
    assert_same(&bench.exported(), &logs(event(&ids, 0).as_bytes()));
    bench.audited();
}

/// S21
#[test]
fn a_wiped_server_and_swapped_urls_are_refused_with_the_cure() {
    let bench = Bench::with_shards(2);
    let text = bench.read("loom.toml");
    bench.write(
        "loom.toml",
        text.replace("shard-0", "shard-x")
            .replace("shard-1", "shard-0")
            .replace("shard-x", "shard-1"),
    );
    let cure = ["two may be swapped", "loom repair", "loom shard abandon"];
    for args in [&["status"][..], &["import", "-"], &["repair", "1", "--yes"]] {
        bench.run(args).refused(3, &cure);
    }
    bench.write("loom.toml", &text);
    // A new, empty store in the place of shard 1.
    let other = Bench::with_shards(2);
    restore_from(&other, &bench);
    bench.run(&["status"]).refused(3, &cure);
    let name = deployment(&bench);
    assert!(!name.is_empty());
    // Whether the shard is alive somewhere else is for somebody to find out.
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(3, &["something else is where", "correct the url"]);
    lose(&bench, 1);
    let given_up = bench.json(&["shard", "abandon", "1", "--yes-lose-data"]);
    assert_eq!(given_up["lost_buckets"], 2048);
    bench.ok(&["status"]);
}

fn restore_from(other: &Bench, bench: &Bench) {
    lose(bench, 1);
    fs::copy(other.path("shard-1.db"), bench.path("shard-1.db")).unwrap();
}

#[test]
fn a_wrong_url_does_not_make_a_living_shard_look_gone() {
    let bench = Bench::with_shards(3);
    let lines = generated(60);
    import(&bench, &lines);
    let right = bench.read("loom.toml");
    // A typing mistake, a file of the same deployment, and one of another one.
    let other = Bench::with_shards(3);
    fs::copy(other.path("shard-2.db"), bench.path("foreign.db")).unwrap();
    fs::copy(bench.path("shard-0.db"), bench.path("swapped.db")).unwrap();
    for (url, says) in [
        (
            "shard-22.db",
            &[
                "shard 2 is alive, at `sqlite:shard-2.db`",
                "`loom.toml` says `sqlite:shard-22.db`",
                "write `url = \"sqlite:shard-2.db\"`",
            ][..],
        ),
        (
            "foreign.db",
            &[
                "something else is where `loom.toml` says that shard 2 is",
                "correct the url",
            ],
        ),
        ("swapped.db", &["something else is", "shard 0"]),
    ] {
        let wrong = right.replace("shard-2.db", url);
        bench.write("loom.toml", &wrong);
        let ran = bench.run(&["shard", "abandon", "2", "--yes-lose-data"]);
        ran.refused(3, says);
        assert_eq!(bench.read("loom.toml"), wrong);
    }
    // Nor does a file that does not name it at all.
    let end = right.find("\n[[shard]]\nid = 2").unwrap();
    bench.write("loom.toml", &right[..end]);
    bench
        .run(&["shard", "abandon", "2", "--yes-lose-data"])
        .refused(3, &["shard 2 is alive", "`loom.toml` does not name it"]);
    bench.write("loom.toml", &right);
    assert_same(&bench.exported(), &logs(lines.as_bytes()));
    // It is given up once it is nowhere, wherever it should be.
    bench.write("loom.toml", right.replace("shard-2.db", "shard-22.db"));
    lose(&bench, 2);
    bench.ok(&["shard", "abandon", "2", "--yes-lose-data"]);
    bench.audited();
}

#[test]
fn the_only_shard_cannot_be_given_up() {
    let bench = Bench::with_shards(1);
    for _ in ["there", "gone"] {
        bench
            .run(&["shard", "abandon", "0", "--yes-lose-data"])
            .refused(3, &["no shard but 0", "start a new deployment"]);
        lose(&bench, 0);
    }
}

#[test]
fn a_spare_shard_is_taken_out_of_the_file_unless_it_holds_something() {
    let bench = Bench::with_shards(2);
    bench.ok(&["shard", "add", "sqlite:spare.db"]);
    let taken = bench.json(&["shard", "abandon", "2"]);
    assert_eq!(
        (&taken["published"], &taken["lost_buckets"]),
        (&false.into(), &0.into())
    );
    assert!(!bench.read("loom.toml").contains("spare.db"));
    assert!(bench.path("spare.db").exists());
    // One that was given up and came back.
    import(&bench, &generated(50));
    let config = bench.read("loom.toml");
    back_up(&bench, 1);
    lose(&bench, 1);
    bench.ok(&["shard", "abandon", "1", "--yes-lose-data"]);
    restore(&bench, 1);
    bench.write("loom.toml", config);
    bench
        .run(&["shard", "abandon", "1", "--yes-lose-data"])
        .refused(
            3,
            &["shard 1 is not in the plan", "still holds", "loom repair 1"],
        );
    bench.ok(&["repair", "1", "--yes"]);
    bench.ok(&["shard", "abandon", "1"]);
    assert_eq!(bench.audited().0, 50);
}
