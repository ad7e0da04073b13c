//! A program with something else that stores events or runs graphs: one process for each.
//!
//! Several bring their own SQLite, and only one can be linked into a program. What the two say to each other stands in
//! the README of `peers`.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::Failure;

pub(crate) struct Peer {
    process: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// Whether it syncs before it acknowledges.
    pub(crate) syncs: bool,
    /// What is set, and where its source says so.
    pub(crate) setting: String,
}

impl Peer {
    /// At a place: an empty folder, or the URL of an empty database.
    pub(crate) fn start(
        program: &Path,
        name: &str,
        place: impl AsRef<OsStr>,
    ) -> Result<Self, Failure> {
        let mut process = Command::new(program)
            .arg(name)
            .arg(place)
            // Its output is its answers; duroxide writes its log there too.
            .env("RUST_LOG", "off")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let (Some(questions), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("a process has no pipes".into());
        };
        let mut peer = Self {
            process,
            questions,
            answers: BufReader::new(answers).lines(),
            syncs: false,
            setting: String::new(),
        };
        let ready = peer.answer("ready")?;
        let (syncs, setting) = ready.split_once(' ').ok_or("a peer said too little")?;
        peer.syncs = syncs == "syncs";
        peer.setting = setting.to_owned();
        Ok(peer)
    }

    /// How long it took so many writers to append so many events each.
    pub(crate) fn append(&mut self, writers: usize, each: u64) -> Result<Duration, Failure> {
        self.ask(&format!("append {writers} {each}"))
    }

    /// How long it took to read an execution of 100 events so many times.
    pub(crate) fn read(&mut self, times: u64) -> Result<Duration, Failure> {
        self.ask(&format!("read {times}"))
    }

    /// How long it took to make, run and drop a graph of so many nodes that do nothing.
    pub(crate) fn graph(&mut self, nodes: usize) -> Result<Duration, Failure> {
        self.ask(&format!("graph {nodes}"))
    }

    /// What it is called in a row: one that does not sync says so.
    pub(crate) fn named(&self, what: &str) -> String {
        let apart = if self.syncs { "" } else { " (does NOT sync)" };
        format!("{what}{apart}")
    }

    fn ask(&mut self, question: &str) -> Result<Duration, Failure> {
        writeln!(self.questions, "{question}")?;
        Ok(Duration::from_nanos(self.answer("took")?.parse()?))
    }

    fn answer(&mut self, word: &str) -> Result<String, Failure> {
        let line = self.answers.next().ok_or("a peer ended by itself")??;
        match line.split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            _ => Err(format!("a peer said `{line}`, expected `{word}`").into()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
