use loom_spi::{Append, Delete, ExecutionId, NewEvent, Operation};
use tempfile::TempDir;

use super::*;
use crate::file;
use crate::writer::Work;
use crate::writer::answer::{self, Answer};
use crate::writer::task::Request;

struct Fixture {
    _directory: TempDir,
    writer: Connection,
    /// Of somebody else.
    other: Connection,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shard.db");
        let file = file::create(&path, &Options::new()).unwrap();
        Self {
            writer: file.writer,
            other: Connection::open(path).unwrap(),
            _directory: directory,
        }
    }

    fn groups(&self) -> Groups<'_> {
        Groups::new(&self.writer, &Options::new()).unwrap()
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.other.query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    /// Whether somebody else could write at this moment.
    fn is_free(&self) -> bool {
        self.other.busy_timeout(Duration::ZERO).unwrap();
        let begun = self.other.execute_batch("BEGIN IMMEDIATE; ROLLBACK");
        begun.is_ok()
    }

    fn write_elsewhere(&self) {
        let marks = "INSERT INTO deletions (id) VALUES (hex(randomblob(8)))";
        self.other.execute(marks, []).unwrap();
    }
}

type Waiting<W> = Answer<Result<<W as Work>::Output, loom_spi::StoreError>>;

fn add<W: Work>(groups: &mut Groups<'_>, work: W) -> Waiting<W> {
    let (reply, answer) = answer::channel();
    groups.add(Box::new(Request {
        operation: Operation::Append,
        work,
        kept: None,
        reply,
    }));
    answer
}

fn append(name: &str, events: usize) -> Append {
    let id = ExecutionId::new(name).unwrap();
    Append::new(id, 0, vec![NewEvent::new("step", "payload"); events])
}

fn commit(groups: &mut Groups<'_>) {
    let answers = groups.commit();
    assert!(answers.fault.is_none());
    drop(answers.give());
}

/// Deletes a log of 100 events.
fn delete(groups: &mut Groups<'_>) {
    let _long = add(groups, append("long", 100));
    commit(groups);
    let _gone = add(groups, Delete::new(ExecutionId::new("long").unwrap()));
    commit(groups);
}

#[test]
fn changes_do_not_carry_garbage_and_removing_it_goes_in_steps() {
    let fixture = Fixture::new();
    let mut groups = fixture.groups();
    delete(&mut groups);
    assert!(groups.has_garbage());
    for n in 0..10 {
        let _short = add(&mut groups, append(&format!("short-{n}"), 1));
        commit(&mut groups);
    }
    assert_eq!(fixture.count("events"), 110);
    groups.reclaim();
    assert_eq!(fixture.count("events"), 78);
    while groups.has_garbage() {
        groups.reclaim();
    }
    assert_eq!((fixture.count("events"), fixture.count("garbage")), (10, 0));
}

#[test]
fn garbage_that_an_earlier_process_left_is_noticed_with_the_first_change() {
    let fixture = Fixture::new();
    delete(&mut fixture.groups());
    let mut groups = fixture.groups();
    let _short = add(&mut groups, append("short", 1));
    commit(&mut groups);
    assert!(groups.has_garbage());
}

#[test]
fn garbage_that_cannot_be_removed_is_in_the_way_of_nothing() {
    let fixture = Fixture::new();
    let mut groups = fixture.groups();
    delete(&mut groups);
    let refusing =
        "CREATE TRIGGER kept BEFORE DELETE ON events BEGIN SELECT raise(ABORT, 'no'); END";
    fixture.other.execute_batch(refusing).unwrap();
    groups.reclaim();
    assert!(!groups.has_garbage());
    let _short = add(&mut groups, append("short", 1));
    commit(&mut groups);
    assert_eq!(fixture.count("events"), 101);
}

#[test]
fn changes_are_made_while_the_group_gathers_but_for_others_it_leaves_the_lock() {
    let fixture = Fixture::new();
    let mut groups = fixture.groups();
    let _first = add(&mut groups, append("first", 1));
    assert!(!fixture.is_free());
    commit(&mut groups);

    fixture.write_elsewhere();
    // Here it is noticed.
    let _second = add(&mut groups, append("second", 1));
    commit(&mut groups);
    for n in 1..COURTESY {
        let _next = add(&mut groups, append(&format!("next-{n}"), 1));
        assert!(fixture.is_free(), "{n}");
        commit(&mut groups);
    }
    let _last = add(&mut groups, append("last", 1));
    commit(&mut groups);
    let _eager = add(&mut groups, append("eager", 1));
    assert!(!fixture.is_free());
    commit(&mut groups);
    assert_eq!(fixture.count("events"), i64::from(COURTESY) + 3);
}
