//! Events of logs that are gone, removed little by little.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use uuid::Uuid;

use crate::failure::Failure;
use crate::pool::Connections;
use crate::record::column;
use crate::session::Session;

/// Removes garbage in the background, one step at a time.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// Whether somebody is at it. What is left while they finish is found the next time.
    busy: Arc<AtomicBool>,
}

impl Garbage {
    /// Starts removing, unless that is under way.
    pub(crate) fn collect(&self, runtime: &Handle, connections: &Connections) {
        if self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let (busy, connections) = (Arc::clone(&self.busy), connections.clone());
        runtime.spawn(async move {
            // What is in the way of it is in the way of nothing else, and passes.
            while let Ok(true) = step(&connections).await {}
            busy.store(false, Ordering::Release);
        });
    }
}

/// Leaves the events of a log to be removed. Nothing refers to it any more when the transaction commits.
pub(crate) async fn leave(session: &Session, log: Uuid) -> Result<(), Failure> {
    session.execute(LEAVE, &[&log]).await?;
    Ok(())
}

const LEAVE: &str = "INSERT INTO garbage (log) VALUES ($1) ON CONFLICT DO NOTHING";

/// What other processes are at is left to them.
const FIND: &str = "SELECT log FROM garbage ORDER BY log LIMIT 1 FOR UPDATE SKIP LOCKED";

const REMOVE: &str = "
    DELETE FROM events WHERE log = $1 AND seq IN (SELECT seq FROM events WHERE log = $1 ORDER BY seq LIMIT 1000)";

const DONE: &str = "DELETE FROM garbage WHERE log = $1";

/// Removes some events of one log, and says whether there may be more to do.
async fn step(connections: &Connections) -> Result<bool, Failure> {
    let session = connections.get().await?;
    session.begin().await?;
    match remove(&session).await {
        Ok(more) => {
            session.commit().await?;
            Ok(more)
        }
        Err(failure) => {
            session.roll_back().await;
            Err(failure)
        }
    }
}

async fn remove(session: &Session) -> Result<bool, Failure> {
    let Some(row) = session.query_opt(FIND, &[]).await? else {
        return Ok(false);
    };
    let log: Uuid = column(&row, 0)?;
    if session.execute(REMOVE, &[&log]).await? == 0 {
        session.execute(DONE, &[&log]).await?;
    }
    Ok(true)
}
