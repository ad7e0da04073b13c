//! The tasks of the project.

fn main() {}
