//! A graph while it runs, on stderr: a tree on a terminal, lines otherwise.

use std::io::{self, IsTerminal as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use loom_graph_executor::{GraphEvent, NodeOutcome};
use loom_spi::ExecutionId;

use super::file::GraphFile;
use crate::output::{Tone, colour_wanted, paint, printable, shortened, write_stderr};

/// With more nodes than fit on a screen, one bar stands for all.
const MOST_LINES: usize = 40;

/// Shows a graph while it runs.
pub(crate) struct View {
    kind: Kind,
    colour: bool,
    started: Mutex<Vec<Option<Instant>>>,
}

enum Kind {
    Lines,
    Tree {
        all: MultiProgress,
        nodes: Vec<ProgressBar>,
    },
    Bar(ProgressBar),
}

impl View {
    pub(crate) fn new(id: &ExecutionId, graph: &GraphFile) -> Self {
        let terminal = io::stderr().is_terminal();
        let kind = if !terminal {
            Kind::Lines
        } else if graph.nodes.len() <= MOST_LINES {
            tree(id, graph)
        } else {
            let bar = ProgressBar::with_draw_target(
                Some(graph.nodes.len() as u64),
                ProgressDrawTarget::stderr_with_hz(10),
            );
            let template = "{prefix} {bar:32} {pos}/{len} nodes  {per_sec}  ETA {eta}";
            Kind::Bar(styled(bar, template).with_prefix(id.to_string()))
        };
        Self {
            kind,
            colour: terminal && colour_wanted(),
            started: Mutex::new(vec![None; graph.nodes.len()]),
        }
    }

    pub(crate) fn observe(&self, event: &GraphEvent<'_>) {
        match *event {
            GraphEvent::Started { index, key, .. } => self.start(index, key),
            GraphEvent::Settled { index, result, .. } => {
                self.settle(index, &result.key, &result.outcome);
            }
            GraphEvent::Retrying {
                index,
                key,
                attempt,
                outcome,
                delay,
                ..
            } => {
                let again = format!(
                    "attempt {attempt} {outcome}; again in {:.2} s",
                    delay.as_secs_f64()
                );
                self.note(index, key, &again);
            }
            GraphEvent::TimedOut { index, key } => {
                self.note(index, key, "out of time: stopping it");
            }
            GraphEvent::Stopping { reason } => self.say(&format!("{reason}: stopping what runs")),
            _ => {}
        }
    }

    /// Says something about a node that has not settled.
    fn note(&self, index: usize, key: &str, text: &str) {
        let text = shortened(&printable(text), 120);
        match &self.kind {
            Kind::Lines => write_stderr(&format!("{key}: {text}\n")),
            Kind::Tree { nodes, .. } => {
                if let Some(node) = nodes.get(index) {
                    node.set_style(style("{prefix} {spinner} {msg}  {elapsed}"));
                    node.set_message(text);
                }
            }
            Kind::Bar(bar) => bar.suspend(|| write_stderr(&format!("{key}: {text}\n"))),
        }
    }

    /// Says something about the graph.
    fn say(&self, text: &str) {
        let text = shortened(&printable(text), 160);
        match &self.kind {
            Kind::Lines => write_stderr(&format!("{text}\n")),
            Kind::Tree { all, .. } => all.suspend(|| write_stderr(&format!("{text}\n"))),
            Kind::Bar(bar) => bar.suspend(|| write_stderr(&format!("{text}\n"))),
        }
    }

    fn start(&self, index: usize, key: &str) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = started.get_mut(index) {
            *at = Some(Instant::now());
        }
        match &self.kind {
            Kind::Lines => write_stderr(&format!("{key}: started\n")),
            Kind::Tree { nodes, .. } => {
                if let Some(node) = nodes.get(index) {
                    node.set_style(style("{prefix} {spinner} running  {elapsed}"));
                    node.reset_elapsed();
                    node.enable_steady_tick(Duration::from_millis(100));
                }
            }
            Kind::Bar(_) => {}
        }
    }

    fn settle(&self, index: usize, key: &str, outcome: &NodeOutcome) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let took = started.get(index).copied().flatten().map(|at| at.elapsed());
        let took = took.map_or_else(String::new, |took| format!("  {:.2} s", took.as_secs_f64()));
        let (mark, tone) = match outcome {
            NodeOutcome::Completed { .. } => ("✓", Tone::Good),
            NodeOutcome::Skipped { .. } | NodeOutcome::NotBegun { .. } => ("-", Tone::Quiet),
            _ => ("✗", Tone::Bad),
        };
        let text = outcome.to_string();
        let text = shortened(&printable(&text), 120);
        match &self.kind {
            Kind::Lines => write_stderr(&format!("{key}: {text}{took}\n")),
            Kind::Tree { nodes, .. } => {
                if let Some(node) = nodes.get(index) {
                    node.set_style(style("{prefix} {msg}"));
                    let mark = paint(self.colour, tone, mark);
                    node.finish_with_message(format!("{mark} {text}{took}"));
                }
            }
            Kind::Bar(bar) => {
                bar.inc(1);
                if !outcome.is_completed() {
                    bar.suspend(|| write_stderr(&format!("{key}: {text}\n")));
                }
            }
        }
    }

    /// Takes it off the screen: the join tells the same in full.
    pub(crate) fn finish(&self) {
        match &self.kind {
            Kind::Lines => {}
            Kind::Tree { all, nodes } => {
                for node in nodes {
                    node.finish_and_clear();
                }
                // An error means that there is no terminal any more.
                let _ = all.clear();
            }
            Kind::Bar(bar) => bar.finish_and_clear(),
        }
    }
}

fn tree(id: &ExecutionId, graph: &GraphFile) -> Kind {
    let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    let head = all.add(styled(ProgressBar::new(0), "{prefix}"));
    head.set_prefix(id.to_string());
    let width = graph
        .nodes
        .iter()
        .map(|node| node.key.chars().count())
        .max()
        .unwrap_or(0);
    let mut nodes = vec![];
    for (place, node) in (1..).zip(&graph.nodes) {
        let branch = if place == graph.nodes.len() {
            "└─"
        } else {
            "├─"
        };
        let after = match node.after.as_slice() {
            [] => "waiting".to_owned(),
            after => format!("waiting for {}", after.join(", ")),
        };
        let bar = all.add(styled(ProgressBar::new(0), "{prefix} · {msg}"));
        bar.set_prefix(format!("{branch} {:width$}", node.key));
        bar.set_message(after);
        nodes.push(bar);
    }
    // Cleared with the others.
    nodes.push(head);
    for bar in &nodes {
        bar.tick();
    }
    Kind::Tree { all, nodes }
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.set_style(style(template));
    bar
}

/// The templates are constants; one that did not parse would show the default.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
