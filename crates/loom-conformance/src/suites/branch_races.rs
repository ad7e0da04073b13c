//! Edges that are recorded at the same time.

use std::collections::BTreeSet;
use std::sync::Arc;

use loom_spi::{Branch, Children, RecordLineage, StoreErrorKind};

use super::branches::{branch, link};
use crate::context::RegistryCx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{id, race};

crate::macros::suite! { ($) Registry branch_races as __branch_races;
    racing_recordings_of_one_edge_make_one_edge,
    of_racing_parents_one_wins,
    racing_branches_are_all_recorded,
}

async fn racing_recordings_of_one_edge_make_one_edge(cx: RegistryCx) -> Verdict {
    for round in 0..cx.effort.rounds {
        let (parent, child) = (
            id(format!("incident-{round}"))?,
            id(format!("child-{round}"))?,
        );
        let results = race(cx.effort.racers, |_| {
            let registry = Arc::clone(&cx.registry);
            let edge = RecordLineage::new(parent.clone(), child.clone(), "label".to_owned());
            async move { registry.record_lineage(edge).await }
        })
        .await?;
        for result in results {
            result?;
        }
        check_eq!(
            cx.children(&parent).await?,
            [branch(&child, "label")],
            "the branches"
        );
    }
    Ok(())
}

async fn of_racing_parents_one_wins(cx: RegistryCx) -> Verdict {
    for round in 0..cx.effort.rounds {
        let child = id(format!("child-{round}"))?;
        let parents = (0..cx.effort.racers)
            .map(|racer| id(format!("parent-{round}-{racer}")))
            .collect::<Result<Vec<_>, _>>()?;
        let results = race(cx.effort.racers, |racer| {
            let (registry, parent) = (Arc::clone(&cx.registry), parents[racer].clone());
            let edge = RecordLineage::new(parent.clone(), child.clone(), "label".to_owned());
            async move { (parent, registry.record_lineage(edge).await) }
        })
        .await?;
        let mut winners = Vec::new();
        for (parent, result) in results {
            match result {
                Ok(()) => winners.push(parent),
                lost => check_refused!(lost, StoreErrorKind::LineageConflict { .. }, "{parent}"),
            }
        }
        check_eq!(winners.len(), 1, "how many parents won");
        check_eq!(
            cx.parent(&child).await?,
            link(&winners[0], "label"),
            "the parent"
        );
        for parent in parents {
            let expected = if parent == winners[0] {
                vec![branch(&child, "label")]
            } else {
                vec![]
            };
            check_eq!(
                cx.children(&parent).await?,
                expected,
                "the branches of {parent}"
            );
        }
    }
    Ok(())
}

async fn racing_branches_are_all_recorded(cx: RegistryCx) -> Verdict {
    let parent = id("incident")?;
    let (racers, rounds) = (cx.effort.racers, cx.effort.rounds);
    let results = race(racers, |racer| {
        let (registry, parent) = (Arc::clone(&cx.registry), parent.clone());
        async move {
            let mut known: Vec<Branch> = Vec::new();
            for round in 0..rounds {
                let child = id(format!("child-{racer}-{round}"))?;
                let edge = RecordLineage::new(parent.clone(), child, format!("{racer}"));
                registry.record_lineage(edge).await?;
                // What was there stays, in its order.
                let now = registry.children(Children::new(parent.clone())).await?;
                check!(
                    now.starts_with(&known),
                    "{known:?} is not how {now:?} begins"
                );
                known = now;
            }
            Ok::<_, Stop>(())
        }
    })
    .await?;
    for result in results {
        result?;
    }
    let children = cx.children(&parent).await?;
    let unique: BTreeSet<_> = children.iter().map(|branch| &branch.child).collect();
    check_eq!(
        children.len(),
        racers * rounds,
        "how many branches are listed"
    );
    check_eq!(unique.len(), racers * rounds, "how many different ones");
    for racer in 0..racers {
        let of_racer = children
            .iter()
            .filter(|branch| branch.label == racer.to_string());
        let found: Vec<_> = of_racer
            .map(|branch| branch.child.as_str().to_owned())
            .collect();
        let order: Vec<_> = (0..rounds)
            .map(|round| format!("child-{racer}-{round}"))
            .collect();
        check_eq!(found, order, "the branches of racer {racer}");
    }
    Ok(())
}
