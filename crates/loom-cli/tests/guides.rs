//! The guides show what really happens: their commands are run, in order, in a folder of their own.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::Bench;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `sh` prints for a command, with the binary under test as `loom` and one stream, as on a terminal.
fn printed(bench: &Bench, command: &str) -> String {
    let loom = Path::new(env!("CARGO_BIN_EXE_loom")).parent().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(bench.path(""))
        .env(
            "PATH",
            format!("{}:{}", loom.display(), std::env::var("PATH").unwrap()),
        )
        .env_remove("LOOM_CONFIG")
        // As the guide on servers says.
        .env("PGPASSWORD", "choose-one")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// What is the same in every run: without how long something took, and without the lines that tell of
/// nodes in whatever order they end.
fn comparable(text: &str) -> Vec<&str> {
    let lines = text.lines().map(|line| match line.rsplit_once("  ") {
        Some((text, took)) if took.ends_with(" s") => text,
        _ => line,
    });
    lines
        .filter(|line| !line.ends_with(": started") && !line.ends_with(": completed"))
        .collect()
}

/// `LOOM_WRITE_GUIDE=1` writes what is real into the guide: look at the difference.
fn check(name: &str, prepare: impl FnOnce(&Bench)) {
    check_as(name, &[], prepare);
}

/// With other names for what the guide calls something that is not there.
fn check_as(name: &str, names: &[(&str, String)], prepare: impl FnOnce(&Bench)) {
    let real_names = |text: &str| {
        let renamed = names.iter();
        renamed.fold(text.to_owned(), |text, (shown, real)| {
            text.replace(shown, real)
        })
    };
    let shown_names = |text: &str| {
        let renamed = names.iter();
        renamed.fold(text.to_owned(), |text, (shown, real)| {
            text.replace(real, shown)
        })
    };
    let path = root().join("docs/guides").join(name);
    let guide = fs::read_to_string(&path).unwrap();
    let bench = Bench::new();
    prepare(&bench);
    let mut written = guide.clone();
    let mut differs = Vec::new();
    for rest in guide.split("\n```console\n").skip(1) {
        let shown = &rest[..rest.find("```").unwrap()];
        let mut real = String::new();
        for command in shown.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let printed = printed(&bench, &real_names(command));
            real.push_str(&format!("$ {command}\n{}", shown_names(&printed)));
        }
        if comparable(shown) != comparable(&real) {
            let block = |text: &str| format!("```console\n{text}```");
            written = written.replacen(&block(shown), &block(&real), 1);
            differs.push((shown.to_owned(), real));
        }
    }
    if std::env::var_os("LOOM_WRITE_GUIDE").is_some() {
        fs::write(&path, written).unwrap();
    }
    for (shown, real) in differs {
        assert_eq!(
            shown, real,
            "LOOM_WRITE_GUIDE=1 writes what is real into {name}"
        );
    }
}

#[test]
fn the_first_deployment() {
    check("getting-started.md", |bench| {
        std::os::unix::fs::symlink(root().join("docs"), bench.path("docs")).unwrap();
    });
}

#[test]
fn growing() {
    check("grow.md", |_| {});
}

#[test]
fn import_and_export() {
    check("import-export.md", |_| {});
}

#[test]
fn backing_up() {
    check("back-up.md", |_| {});
}

#[test]
fn retention() {
    check("retain.md", |_| {});
}

#[test]
fn shards_on_servers() {
    if !loom_test_postgres::available() {
        return;
    }
    let guide = fs::read_to_string(root().join("docs/guides/postgres.md")).unwrap();
    let server = || {
        let settings = loom_test_postgres::Settings::fast();
        let cluster = loom_test_postgres::Cluster::start(&settings).unwrap();
        cluster
            .execute("postgres", "CREATE DATABASE events")
            .unwrap();
        for rest in guide.split("\n```sql\n").skip(1) {
            let sql = &rest[..rest.find("```").unwrap()];
            cluster.execute("events", sql).unwrap();
        }
        cluster
    };
    let (first, second) = (server(), server());
    let address = |cluster: &loom_test_postgres::Cluster| format!("127.0.0.1:{}", cluster.port());
    let names = [
        ("db-1.shop.local", address(&first)),
        ("db-2.shop.local", address(&second)),
    ];
    check_as("postgres.md", &names, |_| {});
}

#[test]
fn fork_and_join() {
    check("fork-join.md", |bench| {
        bench.write(
            "nightly.toml",
            "[node.fetch]\ncommand = [\"sh\", \"-c\", \"echo 3 files\"]\n\n\
             [node.count]\ncommand = [\"sh\", \"-c\", \"cat\"]\nafter = [\"fetch\"]\ninput = { depth = 2 }\n",
        );
        bench.write(
            "flaky.toml",
            "[node.fetch]\ncommand = [\"sh\", \"-c\", \"test -e ready || { touch ready; exit 1; }; echo 3 files\"]\nretries = 2\n\n\
             [node.count]\ncommand = [\"sh\", \"-c\", \"cat\"]\nafter = [\"fetch\"]\n",
        );
    });
}

#[test]
fn a_process_for_each_branch() {
    check("processes.md", |bench| {
        let guide = fs::read_to_string(root().join("docs/guides/processes.md")).unwrap();
        let graph = guide.split("```toml\n").nth(1).unwrap();
        bench.write("graph.toml", graph.split("```").next().unwrap());
    });
}

/// The front page shows the demo. Its folder and the name of the program are all that may differ.
#[test]
fn the_front_page_shows_what_the_demo_prints() {
    let page = fs::read_to_string(root().join("README.md")).unwrap();
    let shown: Vec<&str> = comparable(&page);
    let bench = Bench::new();
    std::os::unix::fs::symlink(root().join("docs"), bench.path("docs")).unwrap();
    for command in [
        "loom init --shards 4 --dir target/demo",
        "loom graph run docs/examples/incident/incident.toml --config target/demo/loom.toml --id incident-42",
        "loom status --config target/demo/loom.toml",
        "loom --config target/demo/loom.toml rebalance --shards 5 --yes",
    ] {
        for line in comparable(&printed(&bench, command)) {
            assert!(
                shown.contains(&line),
                "`{command}` prints what the front page does not:\n{line}"
            );
        }
    }
}
