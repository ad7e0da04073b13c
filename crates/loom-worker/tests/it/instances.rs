//! A runtime of instances, on a platform that fails in every way in which platforms fail.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use loom_spi::{
    CancelRequest, DispatchError, DispatchRequest, EventStore, ExecutionDispatcher,
    ExecutionOutcome, FailureKind, Upstream,
};
use loom_store_memory::MemoryStore;
use loom_worker::{InstanceOptions, InstanceWorkerRuntime};

use crate::platform::{Boot, TestPlatform};
use crate::support::{completed, id, kinds, request};

const MINUTE: Duration = Duration::from_secs(60);

type Runtime = InstanceWorkerRuntime<TestPlatform>;

fn runtime_over(store: &Arc<MemoryStore>, boots: &[Boot], options: InstanceOptions) -> Runtime {
    let store: Arc<dyn EventStore> = Arc::<MemoryStore>::clone(store);
    let platform = TestPlatform::new(Arc::clone(&store), boots);
    InstanceWorkerRuntime::new(store, platform, options)
}

fn runtime(boots: &[Boot]) -> (Arc<MemoryStore>, Runtime) {
    let store = Arc::new(MemoryStore::new());
    let options = InstanceOptions::default().with_deadline(MINUTE);
    let runtime = runtime_over(&store, boots, options);
    (store, runtime)
}

/// The error, with its causes.
fn told(error: &DispatchError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

const WHOLE: [&str; 3] = ["loom.started", "loom.effect", "loom.completed"];

#[tokio::test(start_paused = true)]
async fn each_execution_runs_on_an_instance_of_its_own_and_its_outcome_is_what_the_log_says() {
    let (store, runtime) = runtime(&[]);
    let outcomes = join_all(
        ["a", "b", "c"].map(|name| runtime.dispatch(DispatchRequest::new(id(name), "count"))),
    );
    for outcome in outcomes.await {
        assert_eq!(outcome.unwrap(), completed("1"));
    }
    assert_eq!(runtime.platform().instances(), 3);
    let panics = runtime.dispatch(request("panic")).await.unwrap();
    assert!(
        matches!(&panics, ExecutionOutcome::Failed(failure) if failure.kind == FailureKind::Panicked),
        "{panics:?}"
    );
    // What has ended is not booted again.
    let again = runtime
        .dispatch(DispatchRequest::new(id("a"), "count"))
        .await;
    assert_eq!(again.unwrap(), completed("1"));
    assert_eq!(runtime.platform().boot_calls(), 4);
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.failed"]);
}

#[tokio::test(start_paused = true)]
async fn an_instance_reads_the_outputs_that_it_builds_on_from_their_logs() {
    let (_, runtime) = runtime(&[]);
    for name in ["a", "b"] {
        let made = runtime
            .dispatch(DispatchRequest::new(id(name), "count"))
            .await;
        assert_eq!(made.unwrap(), completed("1"));
    }
    let upstream = |name: &str| Upstream::new(name, "1").with_execution(id(name));
    let sum = request("sum").with_upstream(vec![upstream("a"), upstream("b")]);
    assert_eq!(runtime.dispatch(sum).await.unwrap(), completed("2"));
}

#[tokio::test(start_paused = true)]
async fn e11_concurrent_dispatches_of_one_id_are_one_instance() {
    let (_, runtime) = runtime(&[]);
    let outcomes = join_all((0..8).map(|_| runtime.dispatch(request("count")))).await;
    for outcome in outcomes {
        assert_eq!(outcome.unwrap(), completed("1"));
    }
    assert_eq!(runtime.platform().boot_calls(), 1);
    assert_eq!(runtime.platform().effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn e17_a_boot_that_is_answered_with_503_after_it_was_accepted_is_one_execution() {
    let (store, runtime) = runtime(&[Boot::LostAnswer]);
    assert_eq!(
        runtime.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
    let platform = runtime.platform();
    assert_eq!((platform.boot_calls(), platform.instances()), (1, 1));
    assert_eq!(platform.effects.count(), 1);
    assert_eq!(kinds(&*store).await, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn e17_a_boot_that_got_lost_on_its_way_is_made_again_under_the_same_name() {
    let (store, runtime) = runtime(&[Boot::LostRequest, Boot::LostRequest]);
    assert_eq!(
        runtime.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
    let platform = runtime.platform();
    assert_eq!((platform.boot_calls(), platform.instances()), (3, 1));
    assert_eq!(kinds(&*store).await, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn e17_if_the_look_up_fails_too_there_is_an_error_and_no_second_boot() {
    for boot in [Boot::LostAnswer, Boot::LostRequest] {
        let (store, runtime) = runtime(&[boot]);
        runtime.platform().fail_looks(1);
        let error = runtime.dispatch(request("wait")).await.unwrap_err();
        let text = told(&error);
        assert!(text.contains("may have been booted"), "{text}");
        assert!(
            text.contains("503") && text.contains("500 try later"),
            "{text}"
        );
        assert_eq!(runtime.platform().boot_calls(), 1);
        assert_eq!(kinds(&*store).await, ["loom.started"]);
    }
}

#[tokio::test(start_paused = true)]
async fn e18_an_instance_of_the_name_that_is_somebody_elses_is_an_error() {
    let (store, runtime) = runtime(&[Boot::Taken]);
    let error = runtime.dispatch(request("count")).await.unwrap_err();
    let text = told(&error);
    assert!(text.contains("is somebody else's"), "{text}");
    assert_eq!(runtime.platform().boot_calls(), 1);
    // It can be dispatched again: under another name.
    assert_eq!(
        runtime.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
    assert_eq!(kinds(&*store).await, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn e18_an_instance_of_the_name_that_is_ours_is_adopted() {
    // The answer to the first boot and the first look say nothing, and the second boot meets it.
    let (store, runtime) = runtime(&[Boot::LostRequest, Boot::LostAnswer]);
    assert_eq!(
        runtime.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
    assert_eq!(runtime.platform().instances(), 1);
    assert_eq!(kinds(&*store).await, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn e19_an_instance_that_is_done_or_cancelled_without_a_terminal_event_is_no_success() {
    for said in ["done", "cancelled"] {
        let (store, runtime) = runtime(&[Boot::EndsAs(said)]);
        let error = runtime.dispatch(request("count")).await.unwrap_err();
        let text = told(&error);
        assert!(text.contains("recorded no outcome"), "{text}");
        assert!(text.contains(said), "{text}");
        assert_eq!(kinds(&*store).await, ["loom.started"]);
        // Nobody has to wait for the lease of the lost one.
        assert_eq!(
            runtime.dispatch(request("count")).await.unwrap(),
            completed("1")
        );
        assert_eq!(runtime.platform().instances(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn e20_looks_at_the_platform_that_fail_do_not_end_anything() {
    let (_, runtime) = runtime(&[Boot::Slow]);
    runtime.platform().fail_looks(40);
    let go = async {
        // Many failing looks later it begins.
        tokio::time::sleep(Duration::from_secs(20)).await;
        runtime.platform().go.notify_one();
    };
    let (outcome, ()) = tokio::join!(runtime.dispatch(request("count")), go);
    assert_eq!(outcome.unwrap(), completed("1"));
}

#[tokio::test(start_paused = true)]
async fn e20_only_the_deadline_ends_an_execution_whose_platform_does_not_answer() {
    let (store, runtime) = runtime(&[Boot::Runs]);
    runtime.platform().fail_looks(usize::MAX);
    let begun = tokio::time::Instant::now();
    let error = runtime.dispatch(request("wait")).await.unwrap_err();
    assert!(begun.elapsed() >= MINUTE);
    let text = told(&error);
    assert!(text.contains("recorded no outcome within 60 s"), "{text}");
    assert_eq!(runtime.platform().stops(), 1);
    assert_eq!(kinds(&*store).await, ["loom.started"]);
}

#[tokio::test(start_paused = true)]
async fn e21_an_instance_that_boots_after_its_watcher_gave_up_is_fenced_out_and_has_no_effect() {
    let (store, runtime) = runtime(&[Boot::Slow]);
    runtime.platform().fail_looks(usize::MAX);
    // So does the stop.
    runtime.platform().lose_stops();
    let error = runtime.dispatch(request("count")).await.unwrap_err();
    assert!(
        told(&error).contains("recorded no outcome within"),
        "{error:?}"
    );
    let platform = runtime.platform();
    platform.go.notify_one();
    let ended = loop {
        if let Some(ended) = platform.late.lock().unwrap().pop() {
            break ended;
        }
        tokio::task::yield_now().await;
    };
    assert!(
        matches!(ended, Err(DispatchError::TakenOver { .. })),
        "{ended:?}"
    );
    assert_eq!(platform.effects.count(), 0);
    assert_eq!(kinds(&*store).await, ["loom.started"]);
}

#[tokio::test(start_paused = true)]
async fn e22_two_hundred_branches_share_ten_calls_a_minute_and_each_runs_once() {
    let store = Arc::new(MemoryStore::new());
    let options = InstanceOptions::remote()
        .with_quota(10, MINUTE)
        .with_deadline(MINUTE * 60);
    let runtime = runtime_over(&store, &[], options);
    let begun = tokio::time::Instant::now();
    let branches = (0..200).map(|branch| {
        let name = format!("branch-{branch}");
        runtime.dispatch(DispatchRequest::new(id(&name), "count"))
    });
    for outcome in join_all(branches).await {
        assert_eq!(outcome.unwrap(), completed("1"));
    }
    let platform = runtime.platform();
    assert_eq!(
        (platform.boot_calls(), platform.effects.count()),
        (200, 200)
    );
    // Boots go before everything else, so that the last one is not kept waiting by looks.
    assert!(begun.elapsed() < MINUTE * 21, "{:?}", begun.elapsed());
    let calls = platform.calls();
    for window in calls.windows(11) {
        assert!(window[10] - window[0] >= MINUTE, "{window:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_platform_without_room_is_asked_again_when_it_says_so() {
    let wait = Duration::from_secs(17);
    let (_, runtime) = runtime(&[
        Boot::TooMany(None),
        Boot::TooMany(Some(wait)),
        Boot::TooMany(None),
    ]);
    let begun = tokio::time::Instant::now();
    assert_eq!(
        runtime.dispatch(request("count")).await.unwrap(),
        completed("1")
    );
    assert!(begun.elapsed() >= wait);
    assert_eq!(runtime.platform().boot_calls(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_boot_that_is_refused_is_an_error_at_once() {
    let (_, runtime) = runtime(&[Boot::Refused]);
    let error = runtime.dispatch(request("count")).await.unwrap_err();
    assert!(told(&error).contains("403 forbidden"), "{}", told(&error));
    assert_eq!(runtime.platform().boot_calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_the_instance_and_records_it() {
    let (store, runtime) = runtime(&[]);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cancel = CancelRequest::new(id("order-7"), "too late");
        runtime.cancel(cancel).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(runtime.dispatch(request("wait")), cancel);
    let cancelled = ExecutionOutcome::Cancelled {
        reason: "too late".into(),
    };
    assert_eq!(outcome.unwrap(), cancelled);
    assert_eq!(runtime.platform().stops(), 1);
    assert_eq!(kinds(&*store).await, ["loom.started", "loom.cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn a_second_dispatcher_joins_an_instance_that_the_first_one_booted() {
    let (store, first) = runtime(&[Boot::Slow]);
    let second = runtime_over(&store, &[], InstanceOptions::default());
    let go = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        first.platform().go.notify_one();
    };
    let (one, two, ()) = tokio::join!(
        first.dispatch(request("count")),
        second.dispatch(request("count")),
        go
    );
    assert_eq!(one.unwrap(), completed("1"));
    assert_eq!(two.unwrap(), completed("1"));
    assert_eq!(second.platform().boot_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_is_shut_down_stops_its_instances_and_leaves_the_executions_open() {
    let (store, runtime) = runtime(&[]);
    let shut_down = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        runtime.shut_down().await;
    };
    let (result, ()) = tokio::join!(runtime.dispatch(request("wait")), shut_down);
    assert!(matches!(result, Err(DispatchError::Runtime { .. })));
    assert_eq!(runtime.platform().stops(), 1);
    assert_eq!(kinds(&*store).await, ["loom.started"]);
}
