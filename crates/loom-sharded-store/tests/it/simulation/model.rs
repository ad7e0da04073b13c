//! What the writers know to be true.

use std::collections::BTreeMap;

use loom_spi::{ExecutionId, FenceToken};

/// One log, as it was acknowledged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) kinds: Vec<String>,
    pub(crate) closed: bool,
}

/// One execution. Only the writer that owns it changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution {
    pub(crate) log: Option<Log>,
    pub(crate) fence: Option<FenceToken>,
    pub(crate) children: Vec<String>,
    /// Counts the begun deletions.
    pub(crate) deletions: u32,
    /// A deletion has been sent and not been answered.
    pub(crate) in_doubt: bool,
    /// A creation has been sent.
    pub(crate) begun: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model(BTreeMap<ExecutionId, Execution>);

impl Model {
    pub(crate) fn of(&mut self, id: &ExecutionId) -> &mut Execution {
        self.0.entry(id.clone()).or_default()
    }

    pub(crate) fn ids(&self) -> Vec<ExecutionId> {
        self.0.keys().cloned().collect()
    }

    pub(crate) fn logs(&self) -> impl Iterator<Item = (&ExecutionId, &Log)> {
        self.0
            .iter()
            .filter_map(|(id, execution)| Some((id, execution.log.as_ref()?)))
    }

    /// The executions that exist, with how often each has been deleted.
    pub(crate) fn certain(&self) -> BTreeMap<ExecutionId, u32> {
        let certain = self
            .0
            .iter()
            .filter(|(_, it)| it.log.is_some() && !it.in_doubt);
        certain.map(|(id, it)| (id.clone(), it.deletions)).collect()
    }

    pub(crate) fn has_begun(&self, id: &ExecutionId) -> bool {
        self.0.get(id).is_some_and(|execution| execution.begun)
    }
}
