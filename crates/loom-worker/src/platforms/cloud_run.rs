//! A job of Google Cloud Run per execution.

use std::time::Duration;

use async_trait::async_trait;
use google_cloud_gax::error::Error;
use google_cloud_gax::error::rpc::Code;
use google_cloud_run_v2::client::{Executions, Jobs};
use google_cloud_run_v2::model::execution_reference::CompletionStatus;
use google_cloud_run_v2::model::{EnvVar, ExecutionTemplate, Job, TaskTemplate};

use crate::{
    ComputePlatform, Instance, InstanceState, Observation, PlatformError, PlatformErrorKind,
};

/// The label of a job that carries an instance's mark.
const MARK: &str = "loom-mark";
/// The one execution of a job is named after this.
const RUN: &str = "run";

/// Boots a job of Google Cloud Run for each execution, through the Cloud Run Admin API and Google's own client.
///
/// A job is created under the [name of the instance](Instance::name), which Cloud Run accepts once, and with a start
/// token, so that creating it starts its one execution: a boot whose answer got lost is found again by name. It
/// has one task that is not retried, since dispatching again does that. The instance's environment is added to the first
/// container of the template. When the outcome is known the job is deleted.
///
/// A boot is a call, and so is each look and the deletion: use [`InstanceOptions::remote`](crate::InstanceOptions::remote),
/// with the quota of the project.
///
/// ```no_run
/// use std::sync::Arc;
/// use google_cloud_run_v2::model::{Container, TaskTemplate};
/// use loom_spi::EventStore;
/// use loom_worker::{CloudRun, InstanceOptions, InstanceWorkerRuntime};
///
/// # async fn example(store: Arc<dyn EventStore>) -> Result<(), loom_worker::PlatformError> {
/// // The image's program ends with `LocalWorkerRuntime::run_assigned`.
/// let container = Container::new().set_image("europe-docker.pkg.dev/acme/loom/worker:3");
/// let template = TaskTemplate::new().set_containers([container]);
/// let platform = CloudRun::connect("acme", "europe-west1", template).await?;
/// let runtime = InstanceWorkerRuntime::new(store, platform, InstanceOptions::remote());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CloudRun {
    jobs: Jobs,
    executions: Executions,
    /// `projects/P/locations/L`.
    parent: String,
    template: TaskTemplate,
}

impl CloudRun {
    /// Uses the credentials of the environment: those of the service account where this runs on Google Cloud, else
    /// what `gcloud auth application-default login` left, or the file that `GOOGLE_APPLICATION_CREDENTIALS` names.
    ///
    /// # Errors
    /// [`PlatformErrorKind::Refused`] when there are no credentials, or no client can be made.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn connect(
        project: &str,
        location: &str,
        template: TaskTemplate,
    ) -> Result<Self, PlatformError> {
        let jobs = Jobs::builder().build().await;
        let executions = Executions::builder().build().await;
        match (jobs, executions) {
            (Ok(jobs), Ok(executions)) => Ok(Self::with_clients(
                jobs, executions, project, location, template,
            )),
            (Err(error), _) | (_, Err(error)) => {
                let message = "no client for the Cloud Run Admin API can be made";
                Err(PlatformError::new(PlatformErrorKind::Refused, message).with_source(error))
            }
        }
    }

    /// Uses clients that were made elsewhere: with other credentials, or for another endpoint. They should not
    /// try again by themselves, as by default they do not: the runtime does.
    #[must_use]
    pub fn with_clients(
        jobs: Jobs,
        executions: Executions,
        project: &str,
        location: &str,
        template: TaskTemplate,
    ) -> Self {
        Self {
            jobs,
            executions,
            parent: format!("projects/{project}/locations/{location}"),
            template,
        }
    }

    fn job_name(&self, instance: &Instance) -> String {
        format!("{}/jobs/{}", self.parent, instance.name)
    }

    fn job(&self, instance: &Instance) -> Job {
        let mut template = self.template.clone().set_max_retries(0);
        if let Some(container) = template.containers.first_mut() {
            for (name, value) in instance.env() {
                container.env.retain(|variable| variable.name != name);
                container
                    .env
                    .push(EnvVar::new().set_name(name).set_value(value));
            }
        }
        let execution = ExecutionTemplate::new()
            .set_task_count(1)
            .set_template(template);
        Job::new()
            .set_labels([(MARK, instance.mark.as_str())])
            .set_template(execution)
            .set_start_execution_token(RUN)
    }
}

#[async_trait]
impl ComputePlatform for CloudRun {
    async fn boot(&self, instance: &Instance) -> Result<(), PlatformError> {
        let create = self.jobs.create_job();
        let create = create
            .set_parent(&self.parent)
            .set_job_id(&instance.name)
            .set_job(self.job(instance));
        // An operation that has begun is an accepted boot: whether it runs is seen by looking.
        create.send().await.map(drop).map_err(failed)
    }

    async fn observe(&self, instance: &Instance) -> Result<Observation, PlatformError> {
        let get = self.jobs.get_job().set_name(self.job_name(instance));
        let job = match get.send().await {
            Ok(job) => job,
            Err(error) if is_absent(&error) => return Ok(Observation::absent()),
            Err(error) => return Err(failed(error)),
        };
        let status = job.latest_created_execution.as_ref();
        let state = match status.map(|execution| &execution.completion_status) {
            Some(
                status @ (CompletionStatus::ExecutionSucceeded
                | CompletionStatus::ExecutionFailed
                | CompletionStatus::ExecutionCancelled),
            ) => InstanceState::Ended {
                how: status.name().unwrap_or("it has ended").to_owned(),
            },
            // Not yet started, running, or a state that this build does not know.
            _ => InstanceState::Live,
        };
        Ok(Observation::new(state, job.labels.get(MARK).cloned()))
    }

    async fn stop(&self, instance: &Instance) -> Result<(), PlatformError> {
        let name = format!(
            "{}/executions/{}-{RUN}",
            self.job_name(instance),
            instance.name
        );
        let cancel = self.executions.cancel_execution().set_name(name);
        match cancel.send().await {
            Ok(_) => Ok(()),
            // It never started, or has ended: the job goes away with `forget`.
            Err(error) if is_absent(&error) || is_over(&error) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    async fn forget(&self, instance: &Instance) -> Result<(), PlatformError> {
        let delete = self.jobs.delete_job().set_name(self.job_name(instance));
        match delete.send().await {
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

fn code(error: &Error) -> Option<Code> {
    error.status().map(|status| status.code)
}

fn is_absent(error: &Error) -> bool {
    error.http_status_code() == Some(404) || code(error) == Some(Code::NotFound)
}

fn is_over(error: &Error) -> bool {
    code(error) == Some(Code::FailedPrecondition)
}

/// What an error means for whoever asked.
fn failed(error: Error) -> PlatformError {
    let kind = match (error.http_status_code(), code(&error)) {
        (_, Some(Code::AlreadyExists)) => PlatformErrorKind::Exists,
        (_, Some(Code::ResourceExhausted)) | (Some(429), _) => PlatformErrorKind::Busy {
            retry_after: retry_after(&error),
        },
        // Another change of the same thing is under way.
        (_, Some(Code::Aborted)) => PlatformErrorKind::Busy { retry_after: None },
        (Some(409), _) => PlatformErrorKind::Exists,
        (Some(status), _) if status >= 500 => PlatformErrorKind::Unknown,
        (Some(408), _) => PlatformErrorKind::Unknown,
        (Some(_), _) => PlatformErrorKind::Refused,
        // It never left.
        (None, _) if error.is_transient_and_before_rpc() => {
            PlatformErrorKind::Busy { retry_after: None }
        }
        (None, _) if error.is_authentication() || error.is_binding() => PlatformErrorKind::Refused,
        (None, _) => PlatformErrorKind::Unknown,
    };
    let message = match error.http_status_code() {
        Some(status) => format!("the Cloud Run Admin API answered {status}"),
        None => "the Cloud Run Admin API did not answer".to_owned(),
    };
    PlatformError::new(kind, message).with_source(error)
}

fn retry_after(error: &Error) -> Option<Duration> {
    let header = error.http_headers()?.get("retry-after")?;
    let seconds = header.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
