use std::collections::BTreeSet;

use loom_shard_plan::{RebalanceOptions, ShardId, Topology};

use super::*;

fn grown(shards: u16, buckets: u32, to: u16) -> ShardPlan {
    let plan = ShardPlan::with_buckets(shards, buckets).unwrap();
    plan.rebalanced(to, RebalanceOptions::default()).unwrap()
}

/// Plans of every look: runs, cycles, one bucket, rows that end early, as many buckets as there are.
fn plans() -> Vec<ShardPlan> {
    vec![
        ShardPlan::new(4).unwrap(),
        grown(4, 4096, 5),
        grown(7, 1000, 9),
        ShardPlan::adopting(12).unwrap(),
        ShardPlan::with_buckets(1, 1).unwrap(),
        grown(200, 65_536, 230),
    ]
}

/// The buckets that an outline covers: every `M x y h w v h h -w z` as the cells of its rectangle.
fn covered(outline: &str, columns: usize) -> Vec<usize> {
    let mut buckets = Vec::new();
    for shape in outline.split_terminator('z') {
        let numbers: Vec<usize> = shape
            .split(|c: char| !c.is_ascii_digit())
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().unwrap())
            .collect();
        let [x, y, w, h, back] = numbers[..] else {
            panic!("{shape}");
        };
        assert_eq!(w, back, "{shape}");
        assert!(x + w <= columns, "{shape}");
        buckets.extend((y..y + h).flat_map(|row| (x..x + w).map(move |x| row * columns + x)));
    }
    buckets
}

#[test]
fn the_shapes_cover_every_bucket_once() {
    for plan in plans() {
        let count = plan.bucket_count() as usize;
        let grid = Grid::of(count);
        let svg = render(&plan);
        let mut shown: Vec<usize> = svg
            .lines()
            .filter(|line| line.starts_with("<path fill="))
            .filter_map(|line| line.split(r#" d=""#).nth(1)?.split('"').next())
            .flat_map(|outline| covered(outline, grid.columns))
            .collect();
        shown.sort_unstable();
        assert_eq!(shown, (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn exactly_the_migrating_buckets_are_hatched() {
    for plan in plans() {
        let svg = render(&plan);
        let hatched: BTreeSet<u32> = svg
            .lines()
            .filter_map(|line| line.strip_prefix(r#"<clipPath id="hot">"#))
            .filter_map(|line| line.split(r#" d=""#).nth(1)?.split('"').next())
            .flat_map(|outline| covered(outline, Grid::of(plan.bucket_count() as usize).columns))
            .map(|bucket| u32::try_from(bucket).unwrap())
            .collect();
        assert_eq!(hatched, plan.migrating_buckets().iter().collect());
    }
}

/// Every element ends, in the right order, and no text holds what would have to be escaped.
#[test]
fn it_is_well_formed() {
    for plan in plans() {
        let svg = render(&plan);
        let mut open = Vec::new();
        for tag in svg.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap();
            assert!(!text.contains(['>', '&']), "{text}");
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.split(' ').next().unwrap();
            if let Some(name) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
}

#[test]
fn shards_have_colours_of_their_own() {
    let colours: BTreeSet<String> = (0..200).map(colour).collect();
    assert_eq!(colours.len(), 200);
    assert!(colours.iter().all(|colour| colour.len() == 7));
}

#[test]
fn a_legend_without_room_counts_what_it_leaves_out() {
    let svg = render(&grown(200, 65_536, 230));
    let entries = svg.matches(r#"width="14" height="14" fill="#).count() - 2;
    assert!(svg.contains(&format!("and {} more shards", 230 - entries)));
}

#[test]
fn a_picture() {
    let plan = ShardPlan::with_buckets(3, 40).unwrap();
    let topology = Topology::of(&plan)
        .leaving(ShardId(1))
        .and_then(|topology| topology.weighing(ShardId(0), 2))
        .unwrap();
    insta::assert_snapshot!(render(&plan.rebalance(&topology).unwrap()));
}
