//! Runs the conformance suite over every store: `cargo xtask conformance`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what it is for"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::{env, fs};

use loom_conformance::{Matrix, run_store};

fn main() -> ExitCode {
    match run() {
        Ok(matrix) if !matrix.has_failures() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("conformance-matrix: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<Matrix, String> {
    let (mut json, mut markdown) = (None, None);
    let mut only = String::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let target = match argument.as_str() {
            "--only" => {
                only = arguments.next().ok_or("--only needs a part of a name")?;
                continue;
            }
            "--json" => &mut json,
            "--markdown" => &mut markdown,
            other => {
                return Err(format!(
                    "unexpected argument `{other}`; known: --only PART, --json FILE, --markdown FILE"
                ));
            }
        };
        *target = Some(PathBuf::from(
            arguments.next().ok_or(format!("{argument} needs a file"))?,
        ));
    }

    let mut matrix = Matrix::new();
    let stores = loom_tests::stores::all();
    let wanted = stores.into_iter().filter(|(name, _)| name.contains(&only));
    for (name, factory) in wanted {
        let mut cases = 0;
        let reports = run_store(Arc::clone(&factory), |_| cases += 1);
        eprintln!("{name}: {cases} cases");
        matrix.add(name, &reports);
    }
    print!("{matrix}");
    for (path, text) in [(json, matrix.to_json()), (markdown, matrix.to_markdown())] {
        if let Some(path) = path {
            fs::write(&path, text)
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
    }
    Ok(matrix)
}
