//! `loom restore`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::backup::{
    CONFIG, FORMAT, MANIFEST, Manifest, ShardFile, blocking, file_in, fingerprint, sound,
    sync_folder, write_new,
};
use crate::args::{Global, Restore};
use crate::config::{Config, folder_of};
use crate::failure::Failure;
use crate::output::{Output, Tone, counted};
use crate::progress::Progress;
use crate::source::Source;
use crate::staged::stage;

#[derive(Serialize)]
struct Report {
    deployment: String,
    /// When the backup was made.
    at: String,
    /// Of the newest plan in it.
    epoch: u64,
    shards: Vec<Restored>,
    executions: u64,
    events: u64,
    /// Shards that have to be repaired before they are used, since others went on without them.
    repair: Vec<u16>,
    /// Whether anything was written.
    restored: bool,
}

#[derive(Serialize)]
struct Restored {
    shard: u16,
    file: String,
    epoch: Option<u64>,
    executions: u64,
    events: u64,
}

/// What is to be restored, and where.
struct Job {
    manifest: Manifest,
    /// The file of a shard in the backup, and where it goes.
    files: Vec<(ShardFile, PathBuf, PathBuf)>,
    config: Config,
    /// The text of the deployment file, where there is none yet.
    new_config: Option<String>,
}

pub(super) async fn run(args: &Restore, global: &Global, output: Output) -> Result<(), Failure> {
    let job = plan(args, &global.config_path())?;
    let progress = Progress::new(args.progress, "restore", Some(2 * job.files.len() as u64));
    let dry_run = args.dry_run;
    let report = blocking(move || {
        verify(&job, &progress)?;
        if !dry_run {
            write(&job, &progress)?;
        }
        progress.finish();
        Ok(job.report(!dry_run))
    })
    .await?;
    output.print(&report, |output| report.text(output))
}

/// Reads the backup's manifest, and looks whether anything is in the way.
fn plan(args: &Restore, config_path: &Path) -> Result<Job, Failure> {
    let mut manifest = read_manifest(&args.from)?;
    let (config, new_config) = if config_path.exists() {
        (Config::load(config_path)?, None)
    } else {
        let source = Source::read(&args.from.join(CONFIG), "deployment file of the backup")?;
        let mut config = Config::parse(&source)?;
        config.path = config_path.to_owned();
        (config, Some(source.text().to_owned()))
    };
    if config.deployment.as_str() != manifest.deployment {
        return Err(Failure::refused(format!(
            "the backup is of deployment {}, and `{}` is deployment {}",
            manifest.deployment,
            config.path.display(),
            config.deployment
        ))
        .with_help("--config names another deployment file, or where to put one"));
    }
    let wanted: BTreeSet<u16> = args.shard.iter().copied().collect();
    let has = |shard| manifest.shards.iter().any(|file| file.shard == shard);
    if let Some(shard) = wanted.iter().find(|shard| !has(**shard)) {
        return Err(Failure::usage(format!(
            "shard {shard} is not in the backup of {}",
            manifest.at
        )));
    }
    if !wanted.is_empty() {
        manifest.shards.retain(|file| wanted.contains(&file.shard));
    }
    let mut files = Vec::new();
    let mut in_the_way = Vec::new();
    for file in &manifest.shards {
        let Some(to) = config.file(file.shard) else {
            // No such shard, or one on a server.
            return Err(Failure::refused(format!(
                "`{}` names no file for shard {}",
                config.path.display(),
                file.shard
            ))
            .with_help("add a `[[shard]]` with that id, or leave it out with --shard"));
        };
        let from = file_in(&args.from, &file.file).ok_or_else(|| unreadable(&args.from))?;
        let found = found_at(&to);
        // What an interrupted restore has done already. Once it is used there is more beside it.
        let is_done = found == [to.clone()] && expect_fingerprint(&to, file).is_ok();
        if !is_done {
            let found = found.iter().map(|path| format!("`{}`", path.display()));
            in_the_way.extend(found);
        }
        files.push((file.clone(), from, to));
    }
    if !in_the_way.is_empty() {
        return Err(Failure::refused(format!(
            "{} will not be overwritten",
            in_the_way.join(", ")
        ))
        .with_help(
            "stop what uses it and move it away; or restore single shards with --shard, or into another folder with --config",
        ));
    }
    Ok(Job {
        manifest,
        files,
        config,
        new_config,
    })
}

/// The files that are where a shard shall be. What SQLite left beside a file that is gone would be taken for a part of the
/// one that comes.
fn found_at(to: &Path) -> Vec<PathBuf> {
    let beside = ["", "-wal", "-shm", "-journal"].into_iter().map(|suffix| {
        let mut path = to.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    });
    beside
        .filter(|path| path.symlink_metadata().is_ok())
        .collect()
}

fn read_manifest(from: &Path) -> Result<Manifest, Failure> {
    let path = from.join(MANIFEST);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::usage(format!(
                "`{}` is no backup, or one that was interrupted: there is no {MANIFEST}",
                from.display()
            )));
        }
        Err(error) => return Err(Failure::io("read", &path, error)),
    };
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| unreadable(from).with_cause(error))?;
    if manifest.format != FORMAT {
        return Err(Failure::refused(format!(
            "the backup has format {}, and this release knows {FORMAT}: use a newer release",
            manifest.format
        )));
    }
    Ok(manifest)
}

fn unreadable(from: &Path) -> Failure {
    Failure::failed(format!(
        "`{}` is not what `loom backup` has written",
        from.join(MANIFEST).display()
    ))
}

/// Looks at every file of the backup before anything is written.
fn verify(job: &Job, progress: &Progress) -> Result<(), Failure> {
    for ((file, from, _), done) in job.files.iter().zip(0..) {
        progress.at(done, format_args!("verifying shard {}", file.shard));
        expect_fingerprint(from, file)?;
        let verified = sound(from, file.shard, &job.config.deployment)?;
        if (verified.executions, verified.events) != (file.executions, file.events) {
            return Err(damaged(from));
        }
    }
    Ok(())
}

fn expect_fingerprint(path: &Path, file: &ShardFile) -> Result<(), Failure> {
    match fingerprint(path)? {
        (bytes, xxh3) if bytes == file.bytes && xxh3 == file.xxh3 => Ok(()),
        _ => Err(damaged(path)),
    }
}

fn damaged(path: &Path) -> Failure {
    Failure::failed(format!(
        "`{}` is not as it was when the backup was made: it was changed, or the disk has damaged it",
        path.display()
    ))
    .with_help("restore from another backup; --shard leaves this shard out")
}

fn write(job: &Job, progress: &Progress) -> Result<(), Failure> {
    let verified = job.files.len() as u64;
    for ((file, from, to), done) in job.files.iter().zip(verified..) {
        progress.at(done, format_args!("restoring shard {}", file.shard));
        if to.exists() {
            // Looked at already; and whatever came since is not replaced.
            expect_fingerprint(to, file)?;
            continue;
        }
        let folder = folder_of(to);
        fs::create_dir_all(folder).map_err(|error| Failure::io("create", folder, error))?;
        let copy = || -> io::Result<_> {
            let mut target = stage(to, None)?;
            io::copy(&mut File::open(from)?, &mut target)?;
            target.as_file().sync_all()?;
            Ok(target)
        };
        let copied = copy().map_err(|error| Failure::io("write", to, error))?;
        expect_fingerprint(copied.path(), file)?;
        copied
            .persist_noclobber(to)
            .map_err(|error| Failure::io("write", to, error.error))?;
        sync_folder(to)?;
    }
    if let Some(text) = &job.new_config {
        write_new(&job.config.path, text.as_bytes())?;
        sync_folder(&job.config.path)?;
    }
    Ok(())
}

impl Job {
    fn report(&self, restored: bool) -> Report {
        let manifest = &self.manifest;
        let shards: BTreeSet<u16> = manifest.shards.iter().map(|file| file.shard).collect();
        let all = self
            .config
            .shards
            .keys()
            .all(|shard| shards.contains(shard));
        let sum = |of: fn(&ShardFile) -> u64| manifest.shards.iter().map(of).sum();
        Report {
            deployment: self.config.deployment.to_string(),
            at: manifest.at.clone(),
            epoch: manifest.epoch,
            executions: sum(|file| file.executions),
            events: sum(|file| file.events),
            shards: self
                .files
                .iter()
                .map(|(file, _, to)| Restored {
                    shard: file.shard,
                    file: to.display().to_string(),
                    epoch: file.epoch,
                    executions: file.executions,
                    events: file.events,
                })
                .collect(),
            // All of them are of one moment, so that nothing went on without any of them.
            repair: if all {
                Vec::new()
            } else {
                shards.into_iter().collect()
            },
            restored,
        }
    }
}

impl Report {
    fn text(&self, output: Output) -> String {
        let what = format!(
            "{} with {} of {}, as of {}; plan epoch {}",
            counted(self.shards.len() as u64, "shard"),
            counted(self.events, "event"),
            counted(self.executions, "log"),
            self.at,
            self.epoch
        );
        let mut text = if self.restored {
            format!("{} {what}\n", output.paint(Tone::Good, "restored"))
        } else {
            format!("the backup is sound: {what}\nnothing was changed: this was a dry run\n")
        };
        if self.repair.is_empty() {
            return text;
        }
        text.push_str("the other shards went on meanwhile. Before anybody writes, run\n");
        for shard in &self.repair {
            text.push_str(&format!("  loom repair {shard}\n"));
        }
        text
    }
}
