//! Encrypted connections, and servers that are not who they should be.

use std::path::{Path, PathBuf};

use loom_spi::{EventStore as _, StoreError};
use loom_store_postgres::{OpenFailure, Options, PostgresStore};
use loom_test_postgres::{Cluster, Settings, available};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::opening::failure;
use crate::support::{append, client, location};

/// Vouches for servers.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, as a file.
    file: PathBuf,
}

impl Authority {
    fn new(file: PathBuf) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(&file, certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, file }
    }

    /// A server that shows a certificate for `name`, or none.
    fn server(&self, name: &str) -> Cluster {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let settings = Settings::fast().with_tls(&certificate.pem(), &key.serialize_pem());
        Cluster::start(&settings).unwrap()
    }
}

/// A URL that asks for encryption, with a password that is not to be shown.
fn verified(server: &Cluster, roots: &Path) -> String {
    let url = server.url("postgres").replace('@', ":hidden@");
    format!("{url}?sslmode=verify-full&sslrootcert={}", roots.display())
}

async fn refusal(url: &str) -> StoreError {
    let place = location(url, "loom");
    let error = PostgresStore::create(&place, Options::new())
        .await
        .unwrap_err();
    assert!(
        matches!(failure(&error), OpenFailure::Unreachable { .. }),
        "{error:?}"
    );
    assert!(!format!("{error} {error:?} {place:?}").contains("hidden"));
    error
}

/// The error with what it was caused by.
fn in_full(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_somebody_trusted_vouches_for_is_spoken_to_encrypted() {
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path().join("root.pem"));
    let server = authority.server("127.0.0.1");
    let place = location(&verified(&server, &authority.file), "loom");
    let store = PostgresStore::create(&place, Options::new()).await.unwrap();
    store.append(append("e", 0)).await.unwrap();

    let plain = client(&server.url("postgres")).await.unwrap();
    let row = plain
        .query_one(
            "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE application_name = 'loom'",
            &[],
        )
        .await
        .unwrap();
    let (all, encrypted): (i64, i64) = (row.get(0), row.get(1));
    assert!(all > 0);
    assert_eq!(all, encrypted);
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_nobody_trusted_vouches_for_or_with_another_name_is_not_spoken_to() {
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path().join("root.pem"));
    let stranger = Authority::new(folder.path().join("stranger.pem"));
    let other = authority.server("db.example");

    let error = refusal(&verified(&other, &stranger.file)).await;
    assert!(in_full(&error).contains("certificate"), "{error}");
    let error = refusal(&verified(&other, &authority.file)).await;
    assert!(in_full(&error).contains("name"), "{error}");
    // Nothing was created on the way.
    let schemas = other
        .execute(
            "postgres",
            "SELECT count(*) FROM pg_namespace WHERE nspname = 'loom'",
        )
        .unwrap();
    assert_eq!(schemas.trim(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_encryption_gets_no_password_where_encryption_is_asked_for() {
    if !available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path().join("root.pem"));
    let plain = Cluster::start(&Settings::fast()).unwrap();
    let error = refusal(&verified(&plain, &authority.file)).await;
    assert!(in_full(&error).contains("TLS"), "{}", in_full(&error));
}
