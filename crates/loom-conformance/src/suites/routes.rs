//! Listing a part of the executions by their hash.

use loom_spi::{ExecutionId, ExecutionState, List, ListCursor, RouteFilter};

use crate::context::Cx;
use crate::outcome::{Stop, Verdict, check, check_eq};
use crate::support::{in_list_order, many_ids, place};

crate::macros::suite! { ($) Store routes as __routes;
    the_residues_of_a_power_of_two_share_out_all_executions,
    the_residues_of_an_odd_modulus_share_out_all_executions,
    the_residues_of_an_even_modulus_share_out_all_executions,
    modulus_one_selects_everything,
    the_largest_moduli_select_single_hashes,
    a_residue_that_no_execution_has_lists_nothing,
    a_filtered_listing_can_be_paged,
    a_filtered_listing_takes_cursors_from_outside_its_range,
    a_filter_by_hash_and_state_wants_both,
}

async fn filled(cx: &Cx) -> Result<Vec<ExecutionId>, Stop> {
    let ids = in_list_order(many_ids(cx.effort().many)?);
    for id in &ids {
        cx.append(id, 0, 1).await?;
    }
    Ok(ids)
}

fn selected(ids: &[ExecutionId], filter: RouteFilter) -> Vec<ExecutionId> {
    ids.iter()
        .filter(|id| id.route_hash().0 % filter.modulus() == filter.residue())
        .cloned()
        .collect()
}

/// Every residue of a modulus, or a hundred of them, with those that executions have among them.
fn residues(ids: &[ExecutionId], modulus: u64) -> Vec<u64> {
    let mut residues: Vec<u64> = (0..modulus.min(50))
        .chain(ids.iter().take(50).map(|id| id.route_hash().0 % modulus))
        .chain([modulus - 1])
        .collect();
    residues.sort_unstable();
    residues.dedup();
    residues
}

async fn check_moduli(cx: &Cx, moduli: &[u64]) -> Verdict {
    let ids = filled(cx).await?;
    for &modulus in moduli {
        let mut total = 0;
        for residue in residues(&ids, modulus) {
            let filter = RouteFilter::new(modulus, residue)?;
            let expected = selected(&ids, filter);
            let found = cx.ids(List::new(64).with_route(filter)).await?;
            check_eq!(found, expected, "hash % {modulus} == {residue}");
            total += found.len();
        }
        if modulus <= 50 {
            check_eq!(total, ids.len(), "all residues of {modulus} together");
        }
    }
    Ok(())
}

async fn the_residues_of_a_power_of_two_share_out_all_executions(cx: Cx) -> Verdict {
    check_moduli(&cx, &[2, 4, 16, 32, 64, 4096, 1 << 20]).await
}

async fn the_residues_of_an_odd_modulus_share_out_all_executions(cx: Cx) -> Verdict {
    check_moduli(&cx, &[3, 5, 7, 11, 31, 201]).await
}

async fn the_residues_of_an_even_modulus_share_out_all_executions(cx: Cx) -> Verdict {
    check_moduli(&cx, &[6, 10, 12, 20, 48, 96, 3072]).await
}

async fn modulus_one_selects_everything(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    let all = RouteFilter::new(1, 0)?;
    check_eq!(
        cx.ids(List::new(100).with_route(all)).await?,
        ids,
        "the listing"
    );
    Ok(())
}

async fn the_largest_moduli_select_single_hashes(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    for modulus in [1 << 32, 1 << 62, 1 << 63, 3 << 62, u64::MAX] {
        for id in ids.iter().step_by(7) {
            let filter = RouteFilter::new(modulus, id.route_hash().0 % modulus)?;
            let expected = selected(&ids, filter);
            check!(expected.contains(id), "the example has lost its point");
            let found = cx.ids(List::new(10).with_route(filter)).await?;
            check_eq!(found, expected, "hash % {modulus} as that of {id}");
        }
    }
    Ok(())
}

async fn a_residue_that_no_execution_has_lists_nothing(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    for modulus in [1 << 40, (1 << 40) + 1, 3 << 40] {
        let taken: Vec<_> = ids.iter().map(|id| id.route_hash().0 % modulus).collect();
        for residue in (0..modulus)
            .filter(|residue| !taken.contains(residue))
            .take(5)
        {
            let filter = RouteFilter::new(modulus, residue)?;
            let found = cx.ids(List::new(10).with_route(filter)).await?;
            check_eq!(found, [], "hash % {modulus} == {residue}");
        }
    }
    Ok(())
}

async fn a_filtered_listing_can_be_paged(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    for modulus in [2, 3, 4, 6] {
        for residue in 0..modulus {
            let filter = RouteFilter::new(modulus, residue)?;
            let expected = selected(&ids, filter);
            for size in [1, 4, 33] {
                let found = cx.ids(List::new(size).with_route(filter)).await?;
                check_eq!(
                    found,
                    expected,
                    "hash % {modulus} == {residue} in pages of {size}"
                );
            }
        }
    }
    Ok(())
}

async fn a_filtered_listing_takes_cursors_from_outside_its_range(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    for (modulus, residue) in [(4, 0), (4, 1), (4, 3), (3, 1), (12, 5)] {
        let filter = RouteFilter::new(modulus, residue)?;
        // Some of these lie before the range of the filter, some in it, some behind it.
        for last in ids.iter().step_by(11) {
            let mut expected = selected(&ids, filter);
            expected.retain(|id| place(id) > place(last));
            let request = List::new(20)
                .with_route(filter)
                .with_cursor(ListCursor::after(last));
            let found = cx.ids(request).await?;
            check_eq!(
                found,
                expected,
                "hash % {modulus} == {residue} after {last}"
            );
        }
    }
    Ok(())
}

async fn a_filter_by_hash_and_state_wants_both(cx: Cx) -> Verdict {
    let ids = filled(&cx).await?;
    let closed: Vec<_> = ids.iter().step_by(3).cloned().collect();
    for id in &closed {
        cx.close(id, 1).await?;
    }
    for (modulus, residue) in [(2, 0), (2, 1), (3, 2), (6, 1)] {
        let filter = RouteFilter::new(modulus, residue)?;
        let request = List::new(8).with_route(filter);
        let only = request.clone().with_state(ExecutionState::Closed);
        let expected = selected(&closed, filter);
        check_eq!(
            cx.ids(only).await?,
            expected,
            "closed, hash % {modulus} == {residue}"
        );
        let mut expected = selected(&ids, filter);
        expected.retain(|id| !closed.contains(id));
        let only = request.with_state(ExecutionState::Open);
        check_eq!(
            cx.ids(only).await?,
            expected,
            "open, hash % {modulus} == {residue}"
        );
    }
    Ok(())
}
