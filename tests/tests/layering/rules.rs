//! The rules, over a model: what they say does not depend on the disk.

use std::collections::BTreeSet;

use crate::model::{Member, Workspace};
use crate::{Entry, IMPURE, PURE, TEST_SUPPORT};

/// Everything in which `workspace` does not follow `table`, in words.
pub(crate) fn violations(table: &[Entry], workspace: &Workspace) -> Vec<String> {
    let mut found = Vec::new();
    for member in &workspace.members {
        match table.iter().find(|entry| entry.name == member.name) {
            Some(entry) => dependencies(entry, member, workspace, &mut found),
            None => found.push(format!(
                "`{}` is in no layer: add it to the table in tests/tests/layering/main.rs",
                member.name
            )),
        }
        package(member, workspace, &mut found);
        if PURE.contains(&member.name.as_str()) {
            purity(member, workspace, &mut found);
        }
    }
    for entry in table {
        if workspace
            .members
            .iter()
            .all(|member| member.name != entry.name)
        {
            found.push(format!(
                "`{}` is in the table but not in the workspace: remove it from the table",
                entry.name
            ));
        }
    }
    found
}

fn dependencies(entry: &Entry, member: &Member, workspace: &Workspace, found: &mut Vec<String>) {
    let Some(uses) = entry.uses else { return };
    for dependency in &member.dependencies {
        let name = dependency.name.as_str();
        let ours = workspace.members.iter().any(|member| member.name == name);
        let allowed = uses.contains(&name) || dependency.dev && TEST_SUPPORT.contains(&name);
        if ours && !allowed {
            found.push(format!(
                "`{}` (layer {}) may not depend on `{name}`{}: it may use {}",
                member.name,
                entry.layer,
                if dependency.dev { " in its tests" } else { "" },
                if uses.is_empty() {
                    "no crate of ours".to_owned()
                } else {
                    uses.join(", ")
                },
            ));
        }
    }
}

/// What every crate brings along, and what a published one does besides.
fn package(member: &Member, workspace: &Workspace, found: &mut Vec<String>) {
    let mut needs = vec![
        (member.has_description, "a description"),
        (member.has_license, "a licence"),
        (member.has_readme, "a README.md, named in its manifest"),
        (member.inherits_lints, "`[lints] workspace = true`"),
    ];
    if member.published {
        needs.push((
            member.has_changelog,
            "a CHANGELOG.md, and a link to it in the CHANGELOG.md of the project",
        ));
    }
    for (there, what) in needs {
        if !there {
            found.push(format!("`{}` needs {what}", member.name));
        }
    }
    if !member.published {
        return;
    }
    for dependency in member
        .dependencies
        .iter()
        .filter(|dependency| !dependency.dev)
    {
        if !dependency.has_version {
            found.push(format!(
                "`{}` is published, so its dependency `{}` needs a version",
                member.name, dependency.name
            ));
        }
        let unpublished = |other: &&Member| other.name == dependency.name && !other.published;
        if let Some(other) = workspace.members.iter().find(unpublished) {
            found.push(format!(
                "`{}` is published, but its dependency `{}` is not",
                member.name, other.name
            ));
        }
    }
}

/// Looks through everything that `member` brings along.
fn purity(member: &Member, workspace: &Workspace, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    let mut paths: Vec<Vec<&str>> = member
        .dependencies
        .iter()
        .filter(|dependency| !dependency.dev)
        .map(|dependency| vec![dependency.name.as_str()])
        .collect();
    while let Some(path) = paths.pop() {
        let Some(&last) = path.last() else { continue };
        if let Some((_, what)) = IMPURE.iter().find(|(name, _)| *name == last) {
            found.push(format!(
                "`{}` has to be pure, but brings {} along: {what}",
                member.name,
                path.join(" → ")
            ));
        } else if seen.insert(last) {
            for next in workspace.locked.get(last).into_iter().flatten() {
                paths.push([path.as_slice(), &[next.as_str()]].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Dependency;
    use crate::{layer, top};

    const TABLE: &[Entry] = &[
        layer(0, "loom-spi", &[]),
        layer(1, "loom-journal", &["loom-spi"]),
        layer(1, "loom-store-memory", &["loom-spi"]),
        top("loom-cli"),
    ];

    fn member(name: &str, dependencies: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            published: true,
            has_description: true,
            has_license: true,
            has_readme: true,
            has_changelog: true,
            inherits_lints: true,
            dependencies: dependencies.iter().map(|name| dependency(name)).collect(),
        }
    }

    fn dependency(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            dev: false,
            has_version: true,
        }
    }

    fn good() -> Workspace {
        let members = vec![
            member("loom-spi", &["bytes"]),
            member("loom-journal", &["loom-spi", "tokio"]),
            member("loom-store-memory", &["loom-spi"]),
            member("loom-cli", &["loom-journal", "loom-store-memory"]),
        ];
        Workspace {
            members,
            ..Workspace::default()
        }
    }

    /// The violations of a good workspace after `change` to the member `name`.
    fn after(name: &str, change: impl FnOnce(&mut Member)) -> Vec<String> {
        let mut workspace = good();
        let mut members = workspace.members.iter_mut();
        change(members.find(|member| member.name == name).unwrap());
        violations(TABLE, &workspace)
    }

    fn assert_one(violations: &[String], expected: &str) {
        assert_eq!(violations.len(), 1, "{violations:?}");
        assert!(violations[0].contains(expected), "{violations:?}");
    }

    #[test]
    fn a_workspace_that_follows_the_table_has_no_violations() {
        assert_eq!(violations(TABLE, &good()), Vec::<String>::new());
    }

    #[test]
    fn depending_upwards_or_sideways_is_found() {
        for (from, to) in [
            ("loom-spi", "loom-journal"),
            ("loom-journal", "loom-store-memory"),
            ("loom-journal", "loom-cli"),
        ] {
            let found = after(from, |member| member.dependencies.push(dependency(to)));
            assert_one(&found, &format!("may not depend on `{to}`"));
        }
    }

    #[test]
    fn tests_may_use_the_test_support_and_nothing_more() {
        let dev = |name| Dependency {
            dev: true,
            ..dependency(name)
        };
        for support in ["loom-store-memory", "proptest"] {
            let found = after("loom-journal", |member| {
                member.dependencies.push(dev(support));
            });
            assert_eq!(found, Vec::<String>::new());
        }
        let found = after("loom-journal", |member| {
            member.dependencies.push(dev("loom-cli"));
        });
        assert_one(&found, "may not depend on `loom-cli` in its tests");
    }

    #[test]
    fn a_crate_that_the_table_does_not_know_is_found() {
        let mut workspace = good();
        workspace.members.push(member("loom-new", &[]));
        assert_one(&violations(TABLE, &workspace), "add it to the table");
    }

    #[test]
    fn a_line_of_the_table_without_a_crate_is_found() {
        let mut workspace = good();
        workspace.members.retain(|member| member.name != "loom-cli");
        assert_one(
            &violations(TABLE, &workspace),
            "`loom-cli` is in the table but not",
        );
    }

    #[test]
    fn what_is_impure_is_found_directly_and_through_others() {
        let found = after("loom-spi", |member| {
            member.dependencies.push(dependency("tokio"));
        });
        assert_one(&found, "brings tokio along");

        let mut workspace = good();
        for (package, needs) in [("bytes", "helper"), ("helper", "mio"), ("helper", "bytes")] {
            let needed = workspace.locked.entry(package.to_owned()).or_default();
            needed.insert(needs.to_owned());
        }
        assert_one(
            &violations(TABLE, &workspace),
            "brings bytes → helper → mio along",
        );
    }

    #[test]
    fn what_a_crate_has_to_bring_along_is_missed() {
        type Change = fn(&mut Member);
        let changes: [(Change, &str); 5] = [
            (|member| member.has_description = false, "a description"),
            (|member| member.has_license = false, "a licence"),
            (|member| member.has_readme = false, "a README.md"),
            (|member| member.inherits_lints = false, "[lints]"),
            (|member| member.has_changelog = false, "CHANGELOG.md"),
        ];
        for (change, expected) in changes {
            assert_one(&after("loom-journal", change), expected);
        }
    }

    #[test]
    fn what_would_keep_a_crate_from_being_published_is_found() {
        let found = after("loom-journal", |member| {
            member.dependencies[0].has_version = false;
        });
        assert_one(&found, "`loom-spi` needs a version");
        let found = after("loom-store-memory", |member| member.published = false);
        assert_one(&found, "dependency `loom-store-memory` is not");
    }
}
