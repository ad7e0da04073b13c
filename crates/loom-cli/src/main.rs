//! The `loom` command.

fn main() {}
