//! Graphs whose nodes are jobs of Google Cloud Run: a server on the loopback speaks the part of the Admin API that is used,
//! and each of its jobs is a process.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_auth::credentials::anonymous;
use google_cloud_run_v2::client::{Executions, Jobs};
use google_cloud_run_v2::model::{Container, TaskTemplate};
use loom_graph_executor::{GraphNode, GraphOptions, NodeOutcome, execute_graph};
use loom_spi::{DispatchRequest, EventStore, ExecutionDispatcher, ExecutionId, ExecutionOutcome};
use loom_worker::{CloudRun, InstanceOptions, InstanceWorkerRuntime};

use crate::admin_api::{AdminApi, Answer};
use crate::world::World;

type Runtime = InstanceWorkerRuntime<CloudRun>;

/// A server, and a runtime that calls it.
async fn runtime(
    world: &World,
    answers: &[Answer],
    options: InstanceOptions,
) -> (AdminApi, Runtime) {
    let api = AdminApi::start(world.path(), answers).await;
    let credentials = || anonymous::Builder::new().build();
    let jobs = Jobs::builder().with_endpoint(api.url());
    let jobs = jobs.with_credentials(credentials()).build().await.unwrap();
    let executions = Executions::builder().with_endpoint(api.url());
    let executions = executions.with_credentials(credentials()).build().await;
    let template = TaskTemplate::new().set_containers([Container::new().set_image("worker:3")]);
    let platform =
        CloudRun::with_clients(jobs, executions.unwrap(), "acme", "europe-west1", template);
    let store: Arc<dyn EventStore> = Arc::<loom_store_sqlite::SqliteStore>::clone(&world.store);
    (api, InstanceWorkerRuntime::new(store, platform, options))
}

fn options() -> InstanceOptions {
    InstanceOptions::default()
        .with_observe(Duration::from_millis(50))
        .with_backoff(Duration::from_millis(10))
        .with_deadline(Duration::from_secs(60))
}

fn request(id: &str, flow: &str) -> DispatchRequest {
    DispatchRequest::new(ExecutionId::new(id).unwrap(), flow).with_input("7")
}

fn completed(output: &str) -> ExecutionOutcome {
    ExecutionOutcome::Completed {
        output: output.to_owned().into(),
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn the_incident_runs_as_three_jobs_at_once_with_no_change_but_the_dispatcher() {
    let world = World::new();
    block_on(async {
        let (api, runtime) = runtime(&world, &[], options()).await;
        let nodes = ["metrics", "logs", "queries"].map(|key| GraphNode::new(key, "meet"));
        let parent = ExecutionId::new("incident-42").unwrap();
        let registry = world.store.capabilities().branches.unwrap();
        let graph = execute_graph(
            &runtime,
            registry,
            nodes.to_vec(),
            GraphOptions::new(parent),
        );
        let mut processes = Vec::new();
        for node in graph.await.unwrap().nodes {
            let NodeOutcome::Completed { output } = node.outcome else {
                panic!("`{}` {}", node.key, node.outcome);
            };
            processes.push(output);
        }
        processes.sort();
        processes.dedup();
        assert_eq!(processes.len(), 3, "three processes, which met");
        assert_eq!(api.created(), 3);
        api.until_deleted(3).await;
    });
    assert_eq!(world.children("incident-42").len(), 3);
    assert!(world.effects().values().all(|count| *count == 1));
}

#[test]
fn e17_a_503_after_the_job_was_created_and_a_429_before_it_lead_to_one_execution() {
    let world = World::new();
    block_on(async {
        let answers = [
            Answer::TooMany,
            Answer::Unavailable,
            Answer::UnavailableAfterAccept,
        ];
        let (api, runtime) = runtime(&world, &answers, options()).await;
        let outcome = runtime.dispatch(request("order-7", "echo")).await.unwrap();
        assert_eq!(outcome, completed("7"));
        assert_eq!(api.created(), 1);
    });
}

#[test]
fn e18_a_job_of_the_name_that_is_somebody_elses_is_refused() {
    let world = World::new();
    block_on(async {
        let (api, runtime) = runtime(&world, &[Answer::Taken], options()).await;
        let error = runtime
            .dispatch(request("order-7", "echo"))
            .await
            .unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("is somebody else's"), "{source}");
        // Under the next name.
        let outcome = runtime.dispatch(request("order-7", "echo")).await.unwrap();
        assert_eq!(outcome, completed("7"));
        assert_eq!(api.created(), 2);
    });
}

#[test]
fn e19_a_job_that_succeeded_failed_or_was_cancelled_without_recording_an_end_is_no_success() {
    for status in [
        "EXECUTION_SUCCEEDED",
        "EXECUTION_FAILED",
        "EXECUTION_CANCELLED",
    ] {
        let world = World::new();
        block_on(async {
            let (api, runtime) = runtime(&world, &[Answer::EndsAs(status)], options()).await;
            let error = runtime
                .dispatch(request("order-7", "echo"))
                .await
                .unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(status), "{source}");
            let outcome = runtime.dispatch(request("order-7", "echo")).await.unwrap();
            assert_eq!(outcome, completed("7"), "dispatched again, it runs");
            assert_eq!(api.created(), 2);
        });
    }
}

#[test]
fn e21_a_job_that_starts_after_its_watcher_gave_up_is_fenced_out() {
    let world = World::new();
    let options = options().with_deadline(Duration::from_millis(300));
    block_on(async {
        let (api, runtime) = runtime(&world, &[Answer::Slow], options).await;
        let error = runtime
            .dispatch(request("order-7", "part"))
            .await
            .unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("recorded no outcome within"), "{source}");
        let status = api.start_slow().await;
        assert!(!status.success(), "it is told, and ends");
    });
    assert!(world.effects().is_empty());
    assert_eq!(world.recorded("order-7").events, 1);
}

#[test]
fn a_call_that_is_refused_for_good_is_not_made_again() {
    let world = World::new();
    block_on(async {
        let (api, runtime) = runtime(&world, &[Answer::Forbidden], options()).await;
        let error = runtime
            .dispatch(request("order-7", "echo"))
            .await
            .unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("403"), "{source}");
        assert_eq!(api.creates(), 1);
    });
}
