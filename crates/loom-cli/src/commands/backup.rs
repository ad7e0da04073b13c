//! `loom backup`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp as Moment;
use loom_shard_plan::ShardPlan;
use loom_spi::DeploymentId;
use loom_store_postgres::PostgresStore;
use loom_store_sqlite::{ShardCopy, Verified, back_up, verify};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::args::Backup;
use crate::backend::Backend;
use crate::config::{Config, folder_of};
use crate::deployment::Deployment;
use crate::failure::Failure;
use crate::output::{Output, Tone, count, counted};
use crate::progress::Progress;
use crate::staged::stage;

/// What makes a folder a backup. It is written last.
pub(super) const MANIFEST: &str = "backup.json";
/// The deployment file, under a name by which nobody runs the backup in its place.
pub(super) const CONFIG: &str = "deployment.toml";
/// The version of the manifest.
pub(super) const FORMAT: u32 = 1;

/// What a backup says of itself, and what `--json` prints.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) deployment: String,
    /// When its moment was, in UTC.
    pub(super) at: String,
    /// Of the newest plan in it.
    pub(super) epoch: u64,
    pub(super) executions: u64,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) shards: Vec<ShardFile>,
}

/// One shard's file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct ShardFile {
    pub(super) shard: u16,
    pub(super) file: String,
    pub(super) bytes: u64,
    /// XXH3-128 of the file, in hexadecimal.
    pub(super) xxh3: String,
    /// Of its plan; null for a shard that was never in one.
    pub(super) epoch: Option<u64>,
    /// Logs in it: one that is being moved may be on two shards.
    pub(super) executions: u64,
    pub(super) events: u64,
}

pub(super) async fn run(
    args: &Backup,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let to = &args.to;
    let mut copies = BTreeMap::new();
    for (shard, store) in deployment.shards().await {
        match &*store {
            Backend::Sqlite(store) => {
                let from = store.path().to_owned();
                let to = to.join(file_name(shard));
                copies.insert(shard, ShardCopy { from, to });
            }
            Backend::Postgres(store) => return Err(on_a_server(shard, store)),
        }
    }
    prepare(to)?;
    let progress = Progress::new(args.progress, "backup", Some(1_000));
    let config = deployment.config.clone();
    let manifest = {
        let to = to.clone();
        blocking(move || {
            let manifest = copy(&config, &copies, &progress)?;
            finish(&config, &to, &manifest)?;
            Ok(manifest)
        })
        .await?
    };
    output.print(&manifest, |output| {
        format!(
            "{} {} with {} of {} in `{}`, {} bytes, verified; plan epoch {}\n",
            output.paint(Tone::Good, "backed up"),
            counted(manifest.shards.len() as u64, "shard"),
            counted(manifest.events, "event"),
            counted(manifest.executions, "log"),
            to.display(),
            count(manifest.bytes),
            manifest.epoch
        )
    })
}

/// Copies of files are of one moment; a server's own backups cannot be made to be of the same one.
fn on_a_server(shard: u16, store: &PostgresStore) -> Failure {
    Failure::refused(format!(
        "shard {shard} is on a server, `{}`: `loom backup` copies shards in files only, since it cannot take them all at one moment otherwise",
        store.location()
    ))
    .with_help(format!(
        "use the server's own backups (`pg_dump --schema={}`, or base backups), and `loom repair` after one shard was restored; `loom export` writes all events to a file",
        store.location().schema()
    ))
}

fn file_name(shard: u16) -> String {
    format!("shard-{shard}.db")
}

/// Makes the folder, which must not hold anything.
fn prepare(to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|error| Failure::io("create", to, error))?;
    let mut entries = fs::read_dir(to).map_err(|error| Failure::io("read", to, error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    let refused = format!(
        "`{}` is not empty, and nothing in it will be overwritten",
        to.display()
    );
    let help = if to.join(MANIFEST).exists() {
        "it holds a backup already: choose another folder"
    } else {
        "choose another folder; if it is what an interrupted backup left, remove it"
    };
    Err(Failure::refused(refused).with_help(help))
}

/// Copies all shards, and looks at what the copies hold.
fn copy(
    config: &Config,
    copies: &BTreeMap<u16, ShardCopy>,
    progress: &Progress,
) -> Result<Manifest, Failure> {
    let at = Moment::now();
    let files: Vec<ShardCopy> = copies.values().cloned().collect();
    back_up(&files, |done, of| {
        let permille = done.saturating_mul(500).checked_div(of).unwrap_or(0);
        progress.at(
            permille,
            format_args!("{} of {} copied", count(done), counted(of, "page")),
        );
    })?;
    let mut manifest = Manifest {
        format: FORMAT,
        deployment: config.deployment.to_string(),
        at: format!("{at:.3}"),
        epoch: 0,
        executions: 0,
        events: 0,
        bytes: 0,
        shards: Vec::new(),
    };
    let mut newest = None;
    for (&shard, copy) in copies {
        let looked_at = manifest.shards.len() as u64;
        progress.at(
            500 + looked_at * 500 / copies.len() as u64,
            format_args!("verifying shard {shard}"),
        );
        let verified = sound(&copy.to, shard, &config.deployment)?;
        let (bytes, xxh3) = fingerprint(&copy.to)?;
        let epoch = verified.plan.as_ref().map(|plan| plan.epoch.epoch);
        if epoch > newest.as_ref().map(|(epoch, _)| *epoch) {
            newest = epoch.zip(verified.plan);
        }
        manifest.bytes += bytes;
        manifest.executions += verified.executions;
        manifest.events += verified.events;
        manifest.shards.push(ShardFile {
            shard,
            file: file_name(shard),
            bytes,
            xxh3,
            epoch,
            executions: verified.executions,
            events: verified.events,
        });
    }
    let Some((epoch, plan)) = newest else {
        return Err(Failure::failed("no copy holds a plan"));
    };
    manifest.epoch = epoch;
    let plan = ShardPlan::from_bytes(&plan.bytes)
        .map_err(|error| Failure::failed("cannot read the plan in the copies").with_cause(error))?;
    // One may have joined after the deployment was opened.
    let members = plan.shards().iter().map(loom_shard_plan::Shard::id);
    let sides = plan.migrating().flat_map(|bucket| [bucket.from, bucket.to]);
    for shard in members.chain(sides) {
        if !copies.contains_key(&shard.get()) {
            return Err(Failure::failed(format!(
                "shard {shard} joined while the backup was being made, and is not in it"
            ))
            .with_help("remove the folder and run it again"));
        }
    }
    progress.finish();
    Ok(manifest)
}

/// Looks at a whole file, which has to be that shard and sound.
pub(super) fn sound(
    path: &Path,
    shard: u16,
    deployment: &DeploymentId,
) -> Result<Verified, Failure> {
    let verified = verify(path)?;
    let is_it = verified
        .identity
        .as_ref()
        .is_some_and(|identity| identity.shard == shard && identity.deployment == *deployment);
    if !is_it {
        return Err(Failure::refused(format!(
            "`{}` is not shard {shard} of deployment {deployment}",
            path.display()
        )));
    }
    if let Some(problem) = verified.problems.first() {
        return Err(Failure::failed(format!(
            "`{}` is damaged: {problem}{}",
            path.display(),
            match verified.problems.len() {
                1 => String::new(),
                more => format!(", and {} more", counted(more as u64 - 1, "problem")),
            }
        ))
        .with_help("`loom audit` finds what is wrong in the deployment"));
    }
    Ok(verified)
}

/// The length and the checksum of a file.
pub(super) fn fingerprint(path: &Path) -> Result<(u64, String), Failure> {
    let read = || {
        let mut file = File::open(path)?;
        let mut hash = Xxh3::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = file.read(&mut buffer)?;
            let Some(read) = buffer.get(..n).filter(|read| !read.is_empty()) else {
                return Ok((bytes, format!("{:032x}", hash.digest128())));
            };
            hash.update(read);
            bytes += n as u64;
        }
    };
    read().map_err(|error| Failure::io("read", path, error))
}

/// Puts the deployment file and last the manifest beside the copies.
fn finish(config: &Config, to: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let text = fs::read(&config.path).map_err(|error| Failure::io("read", &config.path, error))?;
    write_new(&to.join(CONFIG), &text)?;
    let mut json = serde_json::to_vec_pretty(manifest)
        .map_err(|error| Failure::failed("cannot write the manifest").with_cause(error))?;
    json.push(b'\n');
    write_new(&to.join(MANIFEST), &json)?;
    sync_folder(&to.join(MANIFEST))?;
    // The folder itself may be new.
    let to = std::path::absolute(to).map_err(|error| Failure::io("use", to, error))?;
    sync_folder(&to)
}

/// Writes a file durably and in one step, which must not be there.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = stage(path, None)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist_noclobber(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| Failure::io("write", path, error))
}

/// Makes the name of a new file durable.
pub(super) fn sync_folder(path: &Path) -> Result<(), Failure> {
    let folder = folder_of(path);
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| Failure::io("write", folder, error))
}

/// Has something done that blocks.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::failed("it was interrupted").with_cause(error)))
}

/// Where the manifest of a backup says that a file is. Only names are taken, never paths.
pub(super) fn file_in(folder: &Path, file: &str) -> Option<PathBuf> {
    let name = Path::new(file).file_name()?;
    (name == file).then(|| folder.join(name))
}
