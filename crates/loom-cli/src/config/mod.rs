//! `loom.toml`: which shards a deployment has, and where.

mod edit;
mod url;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loom_spi::DeploymentId;
use serde::Deserialize;
use toml::Spanned;

pub(crate) use self::edit::{Draft, add_shards, already_there, remove_shard};
pub(crate) use self::url::{PostgresUrl, StoreUrl, holds_password};
use crate::failure::Failure;
use crate::source::Source;

/// The file's usual name.
pub(crate) const FILE_NAME: &str = "loom.toml";

/// A deployment as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Where the file is.
    pub(crate) path: PathBuf,
    pub(crate) deployment: DeploymentId,
    /// At least one, by shard.
    pub(crate) shards: BTreeMap<u16, StoreUrl>,
    pub(crate) limits: ConfigLimits,
}

/// The `[limits]` table. What is absent keeps the default of whoever it concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigLimits {
    /// How many executions of migrating buckets the store remembers the side of.
    pub(crate) resolution_cache: Option<u64>,
    /// How many lines an import works on at a time.
    pub(crate) import_window: Option<usize>,
    /// How many appends an import has under way at a time.
    pub(crate) import_appends: Option<usize>,
    /// How many nodes of a graph run at a time, where the graph does not say.
    pub(crate) graph_nodes: Option<usize>,
    /// How long another process may keep a shard's file locked, or a server work on one statement, before the shard
    /// counts as unreachable.
    pub(crate) busy_timeout_ms: Option<u64>,
    /// For how long an execution belongs to a process that has died while it ran it.
    pub(crate) lease_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConfig {
    deployment: Spanned<String>,
    #[serde(default)]
    shard: Vec<RawShard>,
    #[serde(default)]
    limits: Option<Spanned<ConfigLimits>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShard {
    id: Spanned<u16>,
    url: Spanned<String>,
}

impl Config {
    /// Reads the file at `path`.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Err(Failure::usage(format!(
                "there is no deployment file at `{}`",
                path.display()
            ))
            .with_help(
                "make one with `loom init --shards N`, or name it with --config or LOOM_CONFIG",
            ));
        }
        Self::parse(&Source::read(path, "deployment file")?)
    }

    pub(crate) fn parse(source: &Source) -> Result<Self, Failure> {
        let raw: RawConfig = source.parse_toml()?;
        let deployment = DeploymentId::new(raw.deployment.get_ref()).map_err(|error| {
            let message = format!("`deployment` is no valid name: {error}");
            source.fault(raw.deployment.span(), &message)
        })?;
        let mut shards = BTreeMap::new();
        for RawShard { id, url } in raw.shard {
            let parsed = StoreUrl::parse(url.get_ref())
                .map_err(|message| source.fault(url.span(), &format!("`url`: {message}")))?;
            if shards.insert(*id.get_ref(), parsed).is_some() {
                let message = format!(
                    "shard {} stands here a second time: expected each id once",
                    id.get_ref()
                );
                return Err(source.fault(id.span(), &message));
            }
        }
        if shards.is_empty() {
            return Err(source.fault(
                0..0,
                "it names no shard: expected at least one `[[shard]]` with `id` and `url`",
            ));
        }
        let limits = raw.limits.map_or_else(
            || Ok(ConfigLimits::default()),
            |limits| {
                let span = limits.span();
                let limits = limits.into_inner();
                limits
                    .check()
                    .map_err(|message| source.fault(span, &message))
                    .map(|()| limits)
            },
        )?;
        let config = Self {
            path: source.path().to_owned(),
            deployment,
            shards,
            limits,
        };
        config.check_places(source)?;
        Ok(config)
    }

    /// Two shards in one place would be one shard.
    fn check_places(&self, source: &Source) -> Result<(), Failure> {
        let mut seen = BTreeMap::new();
        for (&shard, url) in &self.shards {
            if let Some(other) = seen.insert(url.place(self.folder()), shard) {
                let message = format!(
                    "shards {other} and {shard} have the same url: expected a file or a schema for each"
                );
                return Err(source.fault(0..0, &message));
            }
        }
        Ok(())
    }

    /// The folder from which relative paths in the file are taken.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Where a shard's file is, if it is in a file.
    pub(crate) fn file(&self, shard: u16) -> Option<PathBuf> {
        self.shards.get(&shard)?.file(self.folder())
    }
}

impl ConfigLimits {
    pub(crate) fn lease(&self) -> Option<Duration> {
        self.lease_ms.map(Duration::from_millis)
    }

    fn check(&self) -> Result<(), String> {
        let zero = [
            ("resolution_cache", self.resolution_cache == Some(0)),
            ("import_window", self.import_window == Some(0)),
            ("import_appends", self.import_appends == Some(0)),
            ("graph_nodes", self.graph_nodes == Some(0)),
            ("busy_timeout_ms", self.busy_timeout_ms == Some(0)),
            ("lease_ms", self.lease_ms == Some(0)),
        ];
        match zero.iter().find(|(_, zero)| *zero) {
            Some((name, _)) => Err(format!("`{name}` is 0: expected at least 1")),
            None => Ok(()),
        }
    }
}

/// The folder in which a file lies; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
