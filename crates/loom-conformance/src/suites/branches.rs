//! Lineage: which execution branched off which.

use std::collections::BTreeSet;
use std::sync::Arc;

use loom_spi::{
    Branch, Children, ExecutionId, Forget, Parent, ParentLink, RecordLineage, StoreErrorKind,
};

use crate::context::RegistryCx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{id, race};

crate::macros::suite! { ($) Registry branches as __branches;
    an_edge_is_seen_from_both_ends,
    children_come_in_the_order_recorded,
    recording_an_edge_again_changes_nothing,
    an_execution_has_at_most_one_parent,
    an_edge_has_one_label,
    what_is_unknown_has_no_branches_and_no_parent,
    many_branches_are_listed_completely,
    several_branches_may_share_a_label,
    a_chain_of_branches_is_kept_link_by_link,
    forgetting_removes_the_edges_from_both_ends,
    a_forgotten_branch_can_be_recorded_elsewhere,
    forgetting_one_parent_touches_no_other,
    an_execution_is_no_branch_of_itself,
    a_label_has_at_most_255_bytes,
    ids_and_labels_come_back_as_they_were_given,
    racing_recordings_of_one_edge_make_one_edge,
    of_racing_parents_one_wins,
    racing_branches_are_all_recorded,
}

impl RegistryCx {
    async fn record(&self, parent: &ExecutionId, child: &ExecutionId, label: &str) -> Verdict {
        let edge = RecordLineage::new(parent.clone(), child.clone(), label.to_owned());
        Ok(self.registry.record_lineage(edge).await?)
    }

    async fn children(&self, parent: &ExecutionId) -> Result<Vec<Branch>, Stop> {
        Ok(self
            .registry
            .children(Children::new(parent.clone()))
            .await?)
    }

    async fn parent(&self, child: &ExecutionId) -> Result<Option<ParentLink>, Stop> {
        Ok(self.registry.parent(Parent::new(child.clone())).await?)
    }

    async fn forget(&self, parent: &ExecutionId) -> Result<u64, Stop> {
        Ok(self.registry.forget(Forget::new(parent.clone())).await?)
    }
}

fn branch(child: &ExecutionId, label: &str) -> Branch {
    Branch::new(child.clone(), label)
}

fn link(parent: &ExecutionId, label: &str) -> Option<ParentLink> {
    Some(ParentLink::new(parent.clone(), label))
}

async fn an_edge_is_seen_from_both_ends(cx: RegistryCx) -> Verdict {
    let (parent, child) = (id("incident")?, id("incident/metrics")?);
    cx.record(&parent, &child, "metrics").await?;
    check_eq!(
        cx.children(&parent).await?,
        [branch(&child, "metrics")],
        "the branches"
    );
    check_eq!(
        cx.parent(&child).await?,
        link(&parent, "metrics"),
        "the parent"
    );
    check_eq!(cx.parent(&parent).await?, None, "the parent of the parent");
    check_eq!(cx.children(&child).await?, [], "the branches of the branch");
    Ok(())
}

async fn children_come_in_the_order_recorded(cx: RegistryCx) -> Verdict {
    let parent = id("incident")?;
    // Neither ids nor labels are sorted, and neither follows the other.
    let names = [
        ("m", "3"),
        ("a", "9"),
        ("z", "1"),
        ("b", "2"),
        ("y", "0"),
        ("c", "7"),
    ];
    let mut expected = Vec::new();
    for (child, label) in names {
        let child = id(child)?;
        cx.record(&parent, &child, label).await?;
        expected.push(branch(&child, label));
        check_eq!(cx.children(&parent).await?, expected, "the branches so far");
    }
    Ok(())
}

async fn recording_an_edge_again_changes_nothing(cx: RegistryCx) -> Verdict {
    let (parent, first, second) = (id("incident")?, id("first")?, id("second")?);
    cx.record(&parent, &first, "1").await?;
    cx.record(&parent, &second, "2").await?;
    for _ in 0..3 {
        cx.record(&parent, &first, "1").await?;
        let expected = [branch(&first, "1"), branch(&second, "2")];
        check_eq!(cx.children(&parent).await?, expected, "the branches");
    }
    Ok(())
}

async fn an_execution_has_at_most_one_parent(cx: RegistryCx) -> Verdict {
    let (first, second, child) = (id("first")?, id("second")?, id("child")?);
    cx.record(&first, &child, "label").await?;
    let edge = RecordLineage::new(second.clone(), child.clone(), "label".to_owned());
    check_refused!(
        cx.registry.record_lineage(edge).await,
        StoreErrorKind::LineageConflict { parent, label } if *parent == first && label == "label",
        "a second parent"
    );
    check_eq!(
        cx.children(&second).await?,
        [],
        "the branches of the second"
    );
    check_eq!(
        cx.children(&first).await?,
        [branch(&child, "label")],
        "those of the first"
    );
    check_eq!(
        cx.parent(&child).await?,
        link(&first, "label"),
        "the parent"
    );
    Ok(())
}

async fn an_edge_has_one_label(cx: RegistryCx) -> Verdict {
    let (parent, child) = (id("incident")?, id("child")?);
    cx.record(&parent, &child, "label").await?;
    for other in ["Label", "label ", ""] {
        let edge = RecordLineage::new(parent.clone(), child.clone(), other.to_owned());
        check_refused!(
            cx.registry.record_lineage(edge).await,
            StoreErrorKind::LineageConflict { parent: found, label }
                if *found == parent && label == "label",
            "the label {other:?}"
        );
    }
    check_eq!(
        cx.children(&parent).await?,
        [branch(&child, "label")],
        "the branches"
    );
    check_eq!(
        cx.parent(&child).await?,
        link(&parent, "label"),
        "the parent"
    );
    Ok(())
}

async fn what_is_unknown_has_no_branches_and_no_parent(cx: RegistryCx) -> Verdict {
    cx.record(&id("incident")?, &id("child")?, "label").await?;
    for unknown in ["unknown", "inciden", "incident/"] {
        let unknown = id(unknown)?;
        check_eq!(
            cx.children(&unknown).await?,
            [],
            "the branches of {unknown}"
        );
        check_eq!(cx.parent(&unknown).await?, None, "the parent of {unknown}");
        check_eq!(
            cx.forget(&unknown).await?,
            0,
            "forgotten edges of {unknown}"
        );
    }
    Ok(())
}

async fn many_branches_are_listed_completely(cx: RegistryCx) -> Verdict {
    let parent = id("incident")?;
    let mut expected = Vec::new();
    for index in 0..cx.effort.many.max(300) {
        let child = id(format!("child-{index}"))?;
        let label = format!("node {index}");
        cx.record(&parent, &child, &label).await?;
        expected.push(branch(&child, &label));
    }
    check_eq!(cx.children(&parent).await?, expected, "the branches");
    Ok(())
}

async fn several_branches_may_share_a_label(cx: RegistryCx) -> Verdict {
    let (parent, first, second) = (id("incident")?, id("first")?, id("second")?);
    for child in [&first, &second] {
        cx.record(&parent, child, "variant").await?;
    }
    let expected = [branch(&first, "variant"), branch(&second, "variant")];
    check_eq!(cx.children(&parent).await?, expected, "the branches");
    Ok(())
}

async fn a_chain_of_branches_is_kept_link_by_link(cx: RegistryCx) -> Verdict {
    let ids = (0..20)
        .map(|depth| id(format!("depth-{depth}")))
        .collect::<Result<Vec<_>, _>>()?;
    for pair in ids.windows(2) {
        cx.record(&pair[0], &pair[1], "next").await?;
    }
    for pair in ids.windows(2) {
        check_eq!(
            cx.children(&pair[0]).await?,
            [branch(&pair[1], "next")],
            "the branches"
        );
        check_eq!(
            cx.parent(&pair[1]).await?,
            link(&pair[0], "next"),
            "the parent"
        );
    }
    Ok(())
}

async fn forgetting_removes_the_edges_from_both_ends(cx: RegistryCx) -> Verdict {
    let parent = id("incident")?;
    let children = (0..5)
        .map(|index| id(format!("child-{index}")))
        .collect::<Result<Vec<_>, _>>()?;
    for child in &children {
        cx.record(&parent, child, "label").await?;
    }
    check_eq!(cx.forget(&parent).await?, 5, "how many edges were removed");
    check_eq!(cx.children(&parent).await?, [], "the branches");
    for child in &children {
        check_eq!(cx.parent(child).await?, None, "the parent of {child}");
    }
    check_eq!(cx.forget(&parent).await?, 0, "how many edges were left");
    Ok(())
}

async fn a_forgotten_branch_can_be_recorded_elsewhere(cx: RegistryCx) -> Verdict {
    let (first, second, child) = (id("first")?, id("second")?, id("child")?);
    cx.record(&first, &child, "1").await?;
    cx.forget(&first).await?;
    cx.record(&second, &child, "2").await?;
    check_eq!(cx.parent(&child).await?, link(&second, "2"), "the parent");
    check_eq!(cx.children(&first).await?, [], "the branches of the first");
    check_eq!(
        cx.children(&second).await?,
        [branch(&child, "2")],
        "those of the second"
    );
    Ok(())
}

async fn forgetting_one_parent_touches_no_other(cx: RegistryCx) -> Verdict {
    let names = ["incident", "incident-1", "inciden", "INCIDENT", "incident%"];
    for name in names {
        cx.record(&id(name)?, &id(format!("child of {name}"))?, "label")
            .await?;
    }
    // A branch that is a parent itself keeps its own branches.
    cx.record(&id("child of incident")?, &id("grandchild")?, "label")
        .await?;
    check_eq!(
        cx.forget(&id("incident")?).await?,
        1,
        "how many edges were removed"
    );
    check_eq!(
        cx.forget(&id("incident%")?).await?,
        1,
        "how many edges were removed"
    );
    for name in ["incident-1", "inciden", "INCIDENT"] {
        let (parent, child) = (id(name)?, id(format!("child of {name}"))?);
        check_eq!(
            cx.children(&parent).await?,
            [branch(&child, "label")],
            "those of {name}"
        );
        check_eq!(
            cx.parent(&child).await?,
            link(&parent, "label"),
            "the parent of {child}"
        );
    }
    let middle = id("child of incident")?;
    check_eq!(
        cx.parent(&id("grandchild")?).await?,
        link(&middle, "label"),
        "the grandchild's"
    );
    Ok(())
}

async fn an_execution_is_no_branch_of_itself(cx: RegistryCx) -> Verdict {
    let own = id("incident")?;
    let edge = RecordLineage::new(own.clone(), own.clone(), "label".to_owned());
    check_refused!(
        cx.registry.record_lineage(edge).await,
        StoreErrorKind::InvalidArgument { .. },
        "a branch of itself"
    );
    check_eq!(cx.children(&own).await?, [], "the branches");
    check_eq!(cx.parent(&own).await?, None, "the parent");
    Ok(())
}

async fn a_label_has_at_most_255_bytes(cx: RegistryCx) -> Verdict {
    let parent = id("incident")?;
    for long in ["l".repeat(256), "é".repeat(128)] {
        let edge = RecordLineage::new(parent.clone(), id("too long")?, long.clone());
        check_refused!(
            cx.registry.record_lineage(edge).await,
            StoreErrorKind::InvalidArgument { .. },
            "a label of {} bytes",
            long.len()
        );
    }
    check_eq!(cx.children(&parent).await?, [], "the branches");
    let mut expected = Vec::new();
    for (index, label) in ["l".repeat(255), "é".repeat(127), String::new()]
        .iter()
        .enumerate()
    {
        let child = id(format!("child-{index}"))?;
        cx.record(&parent, &child, label).await?;
        expected.push(branch(&child, label));
    }
    check_eq!(cx.children(&parent).await?, expected, "the branches");
    Ok(())
}

async fn ids_and_labels_come_back_as_they_were_given(cx: RegistryCx) -> Verdict {
    let parent = id("größer 🧵 ' \" % _ \\")?;
    let longest = "x".repeat(ExecutionId::MAX_BYTES);
    let mut expected = Vec::new();
    for name in [
        "a", "A", "a ", " a", "ä", "a\u{308}", "名前", "%", "null", "0", "00", &longest,
    ] {
        let child = id(name)?;
        cx.record(&parent, &child, name).await?;
        expected.push(branch(&child, name));
        check_eq!(
            cx.parent(&child).await?,
            link(&parent, name),
            "the parent of {name:?}"
        );
    }
    check_eq!(cx.children(&parent).await?, expected, "the branches");
    Ok(())
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
