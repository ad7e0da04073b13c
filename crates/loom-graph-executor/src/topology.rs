//! Which node waits for which.

use std::mem;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::{GraphError, GraphNode};

/// The edges of a valid graph, in both directions.
#[derive(Debug)]
pub(crate) struct Topology {
    /// For each node what it waits for, in the order declared.
    upstream: Adjacency,
    /// For each node what waits for it.
    dependents: Adjacency,
}

impl Topology {
    /// Checks a graph. Takes time and memory linear in its nodes and edges.
    pub(crate) fn of(nodes: &[GraphNode]) -> Result<Self, GraphError> {
        if u32::try_from(nodes.len()).is_err() {
            return Err(GraphError::TooManyNodes { nodes: nodes.len() });
        }
        let index = KeyIndex::of(nodes)?;
        if nodes.iter().all(|node| node.after.is_empty()) {
            return Ok(Self {
                upstream: Adjacency::with_capacity(0),
                dependents: Adjacency::with_capacity(0),
            });
        }
        let upstream = resolve(nodes, &index)?;
        let dependents = upstream.reversed();
        let topology = Self {
            upstream,
            dependents,
        };
        match topology.cycle() {
            None => Ok(topology),
            Some(cycle) => Err(GraphError::Cycle {
                nodes: cycle.iter().map(|node| nodes[*node].key.clone()).collect(),
            }),
        }
    }

    /// For each node how many others it waits for. Empty where there are no edges.
    pub(crate) fn upstream_counts(&self) -> Vec<u32> {
        // No node is waited for twice, and their number fits.
        let count = |node| u32::try_from(self.upstream(node).len()).unwrap_or(u32::MAX);
        (0..self.upstream.len()).map(count).collect()
    }

    pub(crate) fn upstream(&self, node: usize) -> &[u32] {
        self.upstream.of(node)
    }

    pub(crate) fn dependents(&self, node: usize) -> &[u32] {
        self.dependents.of(node)
    }

    /// The nodes of one cycle, if there is any: what is left when nodes are taken away that wait for nothing that
    /// is left (Kahn's algorithm).
    fn cycle(&self) -> Option<Vec<usize>> {
        if self.upstream.targets.is_empty() {
            return None;
        }
        let mut waiting = self.upstream_counts();
        let nodes = 0..waiting.len();
        let mut free: Vec<usize> = nodes.filter(|node| waiting[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for dependent in self.dependents(node) {
                let dependent = *dependent as usize;
                waiting[dependent] -= 1;
                if waiting[dependent] == 0 {
                    free.push(dependent);
                }
            }
        }
        let start = waiting.iter().position(|waiting| *waiting > 0)?;
        Some(self.walk_into_cycle(start, &waiting))
    }

    /// Every node that is left waits for another one that is left, so that a walk along those comes back to
    /// where it was.
    fn walk_into_cycle(&self, start: usize, waiting: &[u32]) -> Vec<usize> {
        let mut place = vec![usize::MAX; waiting.len()];
        let mut path = Vec::new();
        let mut node = start;
        while place[node] == usize::MAX {
            place[node] = path.len();
            path.push(node);
            let mut upstream = self.upstream(node).iter().map(|up| *up as usize);
            match upstream.find(|up| waiting[*up] > 0) {
                Some(up) => node = up,
                None => break,
            }
        }
        path.split_off(place[node])
    }
}

/// Finds nodes by their keys. Four bytes a node, so that it stays in the caches as long as it can.
struct KeyIndex<'a> {
    nodes: &'a [GraphNode],
    numbers: HashTable<u32>,
    hash: RandomState,
}

impl<'a> KeyIndex<'a> {
    fn of(nodes: &'a [GraphNode]) -> Result<Self, GraphError> {
        let mut index = Self {
            nodes,
            numbers: HashTable::with_capacity(nodes.len()),
            hash: RandomState::new(),
        };
        for (number, node) in (0..).zip(nodes) {
            if let Some(first) = index.insert(&node.key, number) {
                return Err(GraphError::DuplicateKey {
                    key: node.key.clone(),
                    first: first as usize,
                    second: number as usize,
                });
            }
        }
        Ok(index)
    }

    /// Adds a node, or says which one has its key already.
    fn insert(&mut self, key: &str, number: u32) -> Option<u32> {
        let Self {
            nodes,
            numbers,
            hash,
        } = self;
        let key_of = |number: &u32| nodes[*number as usize].key.as_str();
        let entry = numbers.entry(
            hash.hash_one(key),
            |known| key_of(known) == key,
            |known| hash.hash_one(key_of(known)),
        );
        match entry {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(place) => {
                place.insert(number);
                None
            }
        }
    }

    fn get(&self, key: &str) -> Option<u32> {
        let is_it = |number: &u32| self.nodes[*number as usize].key == key;
        self.numbers.find(self.hash.hash_one(key), is_it).copied()
    }
}

fn resolve(nodes: &[GraphNode], index: &KeyIndex<'_>) -> Result<Adjacency, GraphError> {
    let mut upstream = Adjacency::with_capacity(nodes.len());
    // The last node that was seen to wait for each one.
    let mut seen = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        for after in &node.after {
            let Some(up) = index.get(after) else {
                return Err(GraphError::UnknownUpstream {
                    node: node.key.clone(),
                    after: after.clone(),
                });
            };
            seen.resize(nodes.len(), usize::MAX);
            if mem::replace(&mut seen[up as usize], at) == at {
                return Err(GraphError::RepeatedUpstream {
                    node: node.key.clone(),
                    after: after.clone(),
                });
            }
            upstream.targets.push(up);
        }
        upstream.ends.push(upstream.targets.len());
    }
    Ok(upstream)
}

/// For each node some others, in two arrays (compressed sparse rows). Both are empty where no node has any.
#[derive(Debug)]
struct Adjacency {
    /// Where the targets of each node end; they begin where those of the node before it end.
    ends: Vec<usize>,
    targets: Vec<u32>,
}

impl Adjacency {
    fn with_capacity(nodes: usize) -> Self {
        Self {
            ends: Vec::with_capacity(nodes),
            targets: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn of(&self, node: usize) -> &[u32] {
        if self.ends.is_empty() {
            return &[];
        }
        let start = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.targets[start..self.ends[node]]
    }

    /// The same edges the other way round (a counting sort by target).
    fn reversed(&self) -> Self {
        let mut ends = vec![0; self.len()];
        for target in &self.targets {
            ends[*target as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            // For now the start of each row; placing a target moves it to the end.
            let count = mem::replace(end, total);
            total += count;
        }
        let mut targets = vec![0; self.targets.len()];
        for (number, node) in (0..).zip(0..self.len()) {
            for target in self.of(node) {
                let place = &mut ends[*target as usize];
                targets[*place] = number;
                *place += 1;
            }
        }
        Self { ends, targets }
    }
}
