//! What no compiler and no lint looks at: files that grow too long, left-overs, dead links, decision records that
//! nobody finds.

#[cfg(test)]
mod adr;
#[cfg(test)]
mod code;
#[cfg(test)]
mod links;
#[cfg(test)]
mod text;
#[cfg(test)]
mod tree;

use tree::Tree;

/// A rule sees all files and says, in words, where they do not follow it.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[Rule] = &[
    code::files_are_short,
    code::nothing_is_left_over,
    code::tests_do_not_sleep,
    code::readmes_are_front_pages,
    text::lines_end_cleanly,
    text::paths_are_relative,
    links::links_resolve,
    adr::decisions_are_found,
];

#[test]
fn the_tree_is_tidy() {
    let tree = Tree::read();
    let violations: Vec<_> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn the_tree_is_really_looked_at() {
    let tree = Tree::read();
    for file in [
        "Cargo.toml",
        "crates/loom-spi/src/lib.rs",
        ".ci/run",
        "ARCHITECTURE.md",
    ] {
        assert!(tree.text(file).is_some(), "{file} was not read");
    }
    assert!(tree.paths().all(|path| !path.starts_with("target/")));
}
