//! How SQLite answers the statements: from an index or a key, never by looking at everything.

use rusqlite::{Connection, Statement, StatementStatus};

use crate::reader::{self, Reader};
use crate::record::Record;
use crate::{head, ledger, lineage, list, marks, read, records, schema, staged};

/// What `EXPLAIN QUERY PLAN` says, a line for each step.
fn plan(sql: &str) -> Vec<String> {
    let connection = tables();
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let parameters = vec![None::<i64>; explain.parameter_count()];
    let steps = explain
        .query_map(rusqlite::params_from_iter(parameters), |row| row.get(3))
        .unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

fn tables() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(&schema::tables()).unwrap();
    connection
}

#[test]
fn a_head_is_one_descent_of_the_index() {
    assert_eq!(
        plan(head::FIND),
        [
            "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH r USING INDEX records_in_list_order (index_key=? AND id=?) LEFT-JOIN",
        ]
    );
    assert_eq!(
        plan(Record::FIND),
        ["SEARCH records USING INDEX records_in_list_order (index_key=? AND id=?)"]
    );
}

#[test]
fn a_list_comes_from_the_index_in_its_order() {
    assert_eq!(
        plan(list::LIST),
        ["SEARCH records USING INDEX records_in_list_order ((index_key,id)>(?,?) AND index_key<?)"]
    );
}

#[test]
fn a_look_at_a_record_is_one_descent_of_the_index() {
    assert_eq!(plan(records::INSPECT), plan(head::FIND));
}

#[test]
fn records_come_from_the_index_in_its_order() {
    assert_eq!(plan(records::RECORDS), plan(list::LIST));
}

#[test]
fn a_page_of_events_comes_from_the_index_in_its_order() {
    assert_eq!(
        plan(read::EVENTS),
        ["SEARCH events USING INDEX events_in_log (log=? AND seq>?)"]
    );
}

#[test]
fn every_other_statement_searches_too() {
    let statements = [
        Record::UPDATE,
        Record::UPDATE_HEAD,
        head::PLAN,
        lineage::CHILDREN,
        lineage::PARENT,
        lineage::FORGET,
        ledger::CURRENT,
        ledger::IDENTITY,
        crate::delete::RECLAIM,
        crate::writer::LAST_LOG,
        marks::FIND,
        staged::FIND,
        staged::REMOVE,
    ];
    for sql in statements {
        for step in plan(sql) {
            assert!(
                step.starts_with("SEARCH") || step.starts_with("LIST SUBQUERY"),
                "{sql}\n{step}"
            );
            assert!(!step.contains("AUTOMATIC"), "{sql}\n{step}");
        }
    }
}

/// SQLite plans some statements anew when other values are bound to them, which costs more than to run them.
#[test]
fn the_writers_statements_keep_their_plan_whatever_they_are_asked_for() {
    let connection = tables();
    for sql in [Record::FIND, Record::UPDATE_HEAD, lineage::PARENT] {
        let mut statement = connection.prepare(sql).unwrap();
        for value in 0..50 {
            run(&mut statement, value);
        }
        let planned_anew = statement.get_status(StatementStatus::RePrepare);
        // The first values may teach it something.
        assert!(planned_anew <= 2, "{planned_anew} times: {sql}");
    }
}

#[test]
fn the_readers_statements_keep_their_plan_whatever_they_are_asked_for() {
    let reader = Reader::new(tables()).unwrap();
    for sql in reader::STATEMENTS {
        for value in 0..50 {
            let mut statement = reader.statement(sql).unwrap();
            run(&mut statement, value);
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
        }
    }
}

fn run(statement: &mut Statement<'_>, value: i64) {
    let values = vec![value; statement.parameter_count()];
    let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
    while rows.next().unwrap().is_some() {}
}

#[test]
fn a_bucket_is_listed_without_looking_at_the_others() {
    let connection = tables();
    for key in 0..10_000 {
        connection
            .prepare_cached("INSERT INTO records VALUES (NULL, ?1, ?2, 1, 1, 0, 0, 0, NULL, NULL, NULL, NULL, 0, 0)")
            .unwrap()
            .execute((key, format!("order-{key}")))
            .unwrap();
    }
    for sql in [list::LIST, records::RECORDS] {
        let mut find = connection.prepare(sql).unwrap();
        let found = find
            .query_map((5_000, "", 5_009), |row| row.get::<_, i64>(5))
            .unwrap();
        assert_eq!(
            found.map(Result::unwrap).collect::<Vec<_>>(),
            (5_000..=5_009).collect::<Vec<_>>()
        );
        assert_eq!(find.get_status(StatementStatus::FullscanStep), 0);
        assert_eq!(find.get_status(StatementStatus::Sort), 0);
        // About a dozen instructions of SQLite's machine for each row.
        let steps = find.get_status(StatementStatus::VmStep);
        assert!(steps < 400, "{steps} steps");
    }
}
