//! What the rules look at, and reading it from the workspace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use serde::Deserialize;

/// The members of a workspace, and what the lock file says of all packages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    pub(crate) members: Vec<Member>,
    /// Package to the packages that it needs. Versions of one package are taken together.
    pub(crate) locked: BTreeMap<String, BTreeSet<String>>,
}

/// One crate of ours.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) published: bool,
    pub(crate) has_description: bool,
    pub(crate) has_license: bool,
    pub(crate) has_readme: bool,
    /// Whether it has a CHANGELOG.md to which the one of the project leads.
    pub(crate) has_changelog: bool,
    /// Whether it takes its lints from the workspace.
    pub(crate) inherits_lints: bool,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Whether only tests, examples and benches use it.
    pub(crate) dev: bool,
    /// Whether it requires a version, as a published crate has to.
    pub(crate) has_version: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    description: Option<String>,
    license: Option<String>,
    readme: Option<String>,
    manifest_path: String,
    publish: Option<Vec<String>>,
    dependencies: Vec<Declared>,
}

#[derive(Deserialize)]
struct Declared {
    name: String,
    kind: Option<String>,
    req: String,
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    lints: Lints,
}

#[derive(Default, Deserialize)]
struct Lints {
    #[serde(default)]
    workspace: bool,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

impl Workspace {
    /// The workspace that this test belongs to.
    pub(crate) fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let output = Command::new(env!("CARGO"))
            .args([
                "metadata",
                "--offline",
                "--no-deps",
                "--format-version",
                "1",
            ])
            .current_dir(root)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata failed: {errors}");
        let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
        let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
        let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();

        Self {
            members: metadata
                .packages
                .into_iter()
                .map(|package| package.into_member(&changelog))
                .collect(),
            locked: locked(&lock),
        }
    }
}

impl Package {
    fn into_member(self, changelog: &str) -> Member {
        let manifest_path = Path::new(&self.manifest_path);
        let manifest: Manifest =
            toml::from_str(&fs::read_to_string(manifest_path).unwrap()).unwrap();
        let beside = |file: String| manifest_path.with_file_name(file).is_file();
        let file = format!("crates/{}/CHANGELOG.md", self.name);
        Member {
            has_description: self.description.is_some(),
            has_license: self.license.is_some(),
            has_readme: self.readme.is_some_and(beside),
            has_changelog: beside("CHANGELOG.md".to_owned())
                && changelog.contains(&format!("]({file})")),
            published: self.publish.is_none_or(|registries| !registries.is_empty()),
            inherits_lints: manifest.lints.workspace,
            dependencies: self.dependencies.into_iter().map(Into::into).collect(),
            name: self.name,
        }
    }
}

impl From<Declared> for Dependency {
    fn from(declared: Declared) -> Self {
        Self {
            name: declared.name,
            dev: declared.kind.as_deref() == Some("dev"),
            has_version: declared.req != "*",
        }
    }
}

/// Reads a `Cargo.lock`. Its dependencies are `name`, or `name version` where there are several.
fn locked(lock: &str) -> BTreeMap<String, BTreeSet<String>> {
    let lock: Lock = toml::from_str(lock).unwrap();
    let mut locked = BTreeMap::<String, BTreeSet<String>>::new();
    for package in lock.package {
        let names = package.dependencies.iter().filter_map(|dependency| {
            let name = dependency.split(' ').next()?;
            Some(name.to_owned())
        });
        locked.entry(package.name).or_default().extend(names);
    }
    locked
}
