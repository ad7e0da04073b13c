//! A process of the chaos test: works on the shards of a deployment until it is killed or told to end, and says what
//! it is about to do and what came of it.
//!
//! `loom-chaos-node run DEPLOYMENT SLOT LIFE SEED` does what the seed says until stdin ends. `loom-chaos-node check
//! DEPLOYMENT` does the operations that stand in stdin, one a line.

mod deployment;
mod execute;
mod lane;
mod report;
mod run;

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use loom_tests::chaos::{Op, Says};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let result = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(work()));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told when that fails.
            let _ = writeln!(io::stderr(), "error: {}", report::chain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn work() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["run", deployment, slot, life, seed] => {
            let (slot, life) = (slot.parse()?, life.parse()?);
            run::run(Path::new(deployment), slot, life, seed.parse()?).await
        }
        ["check", deployment] => check(Path::new(deployment)).await,
        _ => Err("expected: run DEPLOYMENT SLOT LIFE SEED, or: check DEPLOYMENT".into()),
    }
}

async fn check(deployment: &Path) -> Result<()> {
    let store = deployment::open(deployment, 0).await?;
    for line in io::stdin().lines() {
        let op: Op = serde_json::from_str(&line?)?;
        report::say(0, Says::Begin(op.clone()))?;
        let outcome = execute::execute(&store, &op).await;
        report::end(0, &store, outcome)?;
    }
    Ok(())
}
