//! Graph files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use loom_graph_executor::OnFailure;
use loom_spi::ExecutionId;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};
use toml::Spanned;

use super::policy::{self, Policy};
use crate::config::folder_of;
use crate::failure::Failure;
use crate::source::Source;

/// A graph as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GraphFile {
    /// Where the commands run: the folder of the file.
    pub(crate) folder: PathBuf,
    pub(crate) id: Option<ExecutionId>,
    /// How many nodes run at a time.
    pub(crate) limit: Option<usize>,
    /// What becomes of the other nodes when one fails.
    pub(crate) on_failure: OnFailure,
    /// In the order of the file.
    pub(crate) nodes: Vec<Node>,
    /// How each of them is run.
    pub(crate) policies: Vec<Policy>,
}

/// One node. What is here decides what it does: a log that was written for another definition is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) key: String,
    pub(crate) command: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) after: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) input: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    graph: RawGraph,
    #[serde(default)]
    node: BTreeMap<Spanned<String>, RawNode>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGraph {
    id: Option<Spanned<String>>,
    limit: Option<Spanned<usize>>,
    on_failure: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNode {
    command: Spanned<Vec<String>>,
    #[serde(default)]
    after: Vec<Spanned<String>>,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, String>,
    input: Option<Spanned<toml::Value>>,
    timeout: Option<Spanned<toml::Value>>,
    retries: Option<Spanned<toml::Value>>,
}

impl GraphFile {
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        Self::parse(&Source::read(path, "graph file")?)
    }

    pub(crate) fn parse(source: &Source) -> Result<Self, Failure> {
        let raw: RawFile = source.parse_toml()?;
        let id = raw.graph.id.map(|id| {
            ExecutionId::new(id.get_ref())
                .map_err(|error| source.fault(id.span(), &format!("`id`: {error}")))
        });
        let limit = raw.graph.limit.map(|limit| match limit.get_ref() {
            0 => Err(source.fault(limit.span(), "`limit` is 0: expected at least 1")),
            &limit => Ok(limit),
        });
        let on_failure = raw.graph.on_failure;
        let on_failure = on_failure.map(|text| policy::on_failure(source, &text));
        let mut entries: Vec<_> = raw.node.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let keys: BTreeSet<String> = entries
            .iter()
            .map(|(key, _)| key.get_ref().clone())
            .collect();
        let mut places = BTreeMap::new();
        let mut nodes = Vec::with_capacity(entries.len());
        let mut policies = Vec::with_capacity(entries.len());
        for (key, raw) in entries {
            let (name, timeout, retries) = (key.get_ref(), &raw.timeout, &raw.retries);
            let timeout = timeout
                .as_ref()
                .map(|value| policy::timeout(source, name, value));
            let retry = retries
                .as_ref()
                .map(|value| policy::retries(source, name, value));
            policies.push(Policy {
                timeout: timeout.transpose()?,
                retry: retry.transpose()?,
            });
            places.insert(key.get_ref().clone(), key.span());
            nodes.push(node(source, &key, raw, &keys)?);
        }
        let graph = Self {
            folder: folder_of(source.path()).to_owned(),
            id: id.transpose()?,
            limit: limit.transpose()?,
            on_failure: on_failure.transpose()?.unwrap_or_default(),
            nodes,
            policies,
        };
        graph.check_acyclic(source, &places)?;
        Ok(graph)
    }

    /// Takes away nodes whose predecessors are gone until none can be: what is left is on a cycle, or behind one.
    fn check_acyclic(
        &self,
        source: &Source,
        places: &BTreeMap<String, Range<usize>>,
    ) -> Result<(), Failure> {
        let mut left: Vec<&Node> = self.nodes.iter().collect();
        loop {
            let keys: BTreeSet<&str> = left.iter().map(|node| node.key.as_str()).collect();
            let before = left.len();
            left.retain(|node| node.after.iter().any(|after| keys.contains(after.as_str())));
            if left.len() == before {
                break;
            }
        }
        let Some(cycle) = cycle_in(&left) else {
            return Ok(());
        };
        let place = cycle.first().and_then(|key| places.get(*key)).cloned();
        let mut path: Vec<&str> = cycle.clone();
        path.extend(cycle.first());
        Err(source.fault(
            place.unwrap_or(0..0),
            &format!(
                "the nodes wait for each other: `{}`: expected `after` without a cycle",
                path.join("` after `")
            ),
        ))
    }

    /// What the log of a run keeps of the graph, to refuse another graph under its id.
    pub(crate) fn definition(&self) -> Definition {
        Definition {
            nodes: self.nodes.clone(),
        }
    }
}

/// The input of the execution that a graph's run is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) nodes: Vec<Node>,
}

impl Definition {
    /// In what `other` differs, in a few words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let find = |nodes: &[Node], key: &str| nodes.iter().find(|node| node.key == key).cloned();
        for node in &self.nodes {
            let key = &node.key;
            let Some(now) = find(&other.nodes, key) else {
                return Some(format!("node `{key}` is gone"));
            };
            let changed = [
                ("command", node.command != now.command),
                ("after", node.after != now.after),
                ("env", node.env != now.env),
                ("input", node.input != now.input),
            ];
            if let Some((what, _)) = changed.iter().find(|(_, changed)| *changed) {
                return Some(format!("`{what}` of node `{key}` has changed"));
            }
        }
        let new = other
            .nodes
            .iter()
            .find(|node| find(&self.nodes, &node.key).is_none());
        if let Some(node) = new {
            return Some(format!("node `{}` is new", node.key));
        }
        (self != other).then(|| "the order of the nodes has changed".to_owned())
    }
}

/// Follows predecessors, each of which has one among `left`, until one is met again.
fn cycle_in<'a>(left: &[&'a Node]) -> Option<Vec<&'a str>> {
    let mut path: Vec<&Node> = vec![left.first()?];
    loop {
        let last = path.last()?;
        let next = left.iter().find(|node| last.after.contains(&node.key))?;
        if let Some(start) = path.iter().position(|node| node.key == next.key) {
            return Some(path[start..].iter().map(|node| node.key.as_str()).collect());
        }
        path.push(next);
    }
}

fn node(
    source: &Source,
    key: &Spanned<String>,
    raw: RawNode,
    keys: &BTreeSet<String>,
) -> Result<Node, Failure> {
    let name = key.get_ref();
    ExecutionId::new(name).map_err(|_| {
        source.fault(
            key.span(),
            "the key of a node is 1 to 255 bytes without control characters",
        )
    })?;
    let command = raw.command.get_ref();
    if command.first().is_none_or(String::is_empty) {
        let message =
            format!("`command` of node `{name}` is empty: expected a program and its arguments");
        return Err(source.fault(raw.command.span(), &message));
    }
    if command.iter().any(|part| part.contains('\0')) {
        let message =
            format!("`command` of node `{name}` holds a NUL character: no program takes one");
        return Err(source.fault(raw.command.span(), &message));
    }
    let mut after = Vec::with_capacity(raw.after.len());
    for entry in raw.after {
        let wanted = entry.get_ref();
        let message = if wanted == name {
            format!("node `{name}` is after itself: expected the keys of other nodes")
        } else if !keys.contains(wanted) {
            let known: Vec<&str> = keys.iter().map(String::as_str).collect();
            format!(
                "node `{name}` is after `{wanted}`, which is no node: expected one of `{}`",
                known.join("`, `")
            )
        } else if after.contains(wanted) {
            format!("node `{name}` is after `{wanted}` twice: expected each key once")
        } else {
            after.push(wanted.clone());
            continue;
        };
        return Err(source.fault(entry.span(), &message));
    }
    let mut env = BTreeMap::new();
    for (variable, value) in raw.env {
        let bad = |text: &str| text.contains('\0');
        let text = variable.get_ref();
        if text.is_empty() || text.contains('=') || bad(text) || bad(&value) {
            let message = format!(
                "`env` of node `{name}`: expected a name without `=`, and no NUL characters"
            );
            return Err(source.fault(variable.span(), &message));
        }
        env.insert(text.clone(), value);
    }
    let input = match raw.input {
        None => Value::Null,
        Some(input) => to_json(input.get_ref()).ok_or_else(|| {
            let message = format!(
                "`input` of node `{name}` holds a number that JSON cannot: expected a finite one"
            );
            source.fault(input.span(), &message)
        })?,
    };
    Ok(Node {
        key: name.clone(),
        command: command.clone(),
        after,
        env,
        input,
    })
}

/// Dates become text. `None` for numbers that JSON does not know.
fn to_json(value: &toml::Value) -> Option<Value> {
    Some(match value {
        toml::Value::String(text) => Value::String(text.clone()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::Number(Number::from_f64(*number)?),
        toml::Value::Boolean(truth) => Value::Bool(*truth),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => items.iter().map(to_json).collect::<Option<_>>()?,
        toml::Value::Table(table) => table
            .iter()
            .map(|(key, value)| Some((key.clone(), to_json(value)?)))
            .collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests;
