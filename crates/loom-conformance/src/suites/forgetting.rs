//! Forgetting the branches of an execution.

use super::branches::{branch, link};
use crate::context::RegistryCx;
use crate::outcome::{Verdict, check_eq};
use crate::support::id;

crate::macros::suite! { ($) Registry forgetting as __forgetting;
    forgetting_removes_the_edges_from_both_ends,
    a_forgotten_branch_can_be_recorded_elsewhere,
    forgetting_one_parent_touches_no_other,
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
