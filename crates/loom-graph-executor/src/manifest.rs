//! What a graph consists of, to recognise it by.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use ahash::RandomState;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::GraphNode;

/// The first line of the text form.
const HEADING: &str = "loom.graph 1";

/// What a graph consists of: keys, flows, inputs and edges, each as a digest. Two graphs with the same manifest are the same
/// graph. How a graph is run (limit, retries, timeouts, placement) is no part of it.
///
/// Whoever runs a graph that may have to be resumed keeps its manifest where the parent's log begins, in the input of the parent or
/// as its first effect, and hands what is recorded to [`GraphOptions::with_recorded`](crate::GraphOptions::with_recorded): a graph
/// that has changed since is then refused, naming the difference, and nothing of it is dispatched.
///
/// It is written as text, one line for each node and stable between versions, and read by [`FromStr`]. A line has 51 bytes
/// and the key.
///
/// ```
/// use loom_graph_executor::{GraphManifest, GraphNode};
///
/// let nodes = [GraphNode::new("a", "f"), GraphNode::new("b", "f").after(["a"])];
/// let recorded = GraphManifest::of(&nodes).to_string();
///
/// let changed = [nodes[0].clone(), nodes[1].clone().with_input("7")];
/// let recorded: GraphManifest = recorded.parse()?;
/// let difference = recorded.difference(&GraphManifest::of(&changed)).unwrap();
/// assert_eq!(difference.to_string(), "the input of node `b` has changed");
/// # Ok::<(), loom_graph_executor::InvalidManifest>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphManifest {
    nodes: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    flow: u64,
    input: u64,
    after: u64,
}

impl GraphManifest {
    /// That of a graph.
    #[must_use]
    pub fn of(nodes: &[GraphNode]) -> Self {
        let entry = |node: &GraphNode| Entry {
            key: node.key.clone(),
            flow: xxh3_64(node.flow.as_bytes()),
            input: xxh3_64(&node.input),
            after: digest(&node.after),
        };
        Self {
            nodes: nodes.iter().map(entry).collect(),
        }
    }

    /// A digest of the whole, for logs and headings.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(self.to_string().as_bytes());
        hash.digest128()
    }

    /// In what `other` differs from this, as recorded: the first difference, in the order of the nodes.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<GraphDifference> {
        if self == other {
            return None;
        }
        let index = |nodes: &[Entry]| -> HashMap<String, Entry, RandomState> {
            nodes
                .iter()
                .map(|node| (node.key.clone(), node.clone()))
                .collect()
        };
        let (before, now) = (index(&self.nodes), index(&other.nodes));
        for entry in &self.nodes {
            let node = || entry.key.clone();
            let Some(now) = now.get(&entry.key) else {
                return Some(GraphDifference::Gone { node: node() });
            };
            if now.flow != entry.flow {
                return Some(GraphDifference::Flow { node: node() });
            }
            if now.after != entry.after {
                return Some(GraphDifference::After { node: node() });
            }
            if now.input != entry.input {
                return Some(GraphDifference::Input { node: node() });
            }
        }
        let new = other
            .nodes
            .iter()
            .find(|node| !before.contains_key(&node.key));
        Some(match new {
            Some(new) => GraphDifference::New {
                node: new.key.clone(),
            },
            None => GraphDifference::Order,
        })
    }
}

/// Of texts without NUL characters.
fn digest(texts: &[String]) -> u64 {
    let mut hash = Xxh3::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    }
    hash.digest()
}

impl fmt::Display for GraphManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADING)?;
        for Entry {
            key,
            flow,
            input,
            after,
        } in &self.nodes
        {
            write!(f, "\n{flow:016x} {input:016x} {after:016x} {key}")?;
        }
        Ok(())
    }
}

impl FromStr for GraphManifest {
    type Err = InvalidManifest;

    fn from_str(text: &str) -> Result<Self, InvalidManifest> {
        let mut lines = text.split('\n');
        if lines.next() != Some(HEADING) {
            return Err(InvalidManifest::Heading);
        }
        let entry = |text: &str| {
            let mut parts = text.splitn(4, ' ');
            let mut hash = || {
                let part = parts.next().filter(|part| part.len() == 16)?;
                u64::from_str_radix(part, 16).ok()
            };
            let (flow, input, after) = (hash()?, hash()?, hash()?);
            let key = parts.next()?.to_owned();
            Some(Entry {
                key,
                flow,
                input,
                after,
            })
        };
        let mut nodes = Vec::new();
        for (line, text) in (2..).zip(lines) {
            nodes.push(entry(text).ok_or(InvalidManifest::Line { line })?);
        }
        Ok(Self { nodes })
    }
}

/// In what a graph differs from the one that is recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphDifference {
    /// It lacks a node.
    #[error("node `{node}` is gone")]
    Gone {
        /// Its key.
        node: String,
    },
    /// It has one more.
    #[error("node `{node}` is new")]
    New {
        /// Its key.
        node: String,
    },
    /// A node runs other code.
    #[error("the flow of node `{node}` has changed")]
    Flow {
        /// Its key.
        node: String,
    },
    /// A node is given something else.
    #[error("the input of node `{node}` has changed")]
    Input {
        /// Its key.
        node: String,
    },
    /// A node waits for others, or for the same in another order.
    #[error("what node `{node}` comes after has changed")]
    After {
        /// Its key.
        node: String,
    },
    /// The nodes stand in another order.
    #[error("the order of the nodes has changed")]
    Order,
}

/// Why a text is no manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidManifest {
    /// It begins with something else.
    #[error(
        "it does not begin with the line `{HEADING}`: it is no manifest, or one of a newer version"
    )]
    Heading,
    /// A line is none of a manifest.
    #[error(
        "line {line} is not three digests of 16 hexadecimal digits and a key, separated by spaces"
    )]
    Line {
        /// Which one, counted from 1.
        line: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<GraphNode> {
        vec![
            GraphNode::new("a b", "f").with_input("1"),
            GraphNode::new("c", "g").after(["a b"]),
        ]
    }

    #[test]
    fn the_text_form_is_stable_and_reads_back() {
        let manifest = GraphManifest::of(&nodes());
        let text = manifest.to_string();
        assert_eq!(
            text,
            "loom.graph 1\n33c155909ff3ba9a 65cd25028f98f158 2d06800538d394c2 a b\n\
             aa19e6ddf2f9b697 2d06800538d394c2 80f79a63aba3d52e c"
        );
        assert_eq!(text.parse(), Ok(manifest));
        let empty = GraphManifest::of(&[]);
        assert_eq!(empty.to_string().parse(), Ok(empty));
    }

    #[test]
    fn how_a_graph_is_run_is_no_part_of_what_it_is() {
        let plain = GraphManifest::of(&nodes());
        let tried: Vec<_> = nodes()
            .into_iter()
            .map(|node| node.with_retry(crate::Retry::attempts(9)))
            .collect();
        assert_eq!(plain, GraphManifest::of(&tried));
        assert_eq!(plain.digest(), GraphManifest::of(&tried).digest());
    }

    #[test]
    fn each_change_is_named() {
        let recorded = GraphManifest::of(&nodes());
        let after = |change: fn(&mut Vec<GraphNode>)| {
            let mut nodes = nodes();
            change(&mut nodes);
            let now = GraphManifest::of(&nodes);
            assert_ne!(now.digest(), recorded.digest());
            recorded.difference(&now).unwrap().to_string()
        };
        assert_eq!(recorded.difference(&recorded), None);
        assert_eq!(
            after(|nodes| nodes[0].flow = "h".into()),
            "the flow of node `a b` has changed"
        );
        assert_eq!(
            after(|nodes| nodes[1].input = "1".into()),
            "the input of node `c` has changed"
        );
        assert_eq!(
            after(|nodes| nodes[1].after.clear()),
            "what node `c` comes after has changed"
        );
        assert_eq!(after(|nodes| drop(nodes.pop())), "node `c` is gone");
        assert_eq!(
            after(|nodes| nodes.push(GraphNode::new("d", "f"))),
            "node `d` is new"
        );
        assert_eq!(
            after(|nodes| nodes.reverse()),
            "the order of the nodes has changed"
        );
    }

    #[test]
    fn what_is_no_manifest_is_refused_with_its_line() {
        for text in ["", "loom.graph 2", "x"] {
            assert_eq!(text.parse::<GraphManifest>(), Err(InvalidManifest::Heading));
        }
        let short = format!("{HEADING}\n{:016x} {:016x} 7 key", 1, 2);
        assert_eq!(
            short.parse::<GraphManifest>(),
            Err(InvalidManifest::Line { line: 2 })
        );
        let end = format!("{HEADING}\n");
        assert_eq!(
            end.parse::<GraphManifest>(),
            Err(InvalidManifest::Line { line: 2 })
        );
    }
}
