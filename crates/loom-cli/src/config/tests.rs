use super::*;

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(&Source::new(Path::new("d/loom.toml"), text.to_owned()))
        .map_err(|failure| failure.to_string())
}

#[test]
fn a_whole_file_is_read() {
    let config = parse(
        "deployment = \"shop\"\n\
         [[shard]]\nid = 0\nurl = \"sqlite:a.db\"\n\
         [[shard]]\nid = 7\nurl = \"sqlite:/b.db\"\n\
         [limits]\nresolution_cache = 9\nimport_window = 8\nimport_appends = 7\ngraph_nodes = 6\nbusy_timeout_ms = 5\n",
    )
    .unwrap();
    assert_eq!(config.deployment.as_str(), "shop");
    assert_eq!(config.file(0).unwrap(), Path::new("d/a.db"));
    assert_eq!(config.file(7).unwrap(), Path::new("/b.db"));
    assert_eq!(config.file(1), None);
    assert_eq!(config.limits.resolution_cache, Some(9));
    assert_eq!(config.limits.graph_nodes, Some(6));
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_was_expected() {
    let shard = "[[shard]]\nid = 0\nurl = \"sqlite:a.db\"\n";
    let cases = [
        ("deployment = \n".to_owned(), "d/loom.toml:1:", "expected"),
        (
            shard.to_owned(),
            "d/loom.toml:1:1",
            "missing field `deployment`",
        ),
        (
            "deployment = \"d\"\n".to_owned(),
            "d/loom.toml:1:1",
            "at least one `[[shard]]`",
        ),
        (
            format!("deployment = \"\"\n{shard}"),
            "d/loom.toml:1:14",
            "expected 1 to 255",
        ),
        (
            format!("deployment = \"d\"\ncolour = 1\n{shard}"),
            "d/loom.toml:2:1",
            "unknown field `colour`, expected",
        ),
        (
            format!("deployment = \"d\"\n{shard}weight = 2\n"),
            "d/loom.toml:5:1",
            "unknown field `weight`, expected",
        ),
        (
            format!("deployment = \"d\"\n{shard}{shard}"),
            "d/loom.toml:6:6",
            "each id once",
        ),
        (
            format!("deployment = \"d\"\n{shard}[[shard]]\nid = 1\nurl = \"sqlite:a.db\"\n"),
            "d/loom.toml:1:1",
            "expected a file or a schema for each",
        ),
        (
            "deployment = \"d\"\n[[shard]]\nid = 70000\nurl = \"sqlite:a\"\n".to_owned(),
            "d/loom.toml:3:6",
            "expected u16",
        ),
        (
            "deployment = \"d\"\n[[shard]]\nid = 0\nurl = \"a.db\"\n".to_owned(),
            "d/loom.toml:4:7",
            "expected a url, `sqlite:PATH`",
        ),
        (
            format!("deployment = \"d\"\n{shard}[limits]\ngraph_nodes = 0\n"),
            "d/loom.toml:5:1",
            "`graph_nodes` is 0: expected at least 1",
        ),
        (
            format!("deployment = \"d\"\n{shard}[limits]\nnodes = 1\n"),
            "d/loom.toml:6:1",
            "unknown field `nodes`",
        ),
    ];
    for (text, place, expected) in cases {
        let refusal = parse(&text).unwrap_err();
        assert!(refusal.contains(place), "{refusal}\nfor\n{text}");
        assert!(refusal.contains(expected), "{refusal}\nfor\n{text}");
    }
}

#[test]
fn a_password_in_any_place_is_never_repeated() {
    let url = "postgres://loom:hunter2@db/loom?no-such-parameter=1";
    for text in [
        format!("deployment = \"d\"\n[[shard]]\nid = 0\nurl = \"{url}\"\n"),
        format!("deployment = \"d\"\n[[shard]]\nid = \"{url}\"\nurl = \"sqlite:a\"\n"),
        format!("deployment = \"d\"\n[[shard]]\nid = 0\nurl = \"{url}\n"),
        format!("deployment = \"d\"\n[[shard]]\nid = 0\nurl = [\"{url}\"]\n"),
    ] {
        let refusal = parse(&text).unwrap_err();
        assert!(!refusal.contains("hunter2"), "{refusal}");
        assert!(refusal.contains("d/loom.toml:"), "{refusal}");
    }
}
