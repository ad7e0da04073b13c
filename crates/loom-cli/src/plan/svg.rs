//! The buckets of a plan as a picture.
//!
//! Only elements and attributes that every renderer knows, and only numbers from the plan: nothing
//! has to be escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use loom_shard_plan::{BucketSet, Placement, Shard, ShardPlan};

use super::summary::{ShardSummary, Summary, percent};
use crate::output::count;

/// Side of the map in pixels.
const MAP: usize = 640;
const MARGIN: usize = 24;
/// Left of the map: numbers of buckets.
const GUTTER: usize = 44;
/// Above the map: title and subtitle.
const HEADER: usize = 64;
const LINE: usize = 22;
const LEGEND_COLUMN: usize = 210;
/// Beyond so many columns of shards the legend only counts.
const MAX_LEGEND_COLUMNS: usize = 4;

/// Seven colours that the colour-blind can tell apart (Okabe and Ito, "Color universal design",
/// 2008; without black, which is for text).
const PALETTE: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
];

/// The picture of a plan: one cell for each bucket in the colour of the shard that takes what is
/// new, hatched where the bucket is migrating; beside it the shards.
pub(crate) fn render(plan: &ShardPlan) -> String {
    let summary = Summary::of(plan);
    let grid = Grid::of(plan.bucket_count() as usize);
    let legend = Legend::of(&summary, grid.height());
    let width = MARGIN + GUTTER + MAP + MARGIN + legend.columns * LEGEND_COLUMN + MARGIN;
    let height = HEADER + grid.height().max(legend.height) + LINE + MARGIN + MARGIN;
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="#222222">
<title>Shard plan, {headline}</title>
<defs><pattern id="migrating" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.5" height="6" fill="#000000" fill-opacity="0.4"/></pattern></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<text x="{MARGIN}" y="32" font-size="18" font-weight="bold">Shard plan, epoch {epoch}</text>
<text x="{MARGIN}" y="52" fill="#555555">{subtitle}</text>"##,
        headline = summary.headline(),
        epoch = summary.epoch,
        subtitle = subtitle(&summary),
    );
    cells(&mut svg, plan, grid);
    grid.labels(&mut svg);
    legend.draw(&mut svg, &summary);
    let _ = writeln!(
        svg,
        r##"<text x="{MARGIN}" y="{}" font-size="11" fill="#777777">fingerprint {}</text>
</svg>"##,
        height - MARGIN,
        summary.fingerprint
    );
    svg
}

/// The headline without the epoch, which is in the title.
fn subtitle(summary: &Summary) -> String {
    let headline = summary.headline();
    match headline.split_once(": ") {
        Some((_, rest)) => rest.to_owned(),
        None => headline,
    }
}

/// Rows of as many buckets as make the map about square.
#[derive(Clone, Copy, Debug)]
struct Grid {
    buckets: usize,
    columns: usize,
    /// Tenths of a pixel, so that all arithmetic is exact.
    cell: usize,
}

impl Grid {
    fn of(buckets: usize) -> Self {
        let mut columns = 16;
        while columns * columns < buckets {
            columns *= 2;
        }
        Self {
            buckets,
            columns,
            cell: MAP * 10 / columns,
        }
    }

    fn rows(self) -> usize {
        self.buckets.div_ceil(self.columns)
    }

    /// Pixels from the first row to the end of the last.
    fn height(self) -> usize {
        (self.rows() * self.cell).div_ceil(10)
    }

    /// The outline of a set of buckets, in cells.
    fn outline(self, set: &BucketSet) -> String {
        let mut path = String::new();
        for range in set.ranges() {
            let (mut at, last) = (*range.start() as usize, *range.end() as usize);
            while at <= last {
                let (row, column) = (at / self.columns, at % self.columns);
                // Whole rows in one piece.
                let rows = if column == 0 {
                    (last + 1 - at) / self.columns
                } else {
                    0
                };
                let (w, h) = if rows > 0 {
                    (self.columns, rows)
                } else {
                    ((last + 1 - at).min(self.columns - column), 1)
                };
                let _ = write!(path, "M{column} {row}h{w}v{h}h-{w}z");
                at += w * h;
            }
        }
        path
    }

    /// Numbers of buckets at the left: not more than there is room for.
    fn labels(self, svg: &mut String) {
        let step = 320_usize.div_ceil(self.cell).next_power_of_two();
        for row in (0..self.rows()).step_by(step) {
            let y = HEADER + (row * self.cell + self.cell.min(160) / 2) / 10 + 4;
            let _ = writeln!(
                svg,
                r##"<text x="{}" y="{y}" font-size="11" fill="#777777" text-anchor="end">{}</text>"##,
                MARGIN + GUTTER - 8,
                row * self.columns
            );
        }
    }
}

/// One shape for each placement, with the buckets as its tooltip, and one over all that migrate.
fn cells(svg: &mut String, plan: &ShardPlan, grid: Grid) {
    let mut by_placement: BTreeMap<Placement, Vec<u32>> = BTreeMap::new();
    for (bucket, placement) in (0..).zip(plan.placements()) {
        by_placement.entry(placement).or_default().push(bucket);
    }
    let scale = grid.cell;
    let _ = writeln!(
        svg,
        r#"<g transform="translate({} {HEADER}) scale({}.{})" shape-rendering="crispEdges">"#,
        MARGIN + GUTTER,
        scale / 10,
        scale % 10
    );
    let mut migrating = Vec::new();
    for (placement, buckets) in by_placement {
        let set: BucketSet = buckets.iter().copied().collect();
        let index = plan
            .shards()
            .binary_search_by_key(&placement.destination(), Shard::id)
            .unwrap_or_default();
        let _ = writeln!(
            svg,
            r#"<path fill="{}" d="{}"><title>{}: {} ({set})</title></path>"#,
            colour(index),
            grid.outline(&set),
            tooltip(placement),
            buckets.len()
        );
        if placement.is_migrating() {
            migrating.extend(buckets);
        }
    }
    svg.push_str("</g>\n");
    if !migrating.is_empty() {
        let set: BucketSet = migrating.into_iter().collect();
        hatch(svg, grid, &set);
    }
}

fn tooltip(placement: Placement) -> String {
    let shard = placement.destination();
    match placement.source() {
        None => format!("shard {shard}"),
        Some(source) => format!("migrating from shard {source} to shard {shard}"),
    }
}

/// Stripes, in pixels and not in cells: they are as wide on a large plan as on a small one.
fn hatch(svg: &mut String, grid: Grid, set: &BucketSet) {
    let _ = write!(
        svg,
        r#"<clipPath id="hot"><path transform="translate({} {HEADER}) scale({}.{})" d="{}"/></clipPath>
<rect x="{}" y="{HEADER}" width="{MAP}" height="{}" fill="url(#migrating)" clip-path="url(#hot)" pointer-events="none"/>
"#,
        MARGIN + GUTTER,
        grid.cell / 10,
        grid.cell % 10,
        grid.outline(set),
        MARGIN + GUTTER,
        grid.height()
    );
}

/// The shards beside the map.
#[derive(Debug)]
struct Legend {
    columns: usize,
    /// Shards in a column.
    rows: usize,
    height: usize,
}

impl Legend {
    fn of(summary: &Summary, map: usize) -> Self {
        let shards = summary.shards;
        let rows = (map / LINE).saturating_sub(4).max(12).min(shards.max(1));
        Self {
            columns: shards.div_ceil(rows).clamp(1, MAX_LEGEND_COLUMNS),
            rows,
            // Over the shards stands a heading; under them what is migrating, and what is left out.
            height: (rows + 4) * LINE,
        }
    }

    fn draw(&self, svg: &mut String, summary: &Summary) {
        let x0 = MARGIN + GUTTER + MAP + MARGIN;
        let shown = self.columns * self.rows;
        let _ = writeln!(
            svg,
            r##"<text x="{x0}" y="{}" fill="#555555">shard: buckets (share)</text>"##,
            HEADER + 12
        );
        for (index, shard) in summary.per_shard.iter().enumerate().take(shown) {
            let x = x0 + index / self.rows * LEGEND_COLUMN;
            let y = HEADER + (1 + index % self.rows) * LINE;
            let _ = writeln!(
                svg,
                r#"<rect x="{x}" y="{}" width="14" height="14" fill="{}"/><text x="{}" y="{}">{}</text>"#,
                y + 1,
                colour(index),
                x + 22,
                y + 12,
                entry(shard, summary.buckets)
            );
        }
        let mut y = HEADER + (1 + self.rows) * LINE + LINE / 2;
        if let Some(more) = summary.shards.checked_sub(shown).filter(|more| *more > 0) {
            let _ = writeln!(
                svg,
                r##"<text x="{x0}" y="{}" fill="#555555">and {more} more shards</text>"##,
                y + 12
            );
            y += LINE;
        }
        if summary.migrating > 0 {
            let _ = writeln!(
                svg,
                r##"<rect x="{x0}" y="{}" width="14" height="14" fill="#777777"/><rect x="{x0}" y="{}" width="14" height="14" fill="url(#migrating)"/><text x="{}" y="{}">migrating to it: {}</text>"##,
                y + 1,
                y + 1,
                x0 + 22,
                y + 12,
                count(summary.migrating.into())
            );
        }
    }
}

/// `4: 1,639 (40.0 %), weight 2`
fn entry(shard: &ShardSummary, buckets: u32) -> String {
    let share = percent(shard.buckets, buckets);
    let mut text = format!("{}: {} ({share})", shard.shard, count(shard.buckets.into()));
    if shard.leaving {
        text.push_str(", leaving");
    } else if shard.weight != 1 {
        let _ = write!(text, ", weight {}", shard.weight);
    }
    text
}

/// The colour of the shard at this place of the plan's list.
fn colour(index: usize) -> String {
    match PALETTE.get(index) {
        Some(colour) => (*colour).to_owned(),
        None => turned(index - PALETTE.len()),
    }
}

/// Hues that go on by the golden angle, so that neighbours in the list are far apart on the wheel;
/// lighter and darker in turn.
fn turned(step: usize) -> String {
    let hue = (step * 13_751 + 2_000) % 36_000;
    let (low, high) = [(60, 190), (110, 235), (30, 140)][step % 3];
    // One of the three channels is high, one is low, and one is in between, by sixths of the wheel.
    let within = hue % 6_000 * (high - low) / 6_000;
    let (rising, falling) = (low + within, high - within);
    let (r, g, b) = match hue / 6_000 {
        0 => (high, rising, low),
        1 => (falling, high, low),
        2 => (low, high, rising),
        3 => (low, falling, high),
        4 => (rising, low, high),
        _ => (high, low, falling),
    };
    format!("#{r:02x}{g:02x}{b:02x}")
}

#[cfg(test)]
mod tests;
