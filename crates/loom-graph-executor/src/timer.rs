//! Waiting for time to pass.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Waits for time to pass: what backoff and timeouts are made of. The executor knows no runtime and so has no clock;
/// it is handed one in [`GraphOptions`](crate::GraphOptions::with_timer).
///
/// With the feature `tokio` there is `TokioTimer`. For another runtime it is a few lines:
///
/// ```
/// use std::{future::Future, pin::Pin, time::Duration};
/// use loom_graph_executor::Timer;
///
/// #[derive(Debug)]
/// struct MyTimer;
///
/// impl Timer for MyTimer {
///     fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
///         Box::pin(tokio::time::sleep(duration))
///     }
/// }
/// ```
pub trait Timer: fmt::Debug + Send + Sync {
    /// Ends when `duration` has passed since this call, or later, never earlier.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Tokio's clock. Has to be polled in a Tokio runtime whose time driver is enabled.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

#[cfg(feature = "tokio")]
impl Timer for TokioTimer {
    /// # Panics
    /// Outside of a Tokio runtime, or in one without a time driver.
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Made when it is first polled: that is where the runtime has to be.
        let from = tokio::time::Instant::now();
        Box::pin(async move {
            match from.checked_add(duration) {
                Some(end) => tokio::time::sleep_until(end).await,
                // Later than any clock can say.
                None => std::future::pending().await,
            }
        })
    }
}
