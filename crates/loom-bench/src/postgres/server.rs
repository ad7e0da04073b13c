//! A server that syncs.

use std::path::Path;
use std::sync::Arc;

use loom_store_postgres::{Location, Options, PostgresStore};
use loom_test_postgres::{Cluster, Settings, StartError};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::Failure;
use crate::stores::Store;

/// What has to be on, or nothing that is acknowledged is sure to survive.
const DURABLE: [&str; 3] = ["fsync", "full_page_writes", "synchronous_commit"];

pub(super) struct Server {
    cluster: Cluster,
    /// What was asked of it and found, for a note.
    pub(super) setting: String,
}

impl Server {
    /// `None` where PostgreSQL is not installed.
    pub(super) fn start(runtime: &Runtime) -> Result<Option<Self>, Failure> {
        // The rest is PostgreSQL's default.
        let settings = Settings::durable().with("max_connections", "200");
        let cluster = match Cluster::start(&settings) {
            Ok(cluster) => cluster,
            Err(StartError::NotInstalled) => {
                eprintln!(
                    "SKIPPED: PostgreSQL was not found: {}",
                    loom_test_postgres::INSTALL
                );
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        not_in_memory(cluster.folder())?;
        let mut server = Self {
            cluster,
            setting: String::new(),
        };
        server.setting = runtime.block_on(server.look())?;
        Ok(Some(server))
    }

    async fn look(&self) -> Result<String, Failure> {
        let client = self.connect("postgres").await?;
        let mut found = Vec::new();
        for name in DURABLE {
            let value: String = client.query_one(&format!("SHOW {name}"), &[]).await?.get(0);
            if value != "on" {
                return Err(format!("the server has {name} {value}: it has to be on").into());
            }
            found.push(name);
        }
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        let version = version.split(' ').next().unwrap_or_default();
        Ok(format!("PostgreSQL {version}, {} on", found.join(", ")))
    }

    fn url(&self, database: &str) -> String {
        self.cluster.url(database)
    }

    /// The URL of a new database.
    pub(super) async fn database(&self, name: &str) -> Result<String, Failure> {
        let client = self.connect("postgres").await?;
        let create = format!("CREATE DATABASE \"{name}\"");
        client.batch_execute(&create).await?;
        Ok(self.url(name))
    }

    /// A connection to a database.
    pub(super) async fn connect(&self, database: &str) -> Result<Client, Failure> {
        let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await?;
        // Ends with the client, whose requests report what goes wrong.
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// A new store in a schema.
    pub(super) async fn store(&self, schema: &str, options: Options) -> Result<Store, Failure> {
        let url = format!("{}?schema={schema}", self.url("postgres"));
        let location: Location = url.parse()?;
        Ok(Arc::new(PostgresStore::create(&location, options).await?))
    }
}

/// Nothing is synced where there is no disk.
#[cfg(target_os = "linux")]
fn not_in_memory(folder: &Path) -> Result<(), Failure> {
    const TMPFS: i128 = 0x0102_1994;
    if i128::from(rustix::fs::statfs(folder)?.f_type) == TMPFS {
        let folder = folder.display();
        return Err(format!("{folder} is in memory: set TMPDIR to a folder on a disk").into());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn not_in_memory(_: &Path) -> Result<(), Failure> {
    Ok(())
}
