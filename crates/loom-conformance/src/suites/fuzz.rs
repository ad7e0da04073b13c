//! Random operations, compared step by step with a model.

use super::random::{Parts, Run};
use crate::context::Cx;
use crate::model::Model;
use crate::outcome::Verdict;

crate::macros::suite! { ($) Store fuzz as __fuzz;
    random_operations_on_logs_match_the_model,
    random_operations_with_fences_match_the_model,
    random_operations_with_lineage_match_the_model,
    random_operations_across_plans_match_the_model,
    random_operations_with_everything_match_the_model,
}

async fn random_operations_on_logs_match_the_model(cx: Cx) -> Verdict {
    run(&cx, Parts::default()).await
}

async fn random_operations_with_fences_match_the_model(cx: Cx) -> Verdict {
    cx.fencing()?;
    let parts = Parts {
        fences: true,
        ..Parts::default()
    };
    run(&cx, parts).await
}

async fn random_operations_with_lineage_match_the_model(cx: Cx) -> Verdict {
    cx.branches()?;
    let parts = Parts {
        lineage: true,
        ..Parts::default()
    };
    run(&cx, parts).await
}

async fn random_operations_across_plans_match_the_model(cx: Cx) -> Verdict {
    cx.ledger()?;
    let parts = Parts {
        plans: true,
        ..Parts::default()
    };
    run(&cx, parts).await
}

async fn random_operations_with_everything_match_the_model(cx: Cx) -> Verdict {
    let parts = Parts {
        fences: cx.fencing().is_ok(),
        lineage: cx.branches().is_ok(),
        plans: cx.ledger().is_ok(),
    };
    run(&cx, parts).await
}

async fn run(cx: &Cx, parts: Parts) -> Verdict {
    let effort = *cx.effort();
    let mut model = Model::default();
    for seed in effort.first_seed..effort.first_seed.saturating_add(effort.seeds) {
        let mut run = Run::new(seed, &mut model)?;
        for step in 0..effort.steps {
            let done = run.step(cx, parts).await;
            done.map_err(|stop| {
                let began = effort.first_seed;
                run.failed(
                    stop,
                    format_args!("seed {seed}, step {step} (the run began with seed {began})"),
                )
            })?;
        }
    }
    Ok(())
}
