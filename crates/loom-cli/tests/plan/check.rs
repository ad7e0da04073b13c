//! `loom plan check`.

use super::{Bench, grown, words};

#[test]
fn a_good_plan_is_told_in_one_line() {
    insta::assert_snapshot!(grown().run(&words("plan check b.plan")).shown());
}

#[test]
fn what_is_probably_not_wanted_is_warned_of() {
    let bench = Bench::new();
    bench.ok(&words("plan new --shards 1000 --out a.plan"));
    insta::assert_snapshot!(bench.run(&words("plan check a.plan")).shown());
    let checked = bench.json(&words("plan check a.plan"));
    assert_eq!(checked["shards"], 1000);
    assert_eq!(checked["warnings"].as_array().map(Vec::len), Some(1));
    assert_eq!(checked["canonical"], true);
}

#[test]
fn a_comment_is_fine_unless_the_file_has_to_be_canonical() {
    let bench = grown();
    let commented = bench
        .read("a.plan")
        .replace("buckets", "# as agreed\nbuckets");
    bench.write("a.plan", commented);
    assert_eq!(bench.json(&words("plan check a.plan"))["canonical"], false);
    insta::assert_snapshot!(bench.run(&words("plan check a.plan --canonical")).shown());
}

#[test]
fn every_format_that_is_written_is_canonical() {
    let bench = grown();
    for format in ["text", "json", "bin"] {
        bench.ok(&words(&format!(
            "plan settle b.plan --all --format {format} --out c"
        )));
        let checked = bench.json(&words("plan check c --canonical"));
        assert_eq!(checked["format"], format);
    }
    let json = bench.ok(&words("plan show a.plan --format json"));
    bench.write("c", json.trim_end());
    bench.ok(&words("plan check c --canonical"));
    bench.write("c", json.replace(",", ", "));
    assert_eq!(bench.run(&words("plan check c --canonical")).code, Some(2));
    bench.write("c", bench.read("a.plan").trim_end());
    assert_eq!(bench.run(&words("plan check c --canonical")).code, Some(2));
}
