//! `loom man` and `loom completions`.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use serde_json::json;

use crate::args::{Cli, Completions, Man};
use crate::failure::Failure;
use crate::output::{Output, counted};

pub(super) fn completions(args: &Completions, output: Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loom", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let document = json!({ "shell": args.shell.to_string(), "script": script });
    output.print(&document, |_| script)
}

pub(super) fn run(args: &Man, output: Output) -> Result<(), Failure> {
    if let Some(folder) = &args.out {
        return write_all(folder, output);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut page)
        .map_err(|error| Failure::failed("cannot make the manual page").with_cause(error))?;
    let page = String::from_utf8_lossy(&page).into_owned();
    output.print(&json!({ "name": "loom.1", "page": page }), |_| page)
}

fn write_all(folder: &Path, output: Output) -> Result<(), Failure> {
    let cannot = |error| Failure::io("write the manual pages to", folder, error);
    fs::create_dir_all(folder).map_err(cannot)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(cannot)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("loom") && name.ends_with(".1") {
            names.push(name.into_owned());
        }
    }
    names.sort_unstable();
    output.print(&json!({ "folder": folder, "pages": names }), |_| {
        format!(
            "{} in `{}`\n",
            counted(names.len() as u64, "page"),
            folder.display()
        )
    })
}
