//! One server for all tests of a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, process};

use crate::{Cluster, Settings, programs};

/// What to do where there is no PostgreSQL.
pub const INSTALL: &str = "Install it (Debian: `apt-get install postgresql`; the server need not run), or put its `initdb` and \
     `postgres` on PATH, or give a server in LOOM_TEST_POSTGRES_URL";

/// A server for tests that share it.
#[derive(Debug)]
pub enum Server {
    /// Started for this process, without syncing.
    Own(Cluster),
    /// The one in `LOOM_TEST_POSTGRES_URL`.
    Given(String),
}

impl Server {
    /// The URL of a database of it.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Own(cluster) => cluster.url("postgres"),
            Self::Given(url) => url.clone(),
        }
    }

    /// Whether tests have to tidy up: the server is there after them.
    #[must_use]
    pub fn outlives_the_tests(&self) -> bool {
        matches!(self, Self::Given(_))
    }
}

/// The server that the tests of this process share: the one in `LOOM_TEST_POSTGRES_URL`, or one that is started and ends
/// when the last of them has dropped it. Without either this says on standard error that a test is skipped, and what to
/// install.
///
/// # Panics
/// When the server does not start; where there is none and `CI` is set, since nothing may be skipped there.
#[must_use]
pub fn server() -> Option<Arc<Server>> {
    if !server_available() {
        return None;
    }
    static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let server = match given() {
        Some(url) => Server::Given(url),
        None => Server::Own(start(&Settings::fast().with("max_connections", "400"))),
    };
    let server = Arc::new(server);
    *shared = Arc::downgrade(&server);
    Some(server)
}

/// Whether [`server`] has one, without starting it.
///
/// # Panics
/// As [`available`].
#[must_use]
pub fn server_available() -> bool {
    given().is_some() || available()
}

fn given() -> Option<String> {
    env::var("LOOM_TEST_POSTGRES_URL")
        .ok()
        .filter(|url| !url.is_empty())
}

#[allow(clippy::panic, reason = "a test cannot go on")]
fn start(settings: &Settings) -> Cluster {
    Cluster::start(settings).unwrap_or_else(|error| panic!("{error}"))
}

/// Whether tests can have servers of their own. Where they cannot this says on standard error that a test is skipped, and what to
/// install.
///
/// # Panics
/// Where they cannot and `CI` is set: nothing may be skipped there.
#[must_use]
pub fn available() -> bool {
    if programs::folder().is_some() {
        return true;
    }
    assert!(
        env::var_os("CI").is_none(),
        "PostgreSQL was not found. {INSTALL}"
    );
    eprintln!("SKIPPED: PostgreSQL was not found. {INSTALL}");
    false
}

/// A name for a schema or a database that no other call, in any process, returns.
#[must_use]
pub fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("loom_{}_{}_{count}", process::id(), since.as_micros())
}
