//! `loom export`.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::TryStreamExt as _;
use loom_spi::{EventStoreExt as _, List};

use crate::args::Export;
use crate::deployment::Deployment;
use crate::export::{Stopped, Totals, export};
use crate::failure::Failure;
use crate::output::{Output, counted, write_stderr};
use crate::progress::{Progress, ProgressMode};
use crate::staged::stage;

/// The events and the document cannot both go to stdout.
pub(super) fn check(args: &Export, output: Output) -> Result<(), Failure> {
    match &args.out {
        None if output.json() => Err(Failure::usage(
            "--json prints its document on stdout, where the events would go: expected --out FILE with it",
        )),
        _ => Ok(()),
    }
}

pub(super) async fn run(
    args: &Export,
    deployment: &Deployment,
    output: Output,
) -> Result<(), Failure> {
    let total = match args.progress {
        ProgressMode::Off => None,
        _ => Some(executions(deployment).await?),
    };
    let progress = Progress::new(args.progress, "export", total);
    let Some(path) = &args.out else {
        let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout());
        let totals = match export(&deployment.store, &mut stdout, &progress).await {
            Ok(totals) => totals,
            // Whoever reads has seen enough.
            Err(Stopped::Sink(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(stopped) => return Err(failure(stopped, Path::new("<stdout>"))),
        };
        progress.finish();
        write_stderr(&summary(totals));
        return Ok(());
    };
    let totals = to_file(path, deployment, &progress).await?;
    progress.finish();
    output.print(&totals, |_| summary(totals))
}

fn summary(totals: Totals) -> String {
    let skipped = match totals.skipped {
        0 => String::new(),
        skipped => format!("; {} removed meanwhile", counted(skipped, "execution")),
    };
    format!(
        "exported {} of {}{skipped}\n",
        counted(totals.events, "event"),
        counted(totals.executions, "execution")
    )
}

fn failure(stopped: Stopped, path: &Path) -> Failure {
    match stopped {
        Stopped::Store(failure) => failure,
        Stopped::Sink(error) => Failure::io("write", path, error),
    }
}

/// Writes beside the file and moves it there in one step, so that it is never half an export.
async fn to_file(
    path: &Path,
    deployment: &Deployment,
    progress: &Progress,
) -> Result<Totals, Failure> {
    let cannot = |error: io::Error| Failure::io("write", path, error);
    let staged = stage(path, None).map_err(cannot)?;
    let file = BufWriter::with_capacity(1 << 16, staged.as_file());
    let (totals, file) = if path.extension().is_some_and(|extension| extension == "gz") {
        let mut encoder = GzEncoder::new(file, Compression::default());
        let totals = write(deployment, &mut encoder, progress, path).await?;
        (totals, encoder.finish().map_err(cannot)?)
    } else {
        let mut file = file;
        (write(deployment, &mut file, progress, path).await?, file)
    };
    let file: &File = file
        .into_inner()
        .map_err(|error| cannot(error.into_error()))?;
    file.sync_all().map_err(cannot)?;
    staged.persist(path).map_err(|error| cannot(error.error))?;
    Ok(totals)
}

async fn write(
    deployment: &Deployment,
    sink: &mut impl Write,
    progress: &Progress,
    path: &Path,
) -> Result<Totals, Failure> {
    let totals = export(&deployment.store, sink, progress).await;
    totals.map_err(|stopped| failure(stopped, path))
}

async fn executions(deployment: &Deployment) -> Result<u64, Failure> {
    let listed = deployment.store.list_all(List::new(1024));
    let counted = listed.try_fold(0, |count, _| async move { Ok(count + 1) });
    Ok(counted.await?)
}
