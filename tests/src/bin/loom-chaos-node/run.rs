//! Lanes that work side by side until stdin ends.

use std::io::{self, BufRead as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_util::future::try_join_all;
use loom_sharded_store::ShardedStore;
use loom_tests::chaos::{LANES, Op, Says};
use tokio::sync::{RwLock, mpsc};

use crate::lane::Lane;
use crate::{deployment, execute, report};

/// What the lanes share.
struct Shared {
    store: ShardedStore,
    ended: AtomicBool,
    /// Whoever pauses has it alone.
    gate: RwLock<()>,
    go: tokio::sync::Mutex<mpsc::UnboundedReceiver<()>>,
}

pub(crate) async fn run(folder: &Path, slot: u64, life: u64, seed: u64) -> crate::Result<()> {
    // One slot has to look things up each time, another remembers little, the third everything.
    let cache = [0, 4, 1024].get(usize::try_from(slot)?).copied();
    let store = deployment::open(folder, cache.unwrap_or_default()).await?;
    let (send, go) = mpsc::unbounded_channel();
    let shared = Arc::new(Shared {
        store,
        ended: AtomicBool::new(false),
        gate: RwLock::new(()),
        go: tokio::sync::Mutex::new(go),
    });
    let listener = Arc::clone(&shared);
    // It ends with stdin, or with the process.
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || send.send(()).is_err() {
                break;
            }
        }
        listener.ended.store(true, Ordering::SeqCst);
    });
    let lanes = (0..LANES).map(|lane| {
        let lane = Lane::new(slot, lane, life, seed);
        let shared = Arc::clone(&shared);
        async move { tokio::spawn(work(shared, lane)).await? }
    });
    try_join_all(lanes).await?;
    Ok(())
}

async fn work(shared: Arc<Shared>, mut lane: Lane) -> crate::Result<()> {
    while !shared.ended.load(Ordering::SeqCst) {
        let op = lane.choose();
        if op == Op::Pause {
            let _alone = shared.gate.write().await;
            report::say(lane.number, Says::Begin(op.clone()))?;
            // Nothing comes any more when stdin has ended.
            shared.go.lock().await.recv().await;
            report::end(
                lane.number,
                &shared.store,
                execute::execute(&shared.store, &op).await,
            )?;
            continue;
        }
        let _gate = shared.gate.read().await;
        report::say(lane.number, Says::Begin(op.clone()))?;
        let outcome = execute::execute(&shared.store, &op).await;
        lane.learn(&op, &outcome);
        report::end(lane.number, &shared.store, outcome)?;
    }
    Ok(())
}
