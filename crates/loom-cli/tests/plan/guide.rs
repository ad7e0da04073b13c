//! The guide "Review a rebalance in a pull request" shows what really happens.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Bench;

const GUIDE: &str = "docs/guides/review-a-rebalance.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn guide() -> String {
    fs::read_to_string(root().join(GUIDE)).unwrap()
}

/// The blocks of a language.
fn blocks<'a>(guide: &'a str, language: &str) -> Vec<&'a str> {
    guide
        .split(&format!("\n```{language}\n"))
        .skip(1)
        .map(|rest| &rest[..rest.find("```").unwrap()])
        .collect()
}

#[cfg(unix)]
/// What `sh` prints for `command` in the folder, with the binary under test as `loom`.
fn printed(bench: &Bench, command: &str) -> String {
    let loom = Path::new(env!("CARGO_BIN_EXE_loom")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .current_dir(bench.path("."))
        // One stream, as on a terminal.
        .args(["-c", &format!("exec 2>&1; {command}")])
        .env("PATH", format!("{}:{path}", loom.display()))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "A. Reviewer")))
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "a@example.org")))
        .env_remove("LOOM_CONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Set `LOOM_WRITE_GUIDE=1` to write what is printed into the guide, and look at the difference.
#[cfg(unix)]
#[test]
fn every_command_prints_what_the_guide_says() {
    let bench = Bench::new();
    let script = root().join("docs/examples/plans/review-plan.sh");
    bench.write("review-plan.sh", fs::read(script).unwrap());
    assert_eq!(printed(&bench, "git init -q -b main"), "");

    let guide = guide();
    let mut written = guide.clone();
    let mut differs = None;
    for shown in blocks(&guide, "console") {
        let mut real = String::new();
        for command in shown.lines().filter_map(|line| line.strip_prefix("$ ")) {
            real.push_str(&format!("$ {command}\n{}", printed(&bench, command)));
        }
        if shown != real {
            let block = |text: &str| format!("```console\n{text}```");
            written = written.replacen(&block(shown), &block(&real), 1);
            differs.get_or_insert((shown, real));
        }
    }
    if std::env::var_os("LOOM_WRITE_GUIDE").is_some() {
        fs::write(root().join(GUIDE), &written).unwrap();
    }
    if let Some((shown, real)) = differs {
        assert_eq!(
            shown, real,
            "LOOM_WRITE_GUIDE=1 writes what is real into {GUIDE}"
        );
    }
}

#[test]
fn the_code_in_the_guide_is_compiled() {
    let compiled = include_str!("own_snapshots.rs");
    let guide = guide();
    let shown = blocks(&guide, "rust");
    assert!(!shown.is_empty());
    for code in shown {
        assert!(compiled.contains(code), "not in own_snapshots.rs:\n{code}");
    }
}
