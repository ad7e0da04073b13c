//! The instance's side: running the one execution that it was booted for.

use std::env;

use loom_journal::{read_anchor, read_outcome};
use loom_spi::{
    DispatchError, DispatchRequest, EventStore, ExecutionId, ExecutionOutcome, FenceToken, Upstream,
};

use super::platform::{EXECUTION, TOKEN};
use crate::error::to_dispatch;

/// What an instance was booted for. It reads it from its environment:
///
/// | variable | what it says |
/// | --- | --- |
/// | `LOOM_EXECUTION` | the id of the execution |
/// | `LOOM_FENCE` | the token of the fence that was taken for it, a decimal number |
///
/// Everything else stands in the execution's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The execution.
    pub execution: ExecutionId,
    /// The fence that was taken for it.
    pub token: FenceToken,
}

/// Why an instance does not know what to run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssignmentError {
    /// A variable is not set.
    #[error(
        "the environment variable `{0}` is not set: expected what the runtime gives to its instances"
    )]
    Missing(&'static str),
    /// A variable says nothing that makes sense.
    #[error("the environment variable `{variable}` is `{value}`: expected {expected}")]
    Invalid {
        /// Which one.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl Assignment {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`AssignmentError`] when a variable is missing or makes no sense.
    pub fn from_env() -> Result<Self, AssignmentError> {
        Self::read(|name| env::var(name).ok())
    }

    fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, AssignmentError> {
        let value = |name| get(name).ok_or(AssignmentError::Missing(name));
        let (id, token) = (value(EXECUTION)?, value(TOKEN)?);
        let invalid = |variable, value: &str, expected| AssignmentError::Invalid {
            variable,
            value: value.to_owned(),
            expected,
        };
        Ok(Self {
            execution: ExecutionId::new(&id)
                .map_err(|_| invalid(EXECUTION, &id, "the id of an execution"))?,
            token: match token.parse() {
                Ok(number) => FenceToken(number),
                Err(_) => return Err(invalid(TOKEN, &token, "a number")),
            },
        })
    }

    /// What its log says is to be run, with the outputs of what it builds on.
    pub(crate) async fn request(
        &self,
        store: &dyn EventStore,
    ) -> Result<DispatchRequest, DispatchError> {
        let id = &self.execution;
        let invalid = |reason: String| DispatchError::InvalidRequest {
            id: id.clone(),
            reason,
        };
        let anchor = read_anchor(store, id).await.map_err(to_dispatch)?;
        let Some(anchor) = anchor else {
            let reason = "it was never begun: an instance runs what its dispatcher began";
            return Err(invalid(reason.to_owned()));
        };
        if anchor.upstream.len() != anchor.upstream_executions.len() {
            let reason = "its log does not say which executions it builds on: dispatch it with `Upstream::with_execution`, or in the process that knows their outputs";
            return Err(invalid(reason.to_owned()));
        }
        let mut upstream = Vec::with_capacity(anchor.upstream.len());
        for (key, execution) in anchor.upstream.iter().zip(anchor.upstream_executions) {
            match read_outcome(store, &execution).await.map_err(to_dispatch)? {
                Some(ExecutionOutcome::Completed { output }) => {
                    upstream.push(Upstream::new(key, output).with_execution(execution));
                }
                _ => {
                    return Err(invalid(format!(
                        "execution `{execution}`, its upstream `{key}`, has not completed"
                    )));
                }
            }
        }
        let request = DispatchRequest::new(id.clone(), anchor.flow).with_input(anchor.input);
        Ok(request.with_upstream(upstream).with_parent(anchor.parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: Option<&str>, token: Option<&str>) -> Result<Assignment, String> {
        let read = Assignment::read(|name| match name {
            EXECUTION => id.map(str::to_owned),
            _ => token.map(str::to_owned),
        });
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn an_assignment_is_read_from_the_environment_or_said_to_be_missing() {
        let assignment = read(Some("order-7"), Some("3")).unwrap();
        assert_eq!(assignment.execution.as_str(), "order-7");
        assert_eq!(assignment.token, FenceToken(3));
        for (id, token, says) in [
            (None, Some("3"), "`LOOM_EXECUTION` is not set"),
            (Some("order-7"), None, "`LOOM_FENCE` is not set"),
            (Some(""), Some("3"), "expected the id of an execution"),
            (Some("order-7"), Some("-3"), "`-3`: expected a number"),
        ] {
            let error = read(id, token).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
