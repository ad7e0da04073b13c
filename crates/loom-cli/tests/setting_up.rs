//! Creating a deployment, and what is said when it is not there, not whole or not reachable.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs::{self, OpenOptions};

use rustix::fs::{FlockOperation, fcntl_lock};
use support::{Bench, finish, generated};

#[test]
fn a_deployment_is_created_with_its_first_plan() {
    let bench = Bench::new();
    let created = bench.json(&["init", "--shards", "4", "--dir", "a/b"]);
    assert_eq!(
        (&created["shards"], &created["epoch"]),
        (&4.into(), &1.into())
    );
    let status = bench.json(&["status", "--config", "a/b/loom.toml"]);
    assert_eq!(status["shards"], 4);
    assert_eq!(status["executions"], 0);
    assert_eq!(status["per_shard"][3]["buckets"], 1024);
}

#[test]
fn the_deployment_file_is_found_where_it_is_said_to_be() {
    let bench = Bench::new();
    bench.ok(&["init", "--shards", "1", "--config", "x/my.toml"]);
    let here = bench.run(&["status"]);
    here.refused(
        2,
        &[
            "there is no deployment file at `loom.toml`",
            "loom init",
            "--config",
            "LOOM_CONFIG",
        ],
    );
    assert_eq!(
        bench.json(&["status", "--config", "x/my.toml"])["shards"],
        1
    );
    let mut named = bench.command(&["status"]);
    let ran = finish(named.env("LOOM_CONFIG", "x/my.toml").spawn().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let elsewhere = bench.command(&["status", "--config", "my.toml"]);
    let mut elsewhere = elsewhere;
    let ran = finish(elsewhere.current_dir(bench.path("x")).spawn().unwrap());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn a_deployment_can_be_moved_as_a_folder() {
    let bench = Bench::new();
    bench.ok(&["init", "--shards", "2", "--dir", "old"]);
    let import = ["import", "-", "--config", "old/loom.toml"];
    bench.run_with_stdin(&import, generated(10).as_bytes());
    fs::rename(bench.path("old"), bench.path("new")).unwrap();
    assert_eq!(
        bench.json(&["status", "--config", "new/loom.toml"])["executions"],
        10
    );
}

#[test]
fn urls_say_where_the_shards_are() {
    let bench = Bench::new();
    bench.ok(&[
        "init",
        "--url",
        "sqlite:disk1/a.db",
        "--url",
        "sqlite:disk2/b.db",
    ]);
    assert!(bench.path("disk2/b.db").exists());
    assert_eq!(bench.json(&["status"])["shards"], 2);
    bench.ok(&[
        "rebalance",
        "--shards",
        "3",
        "--add-url",
        "sqlite:disk3/c.db",
        "--yes",
    ]);
    assert!(bench.path("disk3/c.db").exists());
    let count = Bench::new().run(&["init", "--shards", "3", "--url", "sqlite:a"]);
    count.refused(2, &["expected one url for each shard"]);
}

#[test]
fn a_rebalance_that_was_interrupted_after_it_had_named_its_shard_is_run_again_as_it_was() {
    let bench = Bench::with_shards(2);
    let grow = ["rebalance", "--shards", "3", "--yes", "--add-url"];
    let grow = |url| [&grow[..], &[url]].concat();
    // What it does first.
    bench.ok(&["shard", "add", "sqlite:disk3/c.db"]);
    bench
        .run(&grow("sqlite:elsewhere.db"))
        .refused(2, &["there is none of those", "1 is given"]);
    bench
        .run(&[&grow("sqlite:e.db")[..], &["--add-url", "sqlite:e.db"]].concat())
        .refused(2, &["`sqlite:e.db` twice"]);
    assert!(!bench.path("e.db").exists());
    bench.ok(&grow("sqlite:disk3/c.db"));
    assert_eq!(bench.json(&["status"])["epoch"], 2);

    // And once more, while buckets migrate. A url that nothing would become of is not taken.
    bench.ok(&grow("sqlite:disk3/c.db"));
    bench.run(&grow("sqlite:elsewhere.db")).refused(
        3,
        &["1 url of --add-url is not named", "no further shard joins"],
    );
    assert!(!bench.path("elsewhere.db").exists());
    bench.ok(&["drain", "--live", "--until-settled"]);
    // Nor does it matter how long ago that was.
    let again = bench.ok(&grow("sqlite:disk3/c.db"));
    assert!(again.contains("nothing to do"), "{again}");
}

#[test]
fn a_deployment_is_never_overwritten() {
    let bench = Bench::with_shards(2);
    bench.run_with_stdin(&["import", "-"], generated(20).as_bytes());
    let (text, before) = (bench.read("loom.toml"), bench.ok(&["export"]));
    for shards in ["2", "5"] {
        bench
            .run(&["init", "--shards", shards])
            .refused(3, &["will not be overwritten"]);
    }
    assert_eq!(bench.read("loom.toml"), text);
    assert_eq!(bench.ok(&["export"]), before);
    // Without its file the shards are still there, and are nobody else's.
    fs::remove_file(bench.path("loom.toml")).unwrap();
    bench
        .run(&["init", "--shards", "2"])
        .refused(3, &["shard-0.db", "is there already and is not this shard"]);
    fs::remove_file(bench.path(".loom.toml.draft")).unwrap();
    bench.write("loom.toml", text);
    assert_eq!(bench.ok(&["export"]), before);
}

/// Stages of an interrupted `init`: each is what its predecessor left, and is taken up.
#[test]
fn an_interrupted_init_is_completed_by_running_it_again() {
    let whole = Bench::with_shards(3);
    let draft = whole.read("loom.toml");
    for shards_created in 0..=3 {
        let bench = Bench::new();
        bench.write(".loom.toml.draft", &draft);
        for shard in 0..shards_created {
            let name = format!("shard-{shard}.db");
            fs::copy(whole.path(&name), bench.path(&name)).unwrap();
        }
        bench
            .run(&["init", "--shards", "4"])
            .refused(3, &["interrupted", "same arguments"]);
        bench.ok(&["init", "--shards", "3"]);
        assert_eq!(
            bench.read("loom.toml"),
            draft,
            "under the same deployment id"
        );
        assert!(!bench.path(".loom.toml.draft").exists());
        assert_eq!(bench.json(&["status"])["shards"], 3);
    }
}

#[test]
fn two_inits_at_once_make_one_deployment() {
    let bench = Bench::new();
    let start = || bench.command(&["init", "--shards", "3"]).spawn().unwrap();
    let (one, other) = (start(), start());
    let mut codes = [finish(one).code, finish(other).code];
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(3)], "the other leaves it alone");
    assert!(!bench.path(".loom.toml.draft").exists());
    assert_eq!(bench.json(&["status"])["shards"], 3);
}

#[test]
fn a_missing_shard_is_unreachable_and_named() {
    let bench = Bench::with_shards(3);
    fs::remove_file(bench.path("shard-1.db")).unwrap();
    bench
        .run(&["status"])
        .refused(4, &["shard 1", "shard-1.db", "there is no file"]);
    bench.run(&["import", "-"]).refused(4, &["shard-1.db"]);
    assert!(
        !bench.path("shard-1.db").exists(),
        "an empty one is not made in its place"
    );
}

#[test]
fn a_locked_shard_is_unreachable_and_named() {
    let bench = Bench::with_shards(2);
    bench.limit("busy_timeout_ms = 50");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(bench.path("shard-1.db"))
        .unwrap();
    // As another process would that uses the file by itself.
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    bench
        .run(&["status"])
        .refused(4, &["shard 1", "shard-1.db", "locked by another process"]);
    drop(file);
    bench.ok(&["status"]);
}

#[test]
fn swapped_and_foreign_shards_are_refused() {
    let bench = Bench::with_shards(2);
    let text = bench.read("loom.toml");
    let swapped = text
        .replace("shard-0", "shard-x")
        .replace("shard-1", "shard-0")
        .replace("shard-x", "shard-1");
    bench.write("loom.toml", &swapped);
    bench
        .run(&["status"])
        .refused(3, &["says that it is shard", "swapped"]);
    bench.write("loom.toml", &text);

    let other = Bench::with_shards(2);
    fs::copy(other.path("shard-1.db"), bench.path("shard-1.db")).unwrap();
    bench
        .run(&["status"])
        .refused(3, &["shard 1 of deployment"]);
    bench.write("shard-1.db", "this is no database, but a text of more than one hundred bytes, which SQLite would otherwise take for a file that is still empty");
    bench
        .run(&["status"])
        .refused(1, &["shard-1.db", "not a SQLite database"]);
}
