//! Flows: the code that a runtime runs by name.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::future::Future;

use futures_util::future::{BoxFuture, FutureExt as _};
use loom_spi::BoxError;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::FlowContext;

/// Why a flow failed. Any error turns into one with `?`.
///
/// Its message, with those of its causes, becomes the execution's recorded [`Failure`](loom_spi::Failure),
/// unless the journal had stopped: then nothing is recorded, and the execution can be resumed.
pub struct FlowError(BoxError);

impl FlowError {
    /// A failure that is nothing but a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into().into())
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for FlowError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let message = error.to_string();
            // Some errors repeat what their cause says.
            if !text.ends_with(&message) {
                write!(text, ": {message}")?;
            }
            cause = error.source();
        }
        f.pad(&text)
    }
}

impl fmt::Debug for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a flow returned, as JSON.
pub(crate) type FlowResult = Result<Box<RawValue>, FlowError>;

/// A flow whose types are forgotten.
pub(crate) type Flow = dyn Fn(FlowContext) -> BoxFuture<'static, FlowResult> + Send + Sync;

pub(crate) fn erase<F, Fut, T>(flow: F) -> Box<Flow>
where
    F: Fn(FlowContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, FlowError>> + Send + 'static,
    T: Serialize,
{
    Box::new(move |context| {
        flow(context)
            .map(|result| Ok(serde_json::value::to_raw_value(&result?)?))
            .boxed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_a_failure_names_its_causes_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot ship")]
        struct Outer(#[source] std::io::Error);
        let error = FlowError::from(Outer(std::io::Error::other("no truck")));
        assert_eq!(error.to_string(), "cannot ship: no truck");
        assert_eq!(FlowError::new("plain").to_string(), "plain");
    }
}
