//! An execution has two logs that differ: it is found, shown, and decided, and nothing is lost.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use loom_shard_plan::ShardPlan;
use loom_spi::{
    AcquireFence, Append, BranchRegistry as _, EventStore as _, ExecutionId, FenceToken,
    Fencing as _, Inspect, NewEvent, PlanLedger as _, RecordLineage, RecordSummary,
    Relocation as _, Seal, Timestamp,
};
use loom_store_sqlite::{Options, SqliteStore};
use serde_json::Value;
use support::{Bench, generated};

fn plan(bench: &Bench) -> ShardPlan {
    bench.ok(&["plan", "show"]).parse().unwrap()
}

/// Does something to a shard behind everybody's back.
fn on_shard<T>(bench: &Bench, shard: u16, what: impl AsyncFnOnce(&SqliteStore) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let file = bench.path(format!("shard-{shard}.db"));
        let store = SqliteStore::open(file, Options::new()).await.unwrap();
        let done = what(&store).await;
        store.close().await.unwrap();
        done
    })
}

/// Events of these kinds, always the same.
fn events(kinds: &[&str]) -> Vec<NewEvent> {
    let events = (0..).zip(kinds).map(|(at, kind)| {
        let event = NewEvent::new(*kind, format!("{{\"n\": {at}}}"));
        event.recorded_at(Timestamp::from_millis(at))
    });
    events.collect()
}

fn write(bench: &Bench, shard: u16, id: &str, kinds: &[&str]) {
    on_shard(bench, shard, async |store| {
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let id = ExecutionId::new(id).unwrap();
        let append = Append::new(id, 0, events(kinds)).with_epoch(epoch);
        store.append(append).await.unwrap();
    });
}

fn inspect(bench: &Bench, shard: u16, id: &str) -> Option<RecordSummary> {
    on_shard(bench, shard, async |store| {
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let inspect = Inspect::new(ExecutionId::new(id).unwrap()).with_epoch(epoch);
        store.inspect(inspect).await.unwrap()
    })
}

/// The events of a log as the command shows them, with everything that they are.
fn log(bench: &Bench, args: &[&str]) -> Value {
    bench.json(&[&["log"][..], args].concat())["events"].clone()
}

/// Two shards of which one is leaving for a third; and an execution that is on the old one and the new one.
struct Disputed {
    bench: Bench,
    id: String,
    source: u16,
}

impl Disputed {
    fn new() -> Self {
        let bench = Bench::with_shards(2);
        let ran = bench.run_with_stdin(&["import", "-"], generated(40).as_bytes());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        bench.ok(&["rebalance", "--shards", "3", "--yes"]);
        let plan = plan(&bench);
        // No execution that exists, so that its log is known.
        let mut ids = (0..).map(|n| format!("disputed-{n}"));
        let id = ids.find(|id| plan.route_id(id).is_migrating()).unwrap();
        let source = plan.route_id(&id).source().unwrap().get();
        write(&bench, source, &id, &["placed", "paid", "sent"]);
        write(&bench, 2, &id, &["placed", "refused"]);
        Self { bench, id, source }
    }

    fn findings(&self) -> Vec<Value> {
        let ran = self.bench.run(&["audit", "--json"]);
        let audit: Value = serde_json::from_str(&ran.stdout).unwrap();
        let findings = audit["findings"].as_array().unwrap().clone();
        assert_eq!(ran.code, Some(i32::from(!findings.is_empty())));
        findings
    }
}

#[test]
fn two_logs_that_differ_are_found_with_the_place_and_what_to_do() {
    let disputed = Disputed::new();
    let Disputed { bench, id, source } = &disputed;
    let finding = &disputed.findings()[0];
    assert_eq!(finding["kind"], "two_logs");
    assert_eq!(
        (&finding["execution"], &finding["shard"], &finding["served"]),
        (&id.as_str().into(), &(*source).into(), &2.into())
    );
    assert_eq!(finding["differs_at"], 1);
    let audit = bench.run(&["audit"]);
    assert_eq!(audit.code, Some(1));
    for text in [
        format!(
            "`{id}` on shard {source}: it is another log than the one on shard 2, which is served"
        ),
        "they differ from event 1 on".to_owned(),
        format!("loom log {id} --shard {source}"),
        "loom resolve".to_owned(),
    ] {
        assert!(audit.stdout.contains(&text), "{text} in\n{}", audit.stdout);
    }
    // Moved over by nobody, and in the way of its own bucket only.
    let drained = bench.json(&["drain", "--live"]);
    assert_eq!(
        (&drained["remaining"], &drained["migrating"]),
        (&1.into(), &1.into())
    );
    assert_eq!(drained["stuck"][0]["execution"], id.as_str());
    assert_eq!(log(bench, &[id]), log(bench, &[id, "--shard", "2"]));
    let there = log(bench, &[id, "--shard", &source.to_string()]);
    assert_eq!(there.as_array().unwrap().len(), 3);
    let elsewhere = (1 - source).to_string();
    bench
        .run(&["log", id, "--shard", &elsewhere])
        .refused(1, &["has no log of", "shows the one that counts"]);
    bench
        .run(&["log", id, "--shard", "7"])
        .refused(2, &["there is no shard 7: expected one of 0, 1, 2"]);
}

#[test]
fn the_one_that_was_chosen_stays_and_the_other_one_becomes_an_execution_of_its_own() {
    for keep_source in [false, true] {
        let disputed = Disputed::new();
        let Disputed { bench, id, source } = &disputed;
        let (kept, other) = if keep_source {
            (*source, 2)
        } else {
            (2, *source)
        };
        let [kept_log, other_log] =
            [kept, other].map(|shard| log(bench, &[id, "--shard", &shard.to_string()]));
        let keep = kept.to_string();
        let resolve = ["resolve", id, "--keep", &keep, "--other-as", "aside"];
        let dry = bench.json(&[&resolve[..], &["--dry-run"]].concat());
        assert_eq!(dry["resolved"], false);
        bench.run(&resolve).refused(3, &["no terminal", "--yes"]);
        assert_eq!(disputed.findings().len(), 1);

        let done = bench.json(&[&resolve[..], &["--yes"]].concat());
        assert_eq!(done["resolved"], true);
        assert_eq!(
            (
                &done["kept"],
                &done["removed"],
                &done["events"],
                &done["differs_at"]
            ),
            (
                &kept.into(),
                &other.into(),
                &other_log.as_array().unwrap().len().into(),
                &1.into()
            )
        );
        assert_eq!(disputed.findings(), [] as [Value; 0]);
        assert_eq!(log(bench, &[id]), kept_log);
        assert_eq!(log(bench, &["aside"]), other_log);
        bench
            .run(&[&resolve[..], &["--yes"]].concat())
            .refused(3, &["there is nothing to decide", "alone"]);
        bench.ok(&["drain", "--live", "--until-settled"]);
        assert_eq!(bench.audited().0, 42);
        assert_eq!(log(bench, &[id]), kept_log);
    }
}

#[test]
fn the_fence_and_the_branches_of_the_log_that_goes_are_taken_over() {
    let Disputed { bench, id, source } = &Disputed::new();
    on_shard(bench, 2, async |store| {
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let id = ExecutionId::new(id.as_str()).unwrap();
        let fence = AcquireFence::new(id.clone()).with_floor(FenceToken(7));
        store.acquire_fence(fence.with_epoch(epoch)).await.unwrap();
        let child = ExecutionId::new("child").unwrap();
        let edge = RecordLineage::new(id, child, "label".to_owned());
        store.record_lineage(edge.with_epoch(epoch)).await.unwrap();
    });
    let keep = source.to_string();
    let resolve = [
        "resolve",
        id,
        "--keep",
        &keep,
        "--other-as",
        "aside",
        "--yes",
    ];
    bench.ok(&resolve);
    assert_eq!(inspect(bench, 2, id), None);
    let record = inspect(bench, *source, id).unwrap();
    assert_eq!((record.fence, record.branches), (Some(FenceToken(7)), 1));
    assert_eq!(record.head.unwrap().next_sequence, 3);
}

#[test]
fn a_decision_that_was_interrupted_goes_on() {
    let disputed = Disputed::new();
    let Disputed { bench, id, source } = &disputed;
    // It was killed when it had sealed the one that goes and written a part of it down.
    on_shard(bench, *source, async |store| {
        let epoch = store.current().await.unwrap().map(|plan| plan.epoch);
        let seal = Seal::new(ExecutionId::new(id.as_str()).unwrap());
        store.seal(seal.with_epoch(epoch)).await.unwrap();
    });
    let on = plan(bench).route_id("aside").destination().get();
    write(bench, on, "aside", &["placed", "paid"]);
    let expected = log(bench, &[id, "--shard", &source.to_string()]);
    assert_eq!(disputed.findings()[0]["kind"], "two_logs");
    bench.ok(&["resolve", id, "--keep", "2", "--other-as", "aside", "--yes"]);
    assert_eq!(log(bench, &["aside"]), expected);
    assert_eq!(disputed.findings(), [] as [Value; 0]);
}

#[test]
fn nothing_is_decided_where_nothing_differs_or_what_is_asked_for_would_lose_something() {
    let disputed = Disputed::new();
    let Disputed { bench, id, source } = &disputed;
    let keep = |id: &str, shard: &str, other_as: &str| {
        bench.run(&[
            "resolve",
            id,
            "--keep",
            shard,
            "--other-as",
            other_as,
            "--yes",
        ])
    };
    keep(id, "7", "aside").refused(
        2,
        &[&format!(
            "--keep 7: expected one of the shards that `{id}` is on, {source} and 2"
        )],
    );
    keep(id, "2", id).refused(2, &["expected an id that no execution has"]);
    keep(id, "2", "case-1").refused(3, &["there is an execution `case-1` already"]);
    keep("none", "2", "aside").refused(1, &["there is no execution `none`"]);
    keep("case-1", "2", "aside").refused(3, &["there is nothing to decide", "alone"]);
    assert_eq!(disputed.findings().len(), 1);
    // A second copy that has nothing of its own is no matter of choice.
    let bench = Bench::with_shards(3);
    let on = plan(&bench).route_id("copied").destination().get();
    let stray = (on + 1) % 3;
    write(&bench, on, "copied", &["placed", "paid"]);
    write(&bench, stray, "copied", &["placed"]);
    let on = on.to_string();
    let args = [
        "resolve",
        "copied",
        "--keep",
        &on,
        "--other-as",
        "aside",
        "--yes",
    ];
    let repair = format!("loom repair {stray}");
    bench.run(&args).refused(3, &["nothing to decide", &repair]);
    bench.ok(&["repair", &stray.to_string(), "--yes"]);
    assert_eq!(bench.audited(), (1, 2));
    // It cannot stay where the plan does not permit it.
    write(&bench, stray, "copied", &["another"]);
    let args = [
        "resolve",
        "copied",
        "--keep",
        &stray.to_string(),
        "--other-as",
        "aside",
        "--yes",
    ];
    bench.run(&args).refused(
        3,
        &["does not permit", &format!("keep the one on shard {on}")],
    );
    let args = [
        "resolve",
        "copied",
        "--keep",
        &on,
        "--other-as",
        "aside",
        "--yes",
    ];
    bench.ok(&args);
    assert_eq!(bench.audited(), (2, 3));
}
