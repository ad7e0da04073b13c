//! Dropping a future of a move at any moment leaves a whole record.

use loom_spi::{Imported, Records, Retire, Seal, StoreErrorKind, Unseal};

use super::cancellation::{MOST_POLLS, polled};
use super::moving::{Packed, Seen, inspect, records, retire, seal, seen, unseal};
use super::operations::subject;
use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq};
use crate::support::{id, stored};

crate::macros::suite! { ($) Store move_cancellation as __move_cancellation;
    a_dropped_seal_is_whole_or_absent,
    a_dropped_unseal_is_whole_or_absent,
    a_dropped_retirement_is_whole_or_absent,
    a_dropped_import_is_whole_or_absent,
    a_dropped_last_part_is_whole_or_absent,
    a_dropped_part_is_staged_or_not,
    dropped_looks_at_records_change_nothing,
}

async fn a_dropped_seal_is_whole_or_absent(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let on = subject(&cx, &format!("order-{polls}")).await?;
        let before = seen(&cx, &on.id).await?;
        let ended = polled(relocation.seal(Seal::new(on.id.clone())), polls).await;
        check_eq!(seen(&cx, &on.id).await?, before, "the record");
        // Whoever seals it again hears all of it.
        let sealed = seal(&cx, &on.id).await?;
        check_eq!(sealed.events(), 1, "the length");
        check_eq!(sealed.fence, on.token, "the token");
        check_eq!(
            sealed.branches.len(),
            usize::from(cx.branches().is_ok()),
            "how many branches"
        );
        check_eq!(seen(&cx, &on.id).await?, before, "the record");
        if let Some(done) = ended {
            check_eq!(done?, sealed, "what has to move");
            return Ok(());
        }
    }
    Err(Stop::failed("a seal is still not done"))
}

async fn a_dropped_unseal_is_whole_or_absent(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let on = subject(&cx, &format!("order-{polls}")).await?;
        let before = seen(&cx, &on.id).await?;
        seal(&cx, &on.id).await?;
        let ended = polled(relocation.unseal(Unseal::new(on.id.clone())), polls).await;
        check_eq!(seen(&cx, &on.id).await?, before, "the record");
        unseal(&cx, &on.id).await?;
        check_eq!(seen(&cx, &on.id).await?, before, "the record");
        let sealed = inspect(&cx, &on.id).await?.map(|record| record.sealed);
        check_eq!(sealed, Some(false), "whether it is sealed");
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("an unseal is still not done"))
}

async fn a_dropped_retirement_is_whole_or_absent(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let on = subject(&cx, &format!("order-{polls}")).await?;
        seal(&cx, &on.id).await?;
        let before = inspect(&cx, &on.id).await?;
        let ended = polled(relocation.retire(Retire::new(on.id.clone())), polls).await;
        let after = inspect(&cx, &on.id).await?;
        check!(
            after == before || after.is_none(),
            "a part is left: {after:?}"
        );
        retire(&cx, &on.id).await?;
        check_eq!(inspect(&cx, &on.id).await?, None, "the record");
        let nothing = seen(&cx, &id("absent")?).await?;
        check_eq!(seen(&cx, &on.id).await?, nothing, "what is seen of it");
        if cx.branches().is_ok() {
            let link = super::moving::parent(&cx, &on.child).await?;
            check_eq!(link, None, "the parent of its child");
        }
        if let Some(done) = ended {
            done?;
            return Ok(());
        }
    }
    Err(Stop::failed("a retirement is still not done"))
}

/// A record with everything that the store knows.
fn packed(cx: &Cx, polls: usize) -> Result<Packed, Stop> {
    let mut packed = Packed::made(&id(format!("order-{polls}"))?, 6);
    if cx.fencing().is_ok() {
        packed = packed.with_fence(7, Some("one"));
    }
    if cx.branches().is_ok() {
        let (a, b) = (format!("a of {polls}"), format!("b of {polls}"));
        packed = packed.with_branches(&[&a, &b])?;
    }
    Ok(packed)
}

/// Checks that a record is not there or there as a whole, then completes it.
async fn complete(cx: &Cx, packed: &Packed) -> Verdict {
    let nothing = seen(cx, &id("absent")?).await?;
    // It may take effect between the looks, so an absent one is looked at once more.
    let mut found: Seen = seen(cx, &packed.id).await?;
    if found != nothing {
        found = seen(cx, &packed.id).await?;
    }
    packed.send(cx, 6).await?;
    let whole = seen(cx, &packed.id).await?;
    check!(
        found == nothing || found == whole,
        "a part of it is there: {found:?}"
    );
    check_eq!(cx.log(&packed.id).await?, stored(0, 6), "the log");
    let again = seal(cx, &packed.id).await?;
    check_eq!(again, packed.sealed, "what would have to move");
    Ok(())
}

async fn a_dropped_import_is_whole_or_absent(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let packed = packed(&cx, polls)?;
        let ended = polled(relocation.import(packed.whole()), polls).await;
        complete(&cx, &packed).await?;
        if let Some(done) = ended {
            check_eq!(done?, Imported::Visible, "the answer");
            return Ok(());
        }
    }
    Err(Stop::failed("an import is still not done"))
}

async fn a_dropped_last_part_is_whole_or_absent(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let packed = packed(&cx, polls)?;
        relocation.import(packed.part(0..4)).await?;
        let ended = polled(relocation.import(packed.part(4..6)), polls).await;
        complete(&cx, &packed).await?;
        if let Some(done) = ended {
            check_eq!(done?, Imported::Visible, "the answer");
            return Ok(());
        }
    }
    Err(Stop::failed("an import is still not done"))
}

async fn a_dropped_part_is_staged_or_not(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    for polls in 0..MOST_POLLS {
        let packed = packed(&cx, polls)?;
        let ended = polled(relocation.import(packed.part(0..3)), polls).await;
        match relocation.import(packed.part(3..5)).await {
            Ok(answer) => {
                let expected = Imported::Staged { next_sequence: 5 };
                check_eq!(answer, expected, "the answer");
            }
            Err(error) => check!(
                matches!(error.kind(), StoreErrorKind::InvalidArgument { .. }) && ended.is_none(),
                "the next part was refused: {error}"
            ),
        }
        complete(&cx, &packed).await?;
        if let Some(done) = ended {
            check_eq!(done?, Imported::Staged { next_sequence: 3 }, "the answer");
            return Ok(());
        }
    }
    Err(Stop::failed("an import is still not done"))
}

async fn dropped_looks_at_records_change_nothing(cx: Cx) -> Verdict {
    let relocation = cx.relocation()?;
    let on = subject(&cx, "order").await?;
    let before = (
        seen(&cx, &on.id).await?,
        records(&cx, Records::new(9)).await?,
    );
    for polls in 0..MOST_POLLS {
        let inspection = loom_spi::Inspect::new(on.id.clone());
        let look = polled(relocation.inspect(inspection), polls).await;
        let listing = polled(relocation.records(Records::new(9)), polls).await;
        let after = (
            seen(&cx, &on.id).await?,
            records(&cx, Records::new(9)).await?,
        );
        check_eq!(after, before, "the records");
        if let (Some(look), Some(listing)) = (look, listing) {
            look?;
            listing?;
            return Ok(());
        }
    }
    Err(Stop::failed("a look is still not done"))
}
