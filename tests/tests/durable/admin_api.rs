//! A server that speaks the part of the Cloud Run Admin API that is used. Its jobs are processes of this machine.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

const JOBS: &str = "/v2/projects/acme/locations/europe-west1/jobs";

/// How a request to create a job is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    TooMany,
    /// 503, and nothing was done.
    Unavailable,
    /// 503, and the job was created and runs.
    UnavailableAfterAccept,
    Forbidden,
    /// Somebody else has a job of that name.
    Taken,
    /// It is created, and ends like this without having done anything.
    EndsAs(&'static str),
    /// It is created, and starts when the test says so.
    Slow,
}

struct Job {
    labels: Value,
    env: Vec<(String, String)>,
    status: Option<&'static str>,
    child: Option<Child>,
}

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    jobs: HashMap<String, Job>,
    creates: usize,
    created: usize,
    deleted: usize,
}

#[derive(Clone)]
pub(crate) struct AdminApi {
    url: String,
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

impl AdminApi {
    pub(crate) async fn start(folder: &Path, answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let state = State {
            answers: answers.iter().copied().collect(),
            ..State::default()
        };
        let api = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            folder: folder.to_owned(),
            state: Arc::new(Mutex::new(state)),
        };
        let served = api.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let api = served.clone();
                let service = service_fn(move |request| {
                    let api = api.clone();
                    async move { Ok::<_, Infallible>(api.answer(request).await) }
                });
                tokio::spawn(async move {
                    // A client that goes away is no fault.
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        api
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// How many requests to create a job there were.
    pub(crate) fn creates(&self) -> usize {
        self.state().creates
    }

    /// How many jobs were created.
    pub(crate) fn created(&self) -> usize {
        self.state().created
    }

    pub(crate) async fn until_deleted(&self, jobs: usize) {
        while self.state().deleted < jobs {
            tokio::task::yield_now().await;
        }
    }

    /// Starts the job that is slow, whatever became of it, and waits until it has ended.
    pub(crate) async fn start_slow(&self) -> ExitStatus {
        let mut child = {
            let mut state = self.state();
            let job = state.jobs.values_mut().next().unwrap();
            self.spawn(&job.env)
        };
        child.wait().await.unwrap()
    }

    fn spawn(&self, env: &[(String, String)]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_loom-durable-node"))
            .arg("instance")
            .arg(&self.folder)
            .envs(env.iter().cloned())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = parts.uri.path().to_owned();
        let (status, answer) = match (parts.method, path.strip_prefix(JOBS)) {
            (Method::POST, Some("")) => {
                let query = parts.uri.query().unwrap_or_default();
                let name = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("jobId="));
                let job = serde_json::from_slice(&body).unwrap();
                self.create(name.unwrap(), &job)
            }
            (Method::POST, Some(execution)) if execution.ends_with(":cancel") => {
                let name = execution.trim_start_matches('/').split('/').next().unwrap();
                self.cancel(name)
            }
            (Method::GET, Some(name)) => self.get(name.trim_start_matches('/')),
            (Method::DELETE, Some(name)) => self.delete(name.trim_start_matches('/')),
            (method, _) => error(400, "INVALID_ARGUMENT", &format!("{method} {path}")),
        };
        let body = Full::new(Bytes::from(answer.to_string()));
        Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(body)
            .unwrap()
    }

    fn create(&self, name: &str, job: &Value) -> (u16, Value) {
        let mut state = self.state();
        state.creates += 1;
        if state.jobs.contains_key(name) {
            return error(409, "ALREADY_EXISTS", "there is such a job");
        }
        assert_eq!(job["startExecutionToken"], "run");
        let task = &job["template"]["template"];
        assert_eq!(task["maxRetries"], 0);
        assert_eq!(task["containers"][0]["image"], "worker:3");
        let env = task["containers"][0]["env"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let env: Vec<_> = env
            .map(|variable| (text(&variable["name"]), text(&variable["value"])))
            .collect();
        let answer = state.answers.pop_front();
        let mut created = Job {
            labels: job["labels"].clone(),
            env,
            status: None,
            child: None,
        };
        match answer {
            Some(Answer::TooMany) => return error(429, "RESOURCE_EXHAUSTED", "quota"),
            Some(Answer::Unavailable) => return error(503, "UNAVAILABLE", "try later"),
            Some(Answer::Forbidden) => return error(403, "PERMISSION_DENIED", "not yours"),
            Some(Answer::Taken) => created.labels = json!({ "owner": "somebody" }),
            Some(Answer::EndsAs(status)) => created.status = Some(status),
            Some(Answer::Slow) => {}
            None | Some(Answer::UnavailableAfterAccept) => {
                created.child = Some(self.spawn(&created.env));
            }
        }
        state.jobs.insert(name.to_owned(), created);
        state.created += 1;
        match answer {
            Some(Answer::Taken) => error(409, "ALREADY_EXISTS", "there is such a job"),
            Some(Answer::UnavailableAfterAccept) => error(503, "UNAVAILABLE", "try later"),
            _ => (200, operation()),
        }
    }

    fn get(&self, name: &str) -> (u16, Value) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(name) else {
            return error(404, "NOT_FOUND", "no such job");
        };
        if let Some(child) = &mut job.child
            && let Some(ended) = child.try_wait().unwrap()
        {
            job.status = Some(if ended.success() {
                "EXECUTION_SUCCEEDED"
            } else {
                "EXECUTION_FAILED"
            });
        }
        let status = job.status.unwrap_or("EXECUTION_RUNNING");
        let job = json!({
            "name": format!("{}/{name}", JOBS.trim_start_matches("/v2/")),
            "labels": job.labels,
            "latestCreatedExecution": { "name": format!("{name}-run"), "completionStatus": status },
        });
        (200, job)
    }

    fn cancel(&self, name: &str) -> (u16, Value) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(name) else {
            return error(404, "NOT_FOUND", "no such job");
        };
        // Which kills it.
        job.child = None;
        job.status = Some("EXECUTION_CANCELLED");
        (200, operation())
    }

    /// The job is kept for those who ask about it later in a test, and is gone for all others.
    fn delete(&self, name: &str) -> (u16, Value) {
        let mut state = self.state();
        let Some(job) = state.jobs.get(name) else {
            return error(404, "NOT_FOUND", "no such job");
        };
        let is_slow = job.child.is_none();
        if !is_slow {
            state.jobs.remove(name);
        }
        state.deleted += 1;
        (200, operation())
    }
}

fn operation() -> Value {
    json!({ "name": "projects/acme/locations/europe-west1/operations/1", "done": false })
}

fn error(code: u16, status: &str, message: &str) -> (u16, Value) {
    (
        code,
        json!({ "error": { "code": code, "status": status, "message": message } }),
    )
}
