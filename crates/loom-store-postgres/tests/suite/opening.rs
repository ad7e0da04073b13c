//! Creating and opening, and what is found instead of a store.

use std::error::Error as _;
use std::sync::Arc;

use loom_spi::{
    AcquireFence, Delete, DeploymentId, EventStore as _, Fencing as _, Head, List, PlanEpoch,
    PlanFingerprint, PlanLedger as _, Publish, PublishedPlan, Relocation as _, Seal, ShardIdentity,
    StoreError, StoreErrorKind, Unseal,
};
use loom_store_postgres::{OpenFailure, Options, PostgresStore, SCHEMA_VERSION};
use loom_test_postgres::{server, unique_name};

use crate::support::{Schema, append, client, id, location};

pub(crate) fn failure(error: &StoreError) -> &OpenFailure {
    error
        .source()
        .and_then(|source| source.downcast_ref())
        .unwrap_or_else(|| panic!("not a failure to open: {error}"))
}

fn shard(number: u16) -> Options {
    let deployment = DeploymentId::new("orders").unwrap();
    Options::new().with_identity(ShardIdentity::new(deployment, number))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_created_once_however_many_try_at_the_same_time() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let creations: Vec<_> = (0..8)
        .map(|_| {
            let location = schema.location.clone();
            tokio::spawn(async move { PostgresStore::create(&location, shard(3)).await })
        })
        .collect();
    let mut stores = Vec::new();
    for created in creations {
        stores.push(created.await.unwrap().unwrap());
    }
    stores[0].append(append("e", 0)).await.unwrap();
    for store in &stores {
        assert_eq!(store.identity().await.unwrap().unwrap().shard, 3);
        assert!(store.head(Head::new(id("e"))).await.unwrap().is_some());
    }
    let other = PostgresStore::create(&schema.location, shard(4))
        .await
        .unwrap_err();
    assert!(matches!(other.kind(), StoreErrorKind::WrongShard { .. }));
    let none = PostgresStore::create(&schema.location, Options::new())
        .await
        .unwrap_err();
    assert!(matches!(failure(&none), OpenFailure::AlreadyExists { .. }));
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_store_of_this_release_is_told_apart_and_left_alone() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let name = schema.location.schema();
    let open = || PostgresStore::open(&schema.location, Options::new());
    let error = open().await.unwrap_err();
    assert!(matches!(failure(&error), OpenFailure::Missing { .. }));

    let client = client(&server.url()).await.unwrap();
    client
        .batch_execute(&format!(
            "CREATE SCHEMA {name}; CREATE TABLE {name}.records (mine int)"
        ))
        .await
        .unwrap();
    for error in [
        open().await.unwrap_err(),
        PostgresStore::create(&schema.location, Options::new())
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(failure(&error), OpenFailure::Foreign { table, .. } if table == "records")
        );
    }
    client
        .batch_execute(&format!("DROP TABLE {name}.records"))
        .await
        .unwrap();

    // An empty schema that somebody with the right to it has made.
    let store = PostgresStore::create(&schema.location, Options::new())
        .await
        .unwrap();
    store.append(append("e", 0)).await.unwrap();
    store.close().await.unwrap();
    let newer = SCHEMA_VERSION + 1;
    client
        .batch_execute(&format!("UPDATE {name}.loom_schema SET version = {newer}"))
        .await
        .unwrap();
    for error in [
        open().await.unwrap_err(),
        PostgresStore::create(&schema.location, Options::new())
            .await
            .unwrap_err(),
    ] {
        assert!(
            matches!(failure(&error), OpenFailure::NewerSchema { found, .. } if *found == newer)
        );
        assert!(error.to_string().contains("newer release"), "{error}");
    }
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_unavailable_and_its_password_stays_secret() {
    let Some(server) = server() else { return };
    let no_server = "postgres://loom:hidden@127.0.0.1:9/postgres";
    let url = server.url();
    let no_database = with_database(&url, "nowhere");
    let no_certificates =
        "postgres://loom:hidden@127.0.0.1:9/d?sslmode=verify-full&sslrootcert=none.pem";
    for url in [no_server, &no_database, no_certificates] {
        let place = location(url, "loom");
        let error = PostgresStore::open(&place, Options::new())
            .await
            .unwrap_err();
        assert!(matches!(failure(&error), OpenFailure::Unreachable { .. }));
        assert!(matches!(
            error.kind(),
            StoreErrorKind::Unavailable {
                outcome_known: true,
                ..
            }
        ));
        assert!(!format!("{error} {error:?} {place:?}").contains("hidden"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_the_role_is_there_and_says_so() {
    let Some(server) = server() else { return };
    let url = with_login(&server.url(), "stranger:hidden");
    let error = PostgresStore::open(&location(&url, "loom"), Options::new())
        .await
        .unwrap_err();
    assert!(matches!(
        failure(&error),
        OpenFailure::Refused { passing: false, .. }
    ));
    assert!(matches!(
        error.kind(),
        StoreErrorKind::InvalidArgument { .. }
    ));
    assert!(!format!("{error} {error:?}").contains("hidden"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_wiped_or_swapped_is_noticed_when_a_connection_is_made_anew() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let name = schema.location.schema();
    let store = PostgresStore::create(&schema.location, shard(0))
        .await
        .unwrap();
    store.append(append("e", 0)).await.unwrap();

    let client = client(&server.url()).await.unwrap();
    client
        .batch_execute(&format!("DROP SCHEMA {name} CASCADE"))
        .await
        .unwrap();
    // The first answer may still come through the connection of before.
    let mut error = store.head(Head::new(id("e"))).await.unwrap_err();
    if !matches!(error.kind(), StoreErrorKind::WrongShard { .. }) {
        error = store.head(Head::new(id("e"))).await.unwrap_err();
    }
    assert!(
        matches!(error.kind(), StoreErrorKind::WrongShard { found: None, .. }),
        "{error}"
    );

    let swapped = PostgresStore::create(&schema.location, shard(1))
        .await
        .unwrap();
    let error = store.append(append("e", 1)).await.unwrap_err();
    assert!(
        matches!(error.kind(), StoreErrorKind::WrongShard { found: Some(found), .. } if found.shard == 1),
        "{error}"
    );
    assert!(swapped.head(Head::new(id("e"))).await.unwrap().is_none());
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_only_change_rows_can_do_all_that_a_service_does() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let (name, role) = (schema.location.schema(), unique_name());
    let owner = client(&server.url()).await.unwrap();
    owner
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'p'; CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO {role};
             ALTER DEFAULT PRIVILEGES IN SCHEMA {name} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}"
        ))
        .await
        .unwrap();
    let created = PostgresStore::create(&schema.location, Options::new())
        .await
        .unwrap();
    created.close().await.unwrap();
    let url = with_login(&server.url(), &format!("{role}:p"));
    let place = location(&url, name);
    let store = PostgresStore::open(&place, Options::new()).await.unwrap();
    store.append(append("e", 0)).await.unwrap();
    let fence = store
        .acquire_fence(AcquireFence::new(id("e")))
        .await
        .unwrap();
    store
        .append(append("e", 1).with_fence(fence))
        .await
        .unwrap();
    store.seal(Seal::new(id("e"))).await.unwrap();
    store.unseal(Unseal::new(id("e"))).await.unwrap();
    let epoch = PlanEpoch::new(1, PlanFingerprint(7));
    store
        .publish(Publish::new(PublishedPlan::new(epoch, "plan"), None))
        .await
        .unwrap();
    store
        .delete(Delete::new(id("e")).with_epoch(epoch).with_mark(true))
        .await
        .unwrap();
    // It may not do what it need not.
    let dropped = client(&url)
        .await
        .unwrap()
        .batch_execute(&format!("DROP TABLE {name}.events"))
        .await;
    assert!(dropped.is_err());
    store.close().await.unwrap();
    schema.remove().await.unwrap();
    owner
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_commits_while_a_listing_is_under_way_is_not_skipped() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let name = schema.location.schema();
    let store = Arc::new(
        PostgresStore::create(&schema.location, Options::new())
            .await
            .unwrap(),
    );
    let mut ids: Vec<_> = (0..20).map(|number| id(&format!("e{number}"))).collect();
    ids.sort_by_key(|id| (id.route_hash().index_key(), id.clone()));
    // The last in list order is written first and commits last.
    let late = ids.last().unwrap().clone();
    let other = client(&server.url()).await.unwrap();
    other
        .batch_execute(&format!(
            "SET search_path = {name}; BEGIN; INSERT INTO records (index_key, id, fence) VALUES ({}, '{late}', 1)",
            late.route_hash().index_key()
        ))
        .await
        .unwrap();
    for id in &ids[..19] {
        store.append(append(id.as_str(), 0)).await.unwrap();
    }
    let first = store.list(List::new(5)).await.unwrap();
    let log = "00000000-0000-0000-0000-000000000001";
    other
        .batch_execute(&format!(
            "UPDATE records SET log = '{log}', next_seq = 1 WHERE id = '{late}';
             INSERT INTO events VALUES ('{log}', 0, 0, false, 'k', ''); COMMIT"
        ))
        .await
        .unwrap();
    let mut listed: Vec<_> = first
        .executions
        .iter()
        .map(|found| found.id.clone())
        .collect();
    let mut next = first.next;
    while let Some(cursor) = next {
        let page = store.list(List::new(5).with_cursor(cursor)).await.unwrap();
        listed.extend(page.executions.iter().map(|found| found.id.clone()));
        next = page.next;
    }
    assert_eq!(listed, ids);
    schema.remove().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_does_not_wait_for_the_disk_is_made_to() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let (name, role) = (schema.location.schema(), unique_name());
    let owner = client(&server.url()).await.unwrap();
    owner
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'p'; ALTER ROLE {role} SET synchronous_commit = off;
             CREATE SCHEMA {name} AUTHORIZATION {role}"
        ))
        .await
        .unwrap();
    let url = with_login(&server.url(), &format!("{role}:p"));
    let store = PostgresStore::create(&location(&url, name), Options::new())
        .await
        .unwrap();
    // Notes how the transactions commit that append.
    owner
        .batch_execute(&format!(
            "CREATE TABLE {name}.commits (synchronous text); GRANT INSERT ON {name}.commits TO {role};
             CREATE FUNCTION {name}.note() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO {name}.commits VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
             CREATE TRIGGER note AFTER INSERT ON {name}.events FOR EACH ROW EXECUTE FUNCTION {name}.note()"
        ))
        .await
        .unwrap();
    store.append(append("e", 0)).await.unwrap();
    store.append(append("e", 1)).await.unwrap();
    let rows = owner
        .query(&format!("SELECT synchronous FROM {name}.commits"), &[])
        .await
        .unwrap();
    let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, ["on", "on"]);
    store.close().await.unwrap();
    schema.remove().await.unwrap();
    owner
        .batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_utf8_is_refused_before_anything_is_made_in_it() {
    let Some(server) = server() else { return };
    let owner = client(&server.url()).await.unwrap();
    let database = unique_name();
    owner
        .batch_execute(&format!(
            "CREATE DATABASE {database} ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        ))
        .await
        .unwrap();
    let url = with_database(&server.url(), &database);
    let error = PostgresStore::create(&location(&url, "loom"), Options::new())
        .await
        .unwrap_err();
    assert!(
        matches!(failure(&error), OpenFailure::Encoding { encoding, .. } if encoding == "SQL_ASCII"),
        "{error}"
    );
    let inside = client(&url).await.unwrap();
    let made = inside
        .query("SELECT FROM pg_namespace WHERE nspname = 'loom'", &[])
        .await
        .unwrap();
    assert!(made.is_empty());
    drop(inside);
    owner
        .batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)"))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_removed_is_gone_and_what_others_have_beside_it_stays() {
    let Some(server) = server() else { return };
    let schema = Schema::new(&server);
    let (place, name) = (&schema.location, schema.location.schema());
    let remove = || PostgresStore::remove(place, Options::new());
    assert!(matches!(
        failure(&remove().await.unwrap_err()),
        OpenFailure::Missing { .. }
    ));
    let store = PostgresStore::create(place, shard(0)).await.unwrap();
    store.append(append("e", 0)).await.unwrap();
    store.close().await.unwrap();
    let other = PostgresStore::remove(place, shard(7)).await.unwrap_err();
    assert!(matches!(other.kind(), StoreErrorKind::WrongShard { .. }));
    remove().await.unwrap();
    let client = client(&server.url()).await.unwrap();
    let count = format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'");
    let there: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
    assert_eq!(there, 0);

    // Nothing of it is left that would be in the way of another one.
    let again = PostgresStore::create(place, shard(1)).await.unwrap();
    assert!(again.head(Head::new(id("e"))).await.unwrap().is_none());
    again.close().await.unwrap();
    let others = format!("CREATE TABLE {name}.others ()");
    client.batch_execute(&others).await.unwrap();
    remove().await.unwrap();
    assert!(matches!(
        failure(&remove().await.unwrap_err()),
        OpenFailure::Foreign { table, .. } if table == "others"
    ));
    schema.remove().await.unwrap();
}

/// The URL of another database of the same server.
fn with_database(url: &str, database: &str) -> String {
    let (url, query) = url.split_once('?').unwrap_or((url, ""));
    let (server, _) = url.rsplit_once('/').unwrap();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{server}/{database}{mark}{query}")
}

/// The URL as somebody else.
fn with_login(url: &str, login: &str) -> String {
    let (_, rest) = url.split_once('@').unwrap();
    format!("postgres://{login}@{rest}")
}
