//! A graph as a drawing: for Graphviz, and as SVG.

use std::fmt::Write as _;

use loom_spi::ExecutionId;

/// What is drawn.
#[derive(Debug)]
pub(crate) struct Picture<'a> {
    pub(crate) id: &'a ExecutionId,
    /// How the graph is.
    pub(crate) outcome: &'a str,
    pub(crate) nodes: Vec<Drawn<'a>>,
}

/// One node of it.
#[derive(Debug)]
pub(crate) struct Drawn<'a> {
    pub(crate) key: &'a str,
    pub(crate) outcome: &'a str,
    pub(crate) attempts: usize,
    /// The places of those that it waits for.
    pub(crate) after: Vec<usize>,
}

/// Side lengths and distances, in pixels.
const WIDTH: usize = 190;
const HEIGHT: usize = 46;
const ACROSS: usize = 70;
const DOWN: usize = 18;
const MARGIN: usize = 24;
const HEADER: usize = 64;
/// Characters of a key that fit.
const FITS: usize = 24;

/// Fill and border for each outcome; colours that the colour-blind can tell apart (Okabe and Ito, "Color universal
/// design", 2008), and the outcome stands there in words as well.
fn colours(outcome: &str) -> (&'static str, &'static str) {
    match outcome {
        "completed" => ("#d9f0e8", "#009e73"),
        "failed" | "panicked" => ("#f9e0d2", "#d55e00"),
        "timed-out" | "cancelled" => ("#fcefd3", "#e69f00"),
        "open" => ("#d6e8f5", "#0072b2"),
        _ => ("#eeeeee", "#777777"),
    }
}

impl Picture<'_> {
    /// The graph in the language of Graphviz.
    pub(crate) fn dot(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "digraph {} {{\n  rankdir=LR;\n  label={};\n  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\"];",
            quoted(self.id.as_str()),
            quoted(&format!("{} ({})", self.id, self.outcome)),
        );
        for node in &self.nodes {
            let (fill, border) = colours(node.outcome);
            let label = format!("{}\n{}", node.key, node.caption());
            let _ = writeln!(
                text,
                "  {} [label={}, fillcolor=\"{fill}\", color=\"{border}\"];",
                quoted(node.key),
                quoted(&label)
            );
        }
        for node in &self.nodes {
            for after in &node.after {
                let from = quoted(self.nodes[*after].key);
                let _ = writeln!(text, "  {from} -> {};", quoted(node.key));
            }
        }
        text.push_str("}\n");
        text
    }

    /// The graph from left to right, each node to the right of all that it waits for. Only elements and attributes that
    /// every renderer knows.
    pub(crate) fn svg(&self) -> String {
        let columns = self.columns();
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        let extent =
            |count: usize, size: usize, gap: usize| (count * (size + gap)).saturating_sub(gap);
        let width = (2 * MARGIN + extent(columns.len(), WIDTH, ACROSS)).max(320);
        let height = HEADER + extent(rows, HEIGHT, DOWN) + MARGIN;
        let mut places = vec![(0, 0); self.nodes.len()];
        for (column, nodes) in columns.iter().enumerate() {
            // Each column is centred.
            let free = extent(rows, HEIGHT, DOWN) - extent(nodes.len(), HEIGHT, DOWN);
            for (row, node) in nodes.iter().enumerate() {
                places[*node] = (
                    MARGIN + column * (WIDTH + ACROSS),
                    HEADER + free / 2 + row * (HEIGHT + DOWN),
                );
            }
        }
        let mut svg = String::new();
        let _ = writeln!(
            svg,
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif" font-size="13" fill="#222222">
<title>Graph {id}, {outcome}</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="#777777"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<text x="{MARGIN}" y="30" font-size="16" font-weight="bold">{short}</text>
<text x="{MARGIN}" y="48" fill="#555555">{outcome}, {completed} of {all} nodes completed</text>"##,
            id = escaped(self.id.as_str()),
            short = escaped(&cut(self.id.as_str(), (width - 2 * MARGIN) / 9)),
            outcome = escaped(self.outcome),
            completed = self
                .nodes
                .iter()
                .filter(|node| node.outcome == "completed")
                .count(),
            all = self.nodes.len(),
        );
        for (node, (x, y)) in self.nodes.iter().zip(&places) {
            for after in &node.after {
                let (from_x, from_y) = places[*after];
                let (x1, y1) = (from_x + WIDTH, from_y + HEIGHT / 2);
                let (x2, y2) = (*x, y + HEIGHT / 2);
                let bend = ACROSS / 2;
                let _ = writeln!(
                    svg,
                    r##"<path d="M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}" fill="none" stroke="#777777" marker-end="url(#arrow)"/>"##,
                    x1 + bend,
                    x2 - bend,
                );
            }
        }
        for (node, (x, y)) in self.nodes.iter().zip(&places) {
            let (fill, border) = colours(node.outcome);
            let _ = writeln!(
                svg,
                r##"<g><title>{key}: {caption}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{border}" stroke-width="1.5"/><text x="{text}" y="{first}" font-weight="bold">{short}</text><text x="{text}" y="{second}" font-size="11" fill="#555555">{caption}</text></g>"##,
                key = escaped(node.key),
                short = escaped(&cut(node.key, FITS)),
                caption = escaped(&node.caption()),
                text = x + 12,
                first = y + 20,
                second = y + 36,
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// The nodes by how many stand one behind the other before them.
    fn columns(&self) -> Vec<Vec<usize>> {
        let mut depth = vec![0; self.nodes.len()];
        let mut waiting: Vec<usize> = self.nodes.iter().map(|node| node.after.len()).collect();
        let mut behind = vec![Vec::new(); self.nodes.len()];
        for (place, node) in self.nodes.iter().enumerate() {
            for after in &node.after {
                behind[*after].push(place);
            }
        }
        let mut next: Vec<usize> = (0..waiting.len())
            .filter(|place| waiting[*place] == 0)
            .collect();
        while let Some(place) = next.pop() {
            for dependent in &behind[place] {
                depth[*dependent] = depth[*dependent].max(depth[place] + 1);
                waiting[*dependent] -= 1;
                if waiting[*dependent] == 0 {
                    next.push(*dependent);
                }
            }
        }
        let mut columns = vec![Vec::new(); depth.iter().max().map_or(0, |deepest| deepest + 1)];
        for (place, depth) in depth.into_iter().enumerate() {
            columns[depth].push(place);
        }
        columns
    }
}

impl Drawn<'_> {
    fn caption(&self) -> String {
        match self.attempts {
            0 | 1 => self.outcome.to_owned(),
            attempts => format!("{}, {attempts} attempts", self.outcome),
        }
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// A string of Graphviz. A backslash would begin an escape there.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}

/// As text or a value in XML.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no place for these, and neither ids nor keys hold control characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture<'a>(id: &'a ExecutionId, hostile: &'a str) -> Picture<'a> {
        let node = |key, outcome, attempts, after: &[usize]| Drawn {
            key,
            outcome,
            attempts,
            after: after.to_vec(),
        };
        Picture {
            id,
            outcome: "failed",
            nodes: vec![
                node("report", "skipped", 0, &[1, 2]),
                node("metrics", "completed", 3, &[]),
                node("logs", "timed-out", 2, &[3]),
                node("fetch", "completed", 1, &[]),
                node(hostile, "open", 1, &[]),
            ],
        }
    }

    #[test]
    fn a_graph_is_drawn_for_graphviz() {
        let id = ExecutionId::new("incident-42").unwrap();
        insta::assert_snapshot!(picture(&id, "say \"hi\" \\ <b>").dot());
    }

    #[test]
    fn a_graph_is_drawn_as_svg_with_its_text_escaped() {
        let id = ExecutionId::new("<incident> & \"co\"").unwrap();
        let svg = picture(&id, "</text><script>alert('x')</script>").svg();
        assert!(!svg.contains("<script"), "{svg}");
        insta::assert_snapshot!(svg);
    }

    #[test]
    fn a_node_stands_right_of_everything_that_it_waits_for_and_no_two_share_a_place() {
        let id = ExecutionId::new("g").unwrap();
        let picture = picture(&id, "other");
        let columns = picture.columns();
        assert_eq!(columns, [vec![1, 3, 4], vec![2], vec![0]]);
    }

    #[test]
    fn an_empty_graph_is_a_picture_too() {
        let id = ExecutionId::new("g").unwrap();
        let picture = Picture {
            id: &id,
            outcome: "completed",
            nodes: Vec::new(),
        };
        assert!(picture.svg().ends_with("</svg>\n"));
        assert!(picture.dot().starts_with("digraph \"g\" {"));
    }
}
