use super::*;

/// Stands in for `loom`, so that these tests build nothing: a plan is two lines, the second with its epoch
/// and without spaces at its end; the next epoch is a legal step.
fn loom(root: &Path, args: &[&str]) -> Result<Ran, String> {
    let ran = |code, stdout: String, stderr: String| Ran {
        code: Some(code),
        stdout,
        stderr,
    };
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let epoch = |text: &str| -> Option<u64> {
        text.lines()
            .nth(1)?
            .trim_end()
            .strip_prefix("epoch ")?
            .parse()
            .ok()
    };
    Ok(match args {
        ["plan", "show", path, "--format", "text"] => match epoch(&read(path)) {
            Some(epoch) => ran(0, format!("plan\nepoch {epoch}\n"), String::new()),
            None => ran(2, String::new(), format!("error: {path}:2:1: no epoch\n")),
        },
        ["plan", "diff", now, next] => {
            let (now, next) = (epoch(&read(now)).unwrap(), epoch(&read(next)).unwrap());
            let legal = next == now + 1;
            let text = format!("{now} -> {next}\nlegal: {legal}\n");
            ran(if legal { 0 } else { 3 }, text, "error: no\n".to_owned())
        }
        other => return Err(format!("unexpected: {other:?}")),
    })
}

/// A folder with `files`, name and text.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("plans")).unwrap();
    for (name, text) in files {
        fs::write(root.path().join("plans").join(name), text).unwrap();
    }
    root
}

fn check(root: &Path, bless: bool) -> Result<Checked, String> {
    let plans = Plans {
        root,
        folder: "plans",
        loom: &|args| loom(root, args),
        bless,
    };
    plans.check()
}

const GOOD: &[(&str, &str)] = &[
    ("README.md", "about them"),
    ("a-0001.plan", "plan\nepoch 1\n"),
    ("a-0002.diff", "1 -> 2\nlegal: true\n"),
    ("a-0002.plan", "plan\nepoch 2\n"),
    ("a-b-0007.plan", "plan\nepoch 7\n"),
    ("a-b-0008.diff", "7 -> 8\nlegal: true\n"),
    ("a-b-0008.plan", "plan\nepoch 8\n"),
];

/// `GOOD` with other texts for some of the files; no text is no file.
fn but(changes: &[(&str, Option<&str>)]) -> tempfile::TempDir {
    let root = folder(GOOD);
    for (name, text) in changes {
        let file = root.path().join("plans").join(name);
        match text {
            Some(text) => fs::write(file, text).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
    }
    root
}

fn assert_one_finding(changes: &[(&str, Option<&str>)], expected: &[&str]) {
    let root = but(changes);
    let checked = check(root.path(), false).unwrap();
    assert_eq!(checked.findings.len(), 1, "{changes:?}: {checked:?}");
    for expected in expected {
        let found = &checked.findings[0];
        assert!(found.contains(expected), "{expected:?} is not in:\n{found}");
    }
    assert!(checked.written.is_empty());
}

#[test]
fn histories_that_are_as_committed_are_counted() {
    let checked = check(folder(GOOD).path(), false).unwrap();
    assert_eq!(
        checked,
        Checked {
            plans: 4,
            steps: 2,
            ..Checked::default()
        }
    );
}

#[test]
fn a_summary_that_differs_is_shown_as_a_difference() {
    assert_one_finding(
        &[("a-0002.diff", Some("1 -> 2\nlegal: maybe\n"))],
        &[
            "plans/a-0002.diff is not what",
            " 1 -> 2\n-legal: maybe\n+legal: true\n",
        ],
    );
}

#[test]
fn a_summary_that_is_missing_is_shown() {
    assert_one_finding(
        &[("a-b-0008.diff", None)],
        &["plans/a-b-0008.diff is missing", "+7 -> 8\n"],
    );
}

#[test]
fn a_summary_of_no_step_is_left_over() {
    let first = ("a-0001.diff", Some("? -> 1\n"));
    assert_one_finding(&[first], &["plans/a-0001.diff is left over"]);
    let gone = ("z-0002.diff", Some(""));
    assert_one_finding(&[gone], &["plans/z-0002.diff is left over"]);
}

#[test]
fn a_plan_that_is_not_canonical_is_shown_as_a_difference() {
    assert_one_finding(
        &[("a-0001.plan", Some("plan\nepoch 1  \n"))],
        &["plans/a-0001.plan is not written", "-epoch 1  \n+epoch 1\n"],
    );
}

#[test]
fn a_plan_that_is_none_is_told_in_the_words_of_the_command() {
    let broken = ("a-b-0008.plan", Some("plan\nepcoh 8\n"));
    assert_one_finding(&[broken], &["error: plans/a-b-0008.plan:2:1: no epoch"]);
}

#[test]
fn a_name_that_says_no_epoch_or_another_one_is_refused() {
    for name in ["plan.plan", "a-2.plan", "a-00x2.plan"] {
        let added = (name, Some("plan\nepoch 2\n"));
        assert_one_finding(&[added], &["expected a name like"]);
    }
    let other = ("z-0003.plan", Some("plan\nepoch 4\n"));
    assert_one_finding(&[other], &["expected a plan of epoch 3"]);
}

#[test]
fn an_illegal_step_is_refused_with_what_the_command_says_and_cannot_be_blessed() {
    let gap = [
        ("a-b-0008.diff", None),
        ("a-b-0008.plan", None),
        ("a-b-0009.plan", Some("plan\nepoch 9\n")),
    ];
    assert_one_finding(&gap, &["7 -> 9", "legal: false", "error: no"]);
    let checked = check(but(&gap).path(), true).unwrap();
    assert_eq!(checked.findings.len(), 1);
}

#[test]
fn blessing_writes_what_is_derived_and_then_all_is_well() {
    let root = but(&[
        ("a-0001.plan", Some("plan\nepoch 1  \n")),
        ("a-0002.diff", Some("outdated")),
        ("a-b-0008.diff", None),
        ("z-0002.diff", Some("left over")),
    ]);
    let blessed = check(root.path(), true).unwrap();
    assert_eq!(
        blessed.written,
        [
            "plans/a-0001.plan",
            "plans/a-0002.diff",
            "plans/a-b-0008.diff",
            "plans/z-0002.diff (removed)"
        ]
    );
    let again = check(root.path(), false).unwrap();
    assert_eq!((again.steps, again.findings), (2, Vec::new()));
}

#[test]
fn a_folder_without_plans_is_not_taken_for_one_that_is_fine() {
    let error = check(folder(&[]).path(), false).unwrap_err();
    assert_eq!(error, "there are no plans in plans");
    assert!(check(Path::new("no/such"), false).is_err());
}
