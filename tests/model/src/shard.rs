//! What a shard does with a request that it serves.

use std::fmt;

use crate::plan::IDS;
use crate::rule::{Rule, Rules};
use crate::seq::Seq;

/// What a shard knows of one id.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    pub(crate) log: Seq,
    pub(crate) edges: Seq,
    /// The highest token, 0 for none.
    pub(crate) fence: u8,
    pub(crate) sealed: bool,
    /// Whether it was deleted here under the present plan.
    pub(crate) marked: bool,
}

impl Record {
    pub(crate) fn exists(&self) -> bool {
        !self.log.is_empty() || !self.edges.is_empty() || self.fence > 0
    }

    fn look(&self) -> Seen {
        Seen {
            exists: self.exists(),
            log: !self.log.is_empty(),
            sealed: self.sealed,
        }
    }

    fn clear(&mut self) {
        *self = Self {
            marked: self.marked,
            ..Self::default()
        };
    }
}

/// What a look at a record shows.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    pub(crate) exists: bool,
    pub(crate) log: bool,
    pub(crate) sealed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ask {
    Look,
    Read,
    Append {
        expected: u32,
        event: u8,
        token: u8,
    },
    Delete {
        mark: bool,
    },
    Acquire {
        exists: bool,
    },
    Edge {
        edge: u8,
        exists: bool,
    },
    Forget {
        mark: bool,
    },
    Children,
    List,
    /// Whether any record is here.
    Records,
    Seal,
    /// Reads a sealed record whole.
    Fetch,
    Import {
        record: Record,
    },
    /// The first event becomes visible, the others later: what no store may do.
    ImportPart {
        record: Record,
    },
    Retire,
    Unseal,
    /// Publishes a plan that is decided, if the shard is behind.
    Give {
        plan: u8,
        joins: bool,
    },
    /// Publishes a plan in place of another.
    Publish {
        plan: u8,
        expected: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Done,
    NotFound,
    Sealed,
    NotSealed,
    Fenced,
    Conflict,
    DeletedHere,
    RecordConflict,
    Seen(Seen),
    Log {
        log: Seq,
        sealed: bool,
    },
    Token(u8),
    Edges(Seq),
    List([(Seq, bool); IDS]),
    Whole(Record),
    /// The shard has this plan, and it is not the one that was expected.
    Has(u8),
    /// As `Has`; the request was not served.
    Stale(u8),
    Behind(u8),
}

/// A shard. 0 is no plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shard {
    pub(crate) plan: u8,
    pub(crate) records: [Record; IDS],
}

impl Shard {
    pub(crate) fn take_plan(&mut self, plan: u8, rules: Rules) {
        self.plan = plan;
        if rules.has(Rule::MarkEndsWithPlan) {
            for record in &mut self.records {
                record.marked = false;
            }
        }
    }

    /// Does what is asked of one id. Plans have been compared.
    pub(crate) fn serve(&mut self, id: usize, ask: Ask, rules: Rules) -> Reply {
        if ask == Ask::List {
            return Reply::List(self.records.map(|record| (record.log, record.sealed)));
        }
        let record = &mut self.records[id];
        let sealed = |rule: Rule| record.sealed && rules.has(rule);
        match ask {
            Ask::Look => Reply::Seen(record.look()),
            Ask::Read if record.log.is_empty() => Reply::NotFound,
            Ask::Read => Reply::Log {
                log: record.log,
                sealed: record.sealed,
            },
            Ask::Append { .. } if sealed(Rule::SealRefusesAppends) => Reply::Sealed,
            Ask::Append { token, .. } if token < record.fence => Reply::Fenced,
            Ask::Append { expected, .. } if expected != record.log.len() => Reply::Conflict,
            Ask::Append { event, token, .. } => {
                record.log = record.log.with(event);
                record.fence = token;
                Reply::Done
            }
            Ask::Delete { .. } if sealed(Rule::SealRefusesDeletes) => Reply::Sealed,
            Ask::Delete { .. } if record.log.is_empty() => Reply::NotFound,
            Ask::Delete { mark } => {
                record.log = Seq::EMPTY;
                if !rules.has(Rule::DeleteKeepsFence) {
                    record.fence = 0;
                }
                record.sealed &= record.exists();
                record.marked |= mark;
                Reply::Done
            }
            Ask::Acquire { .. } if sealed(Rule::SealRefusesFences) => Reply::Sealed,
            Ask::Acquire { exists: true } | Ask::Edge { exists: true, .. } if !record.exists() => {
                Reply::NotFound
            }
            Ask::Acquire { .. } => {
                record.fence += 1;
                Reply::Token(record.fence)
            }
            Ask::Edge { .. } if sealed(Rule::SealRefusesLineage) => Reply::Sealed,
            Ask::Edge { edge, .. } => {
                record.edges = record.edges.merged(Seq::of(&[edge]));
                Reply::Done
            }
            Ask::Forget { .. } if sealed(Rule::SealRefusesForget) => Reply::Sealed,
            Ask::Forget { .. } if record.edges.is_empty() => Reply::NotFound,
            Ask::Forget { mark } => {
                record.edges = Seq::EMPTY;
                record.sealed &= record.exists();
                record.marked |= mark;
                Reply::Done
            }
            Ask::Children => Reply::Edges(record.edges),
            Ask::Seal if record.exists() => {
                record.sealed = true;
                Reply::Done
            }
            Ask::Seal => Reply::NotFound,
            Ask::Fetch if record.exists() => Reply::Whole(*record),
            Ask::Fetch => Reply::NotFound,
            Ask::Import { record: moved } => import(record, moved, rules),
            Ask::ImportPart { record: moved } => {
                let log = moved.log.first(1);
                import(record, Record { log, ..moved }, rules)
            }
            Ask::Retire
                if record.exists() && !record.sealed && rules.has(Rule::RetireOnlySealed) =>
            {
                Reply::NotSealed
            }
            Ask::Retire => {
                record.clear();
                Reply::Done
            }
            Ask::Unseal => {
                record.sealed = false;
                Reply::Done
            }
            Ask::Records if record.exists() && rules.has(Rule::RecordsCount) => {
                Reply::RecordConflict
            }
            Ask::Records if !record.log.is_empty() => Reply::RecordConflict,
            Ask::Records => Reply::Done,
            Ask::List | Ask::Give { .. } | Ask::Publish { .. } => Reply::Done,
        }
    }
}

fn import(here: &mut Record, moved: Record, rules: Rules) -> Reply {
    if here.sealed && rules.has(Rule::ImportRefusesSealed) {
        return Reply::Sealed;
    }
    if here.marked && rules.has(Rule::ImportRefusesMarked) {
        return Reply::DeletedHere;
    }
    if !here.log.is_empty() && rules.has(Rule::ImportKeepsWhatIsThere) {
        let grows = !rules.has(Rule::ImportAtomic) && moved.log.starts_with(here.log);
        if here.log.starts_with(moved.log) {
            return Reply::Done;
        } else if !grows {
            return Reply::RecordConflict;
        }
    }
    here.log = moved.log;
    if !rules.has(Rule::ImportMerges) {
        (here.fence, here.edges) = (moved.fence, moved.edges);
    }
    here.fence = here.fence.max(moved.fence);
    here.edges = moved.edges.merged(here.edges);
    Reply::Done
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { log, fence, .. } = self;
        write!(f, "(log {log:?}, fence {fence}, edges {:?}", self.edges)?;
        let sealed = if self.sealed { ", sealed" } else { "" };
        let marked = if self.marked { ", marked" } else { "" };
        write!(f, "{sealed}{marked})")
    }
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.exists, self.log, self.sealed) {
            (false, ..) => "nothing",
            (_, true, false) => "a log",
            (_, true, true) => "a log, sealed",
            (_, false, false) => "a record without a log",
            (_, false, true) => "a record without a log, sealed",
        })
    }
}
