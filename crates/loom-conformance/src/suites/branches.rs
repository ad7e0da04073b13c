//! Lineage: which execution branched off which.

use loom_spi::{Branch, ExecutionId, ParentLink, RecordLineage, StoreErrorKind};

use crate::context::RegistryCx;
use crate::outcome::{Verdict, check_eq, check_refused};
use crate::support::id;

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
    an_execution_is_no_branch_of_itself,
    a_label_has_at_most_255_bytes,
    ids_and_labels_come_back_as_they_were_given,
}

pub(super) fn branch(child: &ExecutionId, label: &str) -> Branch {
    Branch::new(child.clone(), label)
}

pub(super) fn link(parent: &ExecutionId, label: &str) -> Option<ParentLink> {
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
