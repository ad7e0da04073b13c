//! The rules of the protocol that tests can switch off, to see that they notice.

/// A rule of the routing and migration protocol (`docs/specification/routing-protocol.md`) that this crate keeps.
/// In a build for use every one holds; a test may open a store that breaks one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    /// Absence takes a second look at the destination, after the source.
    LookAgain,
    /// An unsealed copy beats a sealed one.
    UnsealedCounts,
    /// A side that does not answer is an error, never "not there".
    SilentIsNotAbsent,
    /// An execution is created on the destination, never on the source.
    CreateOnDestination,
    /// A record without a log moves to the destination before its log is created there.
    BringRecord,
    /// A fence is taken, and an edge recorded, on a side only if a record is there.
    RequireRecord,
    /// A move carries the highest fence token.
    FenceTravels,
    /// A move carries the edges.
    LineageTravels,
    /// A sealed leftover is removed before the record moves towards it.
    LeftoverFirst,
    /// Whoever wants to change what is sealed on the source finishes the move first.
    FinishMove,
    /// What is sealed where nobody moves it is unsealed.
    Unseal,
    /// A delete removes a sealed leftover on the source before the copy that counts.
    DeleteLeftover,
    /// A delete leaves a mark against late imports.
    DeleteMarks,
    /// Forgetting edges leaves a mark against late imports.
    ForgetMarks,
    /// An answer of a cached side that a move could explain is not believed.
    CacheIsHint,
    /// A record is retired on the source only once it is whole on the destination.
    RetireLast,
    /// A listing reads sources before destinations.
    SourcesFirst,
    /// A listing takes the state of an execution from the copy that counts.
    ListCounting,
    /// A plan is completed on every shard before the next is validated.
    CompleteFirst,
    /// A publisher checks that the step is legal.
    ValidateStep,
    /// A bucket settles only if its source is empty.
    CheckDrained,
    /// A node follows any newer plan, whether it is the step after its own or not.
    FollowAnyNewer,
    /// A shard that is one epoch behind is raised by whoever meets it.
    RaiseBehind,
    /// The lowest shard of the present plan decides.
    DecideOnPresent,
}

/// Which rules hold: all, but for the one that a test has switched off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    #[cfg(test)]
    broken: Option<Rule>,
}

impl Rules {
    #[cfg(test)]
    pub(crate) fn without(rule: Rule) -> Self {
        Self { broken: Some(rule) }
    }

    /// Whether `rule` holds.
    #[inline]
    pub(crate) fn keep(self, rule: Rule) -> bool {
        #[cfg(test)]
        return self.broken != Some(rule);
        #[cfg(not(test))]
        {
            let _ = rule;
            true
        }
    }
}
