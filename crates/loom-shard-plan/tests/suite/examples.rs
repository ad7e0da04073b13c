//! The example plans of the documentation, and the examples of the specification.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use loom_shard_plan::{RebalanceOptions, ShardPlan};

use crate::formats::from_hex;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The example plans, `HISTORY-EPOCH.plan`, by history and in order.
fn histories() -> BTreeMap<String, Vec<PathBuf>> {
    let files = fs::read_dir(docs().join("examples/plans")).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "plan")
    });
    paths.sort();
    let mut histories: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let history = name.rsplit_once('-').unwrap().0.to_owned();
        histories.entry(history).or_default().push(path);
    }
    histories
}

fn read(path: &Path) -> ShardPlan {
    let text = fs::read_to_string(path).unwrap();
    let plan: ShardPlan = text.parse().unwrap();
    assert_eq!(
        plan.to_string(),
        text,
        "{} is not canonical",
        path.display()
    );
    plan
}

#[test]
fn each_example_plan_may_follow_the_one_before_and_the_summary_says_how() {
    assert!(!histories().is_empty());
    for paths in histories().values() {
        for two in paths.windows(2) {
            let (before, after) = (read(&two[0]), read(&two[1]));
            assert_eq!(
                before.validate_transition(&after),
                Ok(()),
                "{}",
                two[1].display()
            );
            let summary = fs::read_to_string(two[1].with_extension("diff")).unwrap();
            assert_eq!(
                before.diff(&after).unwrap().to_string(),
                summary,
                "{}",
                two[1].display()
            );
        }
    }
}

#[test]
fn a_growth_and_its_end_as_people_and_tools_read_them() {
    let four = ShardPlan::with_buckets(4, 20).unwrap();
    let five = four.rebalanced(5, RebalanceOptions::default()).unwrap();
    let diff = four.diff(&five).unwrap();
    assert_snapshot!("growth", five);
    assert_snapshot!("growth_diff", diff);
    assert_snapshot!(
        "growth_diff_json",
        serde_json::to_string_pretty(&diff).unwrap()
    );

    let half = five.settled_all([4, 5]).unwrap();
    let back = half.reverted(14).unwrap();
    assert_snapshot!("half_settled_diff", five.diff(&half).unwrap());
    assert_snapshot!("reverted_diff", half.diff(&back).unwrap());
    assert_snapshot!("skipped_epochs_diff", four.diff(&back).unwrap());
    assert_snapshot!("split_diff", back.diff(&back.split(3).unwrap()).unwrap());
}

#[test]
fn warnings_as_people_read_them() {
    let coarse = [65, 1000].map(|shards| ShardPlan::new(shards).unwrap());
    let fine = ShardPlan::new(64).unwrap();
    assert_eq!(fine.warnings(), []);
    assert_eq!(coarse[0].split(2).unwrap().warnings(), []);
    let shrink = RebalanceOptions::default().allow_shrink(true);
    let shrunk = fine.rebalanced(63, shrink).unwrap();
    let back = shrunk
        .reverted_all(shrunk.migrating_buckets().iter())
        .unwrap();
    let stuck = back.settled_all(back.migrating_buckets().iter()).unwrap();
    let idle = ShardPlan::with_buckets(4, 4)
        .unwrap()
        .to_string()
        .replace("3: 3\n", "3: 0\n");
    let idle: ShardPlan = idle.parse().unwrap();
    let plans = coarse.into_iter().chain([stuck, idle]);
    let warnings = plans
        .flat_map(|plan| plan.warnings())
        .map(|warning| warning.to_string());
    assert_snapshot!(warnings.collect::<Vec<_>>().join("\n"));
}

/// The blocks of a kind in a page.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    page.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_examples_of_the_specification_are_plans() {
    let page = fs::read_to_string(docs().join("specification/plan-format.md")).unwrap();
    let texts = blocks(&page, "text");
    let text = texts
        .iter()
        .find(|text| text.starts_with("loom-shard-plan v1"))
        .unwrap();
    let plan: ShardPlan = text.parse().unwrap();
    assert_eq!(plan.to_string(), *text);

    let annotated = texts
        .iter()
        .find(|text| text.starts_with("4c 53 50"))
        .unwrap();
    let hex = annotated
        .lines()
        .map(|line| line.get(..28).unwrap_or(line))
        .collect::<String>();
    assert_eq!(ShardPlan::from_bytes(&from_hex(&hex)), Ok(plan.clone()));
    assert!(page.contains(&plan.fingerprint().to_string()));

    let json = blocks(&page, "json").concat();
    let read = ShardPlan::from_json(&json).unwrap();
    assert_eq!(read.to_json(), json.replace(['\n', ' '], ""));
}
