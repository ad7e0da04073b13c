//! Ids are bytes: whatever looks alike to a collation, a pattern or a file system is not the same.

use std::collections::BTreeSet;

use loom_spi::{
    AcquireFence, Append, Delete, ExecutionId, List, ListCursor, NewEvent, Read, StoreErrorKind,
};

use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq, check_refused};
use crate::support::{id, in_list_order};

crate::macros::suite! { ($) Store identifiers as __identifiers;
    ids_of_every_length_are_kept,
    ids_that_look_alike_are_different_executions,
    ids_of_any_script_are_kept,
    ids_that_mean_something_elsewhere_mean_nothing_here,
    an_id_that_is_a_prefix_of_another_is_not_that_other,
    deleting_one_of_many_alike_leaves_the_others,
    fences_tell_ids_that_look_alike_apart,
    generated_ids_are_kept,
}

/// Equal to one another for some collation, normal form, number parser or pair of eyes.
const ALIKE: &[&str] = &[
    "order",
    "Order",
    "ORDER",
    "order ",
    " order",
    "order  ",
    "order.",
    "or der",
    "or\u{a0}der",
    // Accents, composed and not; a fullwidth and a Cyrillic o; characters without width.
    "\u{f6}rder",
    "o\u{308}rder",
    "\u{ff4f}rder",
    "\u{43e}rder",
    "order\u{200b}",
    "order\u{feff}",
    "stra\u{df}e",
    "strasse",
    "STRASSE",
    "\u{131}",
    "i",
    "I",
    "\u{130}",
    "\u{fb01}",
    "fi",
    "\u{c5}",
    "\u{212b}",
    "A\u{30a}",
    "1",
    "01",
    "1.0",
    "1e0",
    "\u{661}",
];

const SCRIPTS: &[&str] = &[
    "Größe",
    "名前/処理",
    "заказ",
    "παραγγελία",
    "طلب",
    "הזמנה",
    "주문",
    "คำสั่ง",
    "🧵🧶",
    "👩‍👩‍👧‍👦",
    "\u{10ffff}",
    "\u{fffd}",
    "\u{e000}",
    "\u{2028}",
    "\u{202e}reversed",
];

const TRAPS: &[&str] = &[
    "'",
    "\"",
    "`",
    "\\",
    "/",
    "//",
    ".",
    "..",
    "../..",
    "a/b",
    "a\\b",
    "%",
    "_",
    "*",
    "?",
    "[a-z]",
    "#",
    "a#b",
    "a?b",
    "%00",
    "%2F",
    "$1",
    "$$",
    "{}",
    "{id}",
    "null",
    "NULL",
    "true",
    "0",
    "-1",
    "NaN",
    "--",
    ";",
    "'; DROP TABLE events; --",
    "a,b",
    "a:b",
    "a=b",
    "con",
    "nul.txt",
    "~",
    "-rf",
    " ",
    "  ",
    "@",
    "<b>",
    "&amp;",
];

/// Creates one execution for each id, with a payload that says which, and finds each of them again.
async fn all_are_kept(cx: &Cx, names: &[impl AsRef<str>]) -> Result<Vec<ExecutionId>, Stop> {
    let ids = names.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    let unique: BTreeSet<_> = ids.iter().collect();
    check_eq!(
        unique.len(),
        ids.len(),
        "how many different ids the example has"
    );
    for id in &ids {
        check_eq!(cx.head(id).await?, None, "{id:?} before it is created");
        let event = NewEvent::new("created", id.as_str().to_owned());
        cx.store()
            .append(Append::new(id.clone(), 0, vec![event]))
            .await?;
    }
    for id in &ids {
        let log = cx.log(id).await?;
        let payloads: Vec<_> = log.iter().map(|event| &event.payload[..]).collect();
        check_eq!(payloads, [id.as_str().as_bytes()], "the log of {id:?}");
    }
    let ids = in_list_order(ids);
    check_eq!(cx.ids(List::new(4)).await?, ids, "the listing");
    Ok(ids)
}

async fn ids_of_every_length_are_kept(cx: Cx) -> Verdict {
    let names: Vec<_> = (1..=ExecutionId::MAX_BYTES)
        .map(|length| "x".repeat(length))
        .collect();
    all_are_kept(&cx, &names).await?;
    // Two, three and four bytes to a character; they differ in the last one only.
    for (character, other, bytes) in [("é", "è", 2), ("€", "₤", 3), ("🧵", "🧶", 4)] {
        let most = ExecutionId::MAX_BYTES / bytes;
        for last in [character, other] {
            let id = id(character.repeat(most - 1) + last)?;
            cx.append(&id, 0, 1).await?;
            check_eq!(cx.length(&id).await?, 1, "the length of {id}");
        }
    }
    Ok(())
}

async fn ids_that_look_alike_are_different_executions(cx: Cx) -> Verdict {
    all_are_kept(&cx, ALIKE).await.map(drop)
}

async fn ids_of_any_script_are_kept(cx: Cx) -> Verdict {
    all_are_kept(&cx, SCRIPTS).await.map(drop)
}

async fn ids_that_mean_something_elsewhere_mean_nothing_here(cx: Cx) -> Verdict {
    let ids = all_are_kept(&cx, TRAPS).await?;
    for (index, last) in ids.iter().enumerate() {
        let request = List::new(100).with_cursor(ListCursor::after(last));
        check_eq!(
            cx.ids(request).await?,
            ids[index + 1..],
            "the listing after {last:?}"
        );
    }
    Ok(())
}

async fn an_id_that_is_a_prefix_of_another_is_not_that_other(cx: Cx) -> Verdict {
    let longest = "prefix/".repeat(40);
    let names: Vec<_> = (1..=200)
        .step_by(7)
        .map(|length| &longest[..length])
        .collect();
    let (there, absent): (Vec<_>, Vec<_>) = names
        .iter()
        .enumerate()
        .partition::<Vec<_>, _>(|(index, _)| index % 2 == 0);
    let there: Vec<_> = there.into_iter().map(|(_, name)| *name).collect();
    all_are_kept(&cx, &there).await?;
    for (_, name) in absent {
        let id = id(name)?;
        check_eq!(cx.head(&id).await?, None, "the head of {id}");
        check_refused!(
            cx.store().read(Read::new(id.clone(), 0, 1)).await,
            StoreErrorKind::NotFound,
            "reading {id}"
        );
    }
    Ok(())
}

async fn deleting_one_of_many_alike_leaves_the_others(cx: Cx) -> Verdict {
    let names: Vec<_> = ALIKE
        .iter()
        .chain(&["%", "_", "order%", "or_er", "*"])
        .collect();
    let mut left = all_are_kept(&cx, &names).await?;
    while let Some(gone) = left.pop() {
        let deleted = cx.store().delete(Delete::new(gone.clone())).await?;
        check_eq!(deleted.events, 1, "events removed with {gone:?}");
        check_eq!(
            cx.ids(List::new(100)).await?,
            left,
            "the listing without {gone:?}"
        );
    }
    Ok(())
}

async fn fences_tell_ids_that_look_alike_apart(cx: Cx) -> Verdict {
    let fenced = id("order")?;
    let token = cx
        .fencing()?
        .acquire_fence(AcquireFence::new(fenced.clone()))
        .await?;
    for name in &ALIKE[1..] {
        cx.append(&id(name)?, 0, 1).await?;
    }
    check_refused!(
        cx.append(&fenced, 0, 1).await,
        StoreErrorKind::Fenced { current, .. } if *current == token,
        "the one that is fenced"
    );
    Ok(())
}

async fn generated_ids_are_kept(cx: Cx) -> Verdict {
    let names: Vec<_> = (0..50).map(|_| ExecutionId::generate()).collect();
    let ids = all_are_kept(&cx, &names).await?;
    check!(ids.len() == 50, "some are missing");
    Ok(())
}
