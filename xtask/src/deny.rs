//! The check of dependencies.

use crate::step::Outcome;
use crate::workspace::{self, Workspace};

/// Without default features it neither fetches advisories nor builds what does.
const INSTALL: &str = "install it with `cargo install --locked --debug --no-default-features \
                       --version 0.20.2 cargo-deny`";

/// Checks bans, licences and sources, as `deny.toml` states them. Advisories need a network and change from day
/// to day, so they are no part of it.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    if !workspace.has_cargo_command("deny") {
        return Outcome::Missing {
            install: INSTALL.to_owned(),
        };
    }
    check(workspace).into()
}

fn check(workspace: &Workspace) -> Result<(), String> {
    // It looks at the dependencies of every platform, of which a build here has fetched only some.
    workspace::run(&mut workspace.cargo(&["fetch", "--locked"])).map_err(|reason| {
        format!("{reason}: the sources of all dependencies are needed, and Cargo.lock has to be up to date")
    })?;
    workspace::run(&mut workspace.cargo(&[
        "deny",
        "--offline",
        "check",
        // They are long, and most of what is shown are warnings. `cargo deny check` has them.
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ]))
}
