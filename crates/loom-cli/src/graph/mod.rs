//! Graphs of commands.

mod command;
mod file;
