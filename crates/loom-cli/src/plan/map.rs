//! The buckets of a plan as a map for a terminal: where it is hot, buckets are migrating.

use std::fmt::Write as _;

use loom_shard_plan::{Placement, Shard, ShardId, ShardPlan};

/// Cells in a row.
const COLUMNS: usize = 64;
/// Most cells: one for each bucket of a plan of the default size.
const MAX_CELLS: usize = 4096;

/// What marks a shard where there are no colours: its id, if all ids are short enough, else its place
/// in the plan's list; it comes again after 62 shards.
const GLYPHS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const MIGRATING: char = '#';
const MIXED: char = '·';

/// Colours of the 256 that terminals share: cool and of middling brightness, and neighbours in the
/// list unlike each other.
const SETTLED: [u8; 12] = [25, 72, 97, 66, 61, 29, 103, 31, 139, 23, 68, 108];
const HOT: u8 = 208;
const GREY: u8 = 242;

/// How a map is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Colours {
    /// Whether the terminal takes colours.
    pub(crate) on: bool,
}

fn colour(index: usize) -> u8 {
    SETTLED[index % SETTLED.len()]
}

/// One bucket, or as many neighbouring ones as a large plan needs to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// All on the shard at this place of the plan's list.
    Settled(usize),
    /// At least one is on its way.
    Migrating,
    /// On several shards.
    Mixed,
}

impl Cell {
    fn of(placements: &[Placement], index: impl Fn(ShardId) -> usize) -> Self {
        if placements.iter().any(|placement| placement.is_migrating()) {
            return Self::Migrating;
        }
        let mut shards = placements.iter().map(|placement| placement.destination());
        match shards.next() {
            Some(first) if shards.all(|shard| shard == first) => Self::Settled(index(first)),
            _ => Self::Mixed,
        }
    }

    fn colour(self) -> u8 {
        match self {
            Self::Settled(index) => colour(index),
            Self::Migrating => HOT,
            Self::Mixed => GREY,
        }
    }
}

/// A plan's buckets in rows.
#[derive(Debug)]
pub(crate) struct Map {
    cells: Vec<Cell>,
    /// The mark of each shard of the plan's list.
    marks: Vec<char>,
    /// Buckets of a cell.
    scale: usize,
}

impl Map {
    pub(crate) fn of(plan: &ShardPlan) -> Self {
        let placements: Vec<Placement> = plan.placements().collect();
        let scale = placements.len().div_ceil(MAX_CELLS);
        let index = |shard| {
            plan.shards()
                .binary_search_by_key(&shard, Shard::id)
                .unwrap_or_default()
        };
        Self {
            cells: placements
                .chunks(scale)
                .map(|placements| Cell::of(placements, index))
                .collect(),
            marks: marks(plan.shards()),
            scale,
        }
    }

    /// What the map shows for the shard at this place of the plan's list; two columns wide.
    pub(crate) fn label(&self, index: usize, colours: Colours) -> String {
        if colours.on {
            format!("\u{1b}[48;5;{}m  \u{1b}[0m", colour(index))
        } else {
            format!(" {}", self.glyph(Cell::Settled(index)))
        }
    }

    fn glyph(&self, cell: Cell) -> char {
        match cell {
            Cell::Settled(index) => self.marks.get(index).copied().unwrap_or(MIXED),
            Cell::Migrating => MIGRATING,
            Cell::Mixed => MIXED,
        }
    }

    pub(crate) fn render(&self, colours: Colours) -> String {
        let mut text = if colours.on {
            self.halves()
        } else {
            self.glyphs()
        };
        text.push_str(&self.legend(colours));
        text
    }

    /// A letter for each cell.
    fn glyphs(&self) -> String {
        let mut text = String::new();
        for (row, cells) in self.cells.chunks(COLUMNS).enumerate() {
            let cells: String = cells.iter().map(|cell| self.glyph(*cell)).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:>5}  {cells}", self.first_of(row));
        }
        text
    }

    /// Half a character for each cell, so that cells are about square.
    fn halves(&self) -> String {
        let rows: Vec<&[Cell]> = self.cells.chunks(COLUMNS).collect();
        let mut text = String::new();
        for (pair, rows) in rows.chunks(2).enumerate() {
            let _ = write!(text, "{:>5}  ", self.first_of(2 * pair));
            let (upper, lower) = (rows[0], rows.get(1).copied().unwrap_or_default());
            let mut set = None;
            for (column, cell) in upper.iter().enumerate() {
                let above = cell.colour();
                let below = lower.get(column).map(|cell| cell.colour());
                if set != Some((above, below)) {
                    let _ = match below {
                        Some(below) => write!(text, "\u{1b}[38;5;{above};48;5;{below}m"),
                        None => write!(text, "\u{1b}[0;38;5;{above}m"),
                    };
                    set = Some((above, below));
                }
                text.push('▀');
            }
            text.push_str("\u{1b}[0m\n");
        }
        text
    }

    /// The first bucket of a row.
    fn first_of(&self, row: usize) -> usize {
        row * COLUMNS * self.scale
    }

    /// What is not one of the shards.
    fn legend(&self, colours: Colours) -> String {
        let mut entries = Vec::new();
        for (cell, meaning) in [
            (Cell::Migrating, "migrating"),
            (Cell::Mixed, "several shards"),
        ] {
            if !self.cells.contains(&cell) {
                continue;
            }
            entries.push(if colours.on {
                format!("\u{1b}[48;5;{}m  \u{1b}[0m {meaning}", cell.colour())
            } else {
                format!("{} {meaning}", self.glyph(cell))
            });
        }
        if self.scale > 1 {
            entries.push(format!("{} buckets a cell", self.scale));
        }
        if entries.is_empty() {
            String::new()
        } else {
            format!("\n       {}\n", entries.join("    "))
        }
    }
}

fn marks(shards: &[Shard]) -> Vec<char> {
    let short = |shard: &Shard| usize::from(shard.id().get()) < GLYPHS.len();
    let by_id = shards.iter().all(short);
    let mark = |(index, shard): (usize, &Shard)| {
        let at = if by_id {
            usize::from(shard.id().get())
        } else {
            index
        };
        char::from(GLYPHS[at % GLYPHS.len()])
    };
    shards.iter().enumerate().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use loom_shard_plan::{HashFunction, RebalanceOptions, Topology};

    use super::*;

    fn plain(plan: &ShardPlan) -> String {
        Map::of(plan).render(Colours { on: false })
    }

    #[test]
    fn a_plan_of_the_default_size_has_a_cell_for_each_bucket() {
        let plan = ShardPlan::new(4).unwrap();
        let plan = plan.rebalanced(5, RebalanceOptions::default()).unwrap();
        let map = plain(&plan);
        let rows: Vec<&str> = map.lines().take(64).collect();
        assert!(rows.iter().all(|row| row.len() == 7 + COLUMNS), "{map}");
        let shown = rows.iter().map(|row| &row[7..]).collect::<String>();
        for (cell, placement) in shown.chars().zip(plan.placements()) {
            let expected = match placement {
                Placement::Settled(shard) => shard.to_string().chars().next(),
                Placement::Migrating { .. } => Some(MIGRATING),
            };
            assert_eq!(Some(cell), expected);
        }
        assert!(map.ends_with("\n       # migrating\n"), "{map}");
    }

    #[test]
    fn cells_of_a_large_plan_stand_for_several_buckets() {
        let large = ShardPlan::with_buckets(2, 65_536).unwrap();
        assert!(plain(&large).contains("\n32768  1111"), "{}", plain(&large));
        let cyclic = ShardPlan::adopting(3)
            .and_then(|plan| plan.split(16))
            .unwrap();
        let map = plain(&cyclic);
        assert!(
            map.contains("· several shards    12 buckets a cell"),
            "{map}"
        );
    }

    #[test]
    fn colours_show_the_same_cells() {
        let plan = ShardPlan::with_buckets(2, 100).unwrap();
        let map = Map::of(&plan).render(Colours { on: true });
        assert_eq!(map.matches('▀').count(), COLUMNS, "{map:?}");
        // Two rows in one line; the lower one ends first, and what is not there has no background.
        let last = format!("\u{1b}[0;38;5;{}m", colour(1));
        assert!(map.contains(&last), "{map:?}");
    }

    #[test]
    fn a_mark_is_the_id_of_its_shard_while_ids_are_short() {
        let with = |shard: u16| {
            let topology = Topology::equal(1).joining(ShardId(shard), 1).unwrap();
            plain(&ShardPlan::first(&topology, 4, HashFunction::default()).unwrap())
        };
        assert_eq!(with(7), "    0  0077\n");
        assert_eq!(with(10), "    0  00AA\n");
        assert_eq!(with(61), "    0  00zz\n");
        assert_eq!(with(1000), "    0  0011\n");
    }

    #[test]
    fn one_bucket_is_a_map() {
        assert_eq!(plain(&ShardPlan::with_buckets(1, 1).unwrap()), "    0  0\n");
    }
}
