//! `loom rm`.

use loom_spi::{Children, Delete, EventStore as _, Forget, Head};
use serde::Serialize;

use super::log::not_found;
use crate::args::Rm;
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};

#[derive(Serialize)]
struct Removed {
    execution: String,
    events: u64,
    /// Executions of their own, which stay.
    branches: Vec<String>,
}

pub(super) async fn run(args: &Rm, deployment: &Deployment, output: Output) -> Result<(), Failure> {
    let store = &deployment.store;
    let Some(head) = store.head(Head::new(args.id.clone())).await? else {
        return Err(not_found(args.id.as_str()));
    };
    if !head.is_closed() && !args.force {
        return Err(Failure::refused(format!(
            "execution `{}` is open: something may be writing it, and would find its log gone",
            args.id
        ))
        .with_help("wait until it has ended, or say --force"));
    }
    let mut branches = Vec::new();
    if let Some(registry) = store.capabilities().branches {
        let children = registry.children(Children::new(args.id.clone())).await?;
        branches.extend(children.into_iter().map(|branch| branch.child.to_string()));
        registry.forget(Forget::new(args.id.clone())).await?;
    }
    // Only what was looked at: if it has grown meanwhile, that is a conflict.
    let delete = Delete::new(args.id.clone()).with_expected(head.next_sequence);
    let deleted = store.delete(delete).await?;
    let removed = Removed {
        execution: args.id.to_string(),
        events: deleted.events,
        branches,
    };
    output.print(&removed, |output| {
        let mut text = format!(
            "{} `{}` with {}\n",
            output.paint(Tone::Good, "removed"),
            removed.execution,
            counted(removed.events, "event")
        );
        if !removed.branches.is_empty() {
            text.push_str(&format!(
                "its branches are executions of their own and stay: {}\n",
                removed.branches.join(", ")
            ));
        }
        text
    })
}
