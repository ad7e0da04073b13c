//! Marks of what was deleted here under the current plan, which a late import must not bring back.
//!
//! Whoever leaves or looks for one runs exclusively for the execution.

use loom_spi::ExecutionId;

use crate::failure::Failure;
use crate::session::Session;
use crate::staged::Staged;

/// Leaves a mark. What has arrived of the execution already cannot be completed any more, so it is dropped.
pub(crate) async fn leave(session: &Session, id: &ExecutionId) -> Result<(), Failure> {
    if let Some(staged) = Staged::find(session, id).await? {
        staged.drop(session, id).await?;
    }
    session.execute(LEAVE, &[&id.as_str()]).await?;
    Ok(())
}

/// Whether there is a mark.
pub(crate) async fn is_left(session: &Session, id: &ExecutionId) -> Result<bool, Failure> {
    Ok(session.query_opt(FIND, &[&id.as_str()]).await?.is_some())
}

const LEAVE: &str = "INSERT INTO deletions (id) VALUES ($1) ON CONFLICT DO NOTHING";

const FIND: &str = "SELECT 1 FROM deletions WHERE id = $1";

/// Removes all of them, because the plan changes.
pub(crate) const CLEAR: &str = "DELETE FROM deletions";
