//! A cluster: its folder, and the server over it.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::{fmt, io, thread};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::guard::Guard;
use crate::programs::{self, User};

/// In the data folder.
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";

/// How a cluster is set up.
#[derive(Clone, Debug)]
#[must_use]
pub struct Settings {
    durable: bool,
    server: Vec<(String, String)>,
    tls: Option<Tls>,
}

/// What a server shows that it is.
#[derive(Clone, Debug)]
struct Tls {
    certificate: String,
    key: String,
}

impl Settings {
    /// As servers are run: everything is synced, and what was committed survives [`Cluster::stop_immediately`].
    pub fn durable() -> Self {
        Self {
            durable: true,
            server: Vec::new(),
            tls: None,
        }
    }

    /// Syncs nothing, which is several times as fast. For tests in which no machine fails.
    pub fn fast() -> Self {
        Self {
            durable: false,
            ..Self::durable()
        }
    }

    /// Lets clients encrypt their connections, with a certificate and its key in PEM.
    pub fn with_tls(mut self, certificate: &str, key: &str) -> Self {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        self.tls = Some(Tls { certificate, key });
        self.with("ssl", "on")
            .with("ssl_cert_file", CERTIFICATE)
            .with("ssl_key_file", KEY)
    }

    /// Sets one of PostgreSQL's parameters.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.server.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// PostgreSQL was not found.
    #[error("PostgreSQL was not found. {}", crate::INSTALL)]
    NotInstalled,
    /// One of its programs could not be run.
    #[error("`{program}` could not be run: {source}")]
    Program {
        /// Which.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It was started and did not come up.
    #[error("{what}; the last lines it wrote:\n{log}")]
    Failed {
        /// What went wrong.
        what: String,
        /// What PostgreSQL says.
        log: String,
    },
}

/// A server over a folder of its own, on the loopback interface. Its superuser is `postgres`, without a password.
///
/// Dropping it ends the server and removes the folder.
pub struct Cluster {
    folder: TempDir,
    programs: std::path::PathBuf,
    user: Option<User>,
    settings: Settings,
    port: u16,
    server: Option<Running>,
}

/// Fields are dropped in this order.
struct Running {
    guard: Guard,
    process: Child,
}

impl Cluster {
    /// Sets a cluster up and starts it. Returns when it takes connections.
    ///
    /// # Errors
    /// [`StartError::NotInstalled`] when PostgreSQL is not on this machine; others when it is and does not run.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        let programs = programs::folder().ok_or(StartError::NotInstalled)?;
        let user = User::other_than_root().map_err(|what| StartError::Failed {
            what,
            log: String::new(),
        })?;
        let folder = tempfile::Builder::new()
            .prefix("loom-postgres-")
            .tempdir()
            .and_then(|folder| {
                user.map_or(Ok(()), |user| user.own(folder.path()))
                    .map(|()| folder)
            })
            .map_err(|source| StartError::Program {
                program: "mkdir",
                source,
            })?;
        let mut cluster = Self {
            folder,
            programs,
            user,
            settings: settings.clone(),
            port: 0,
            server: None,
        };
        cluster.initialize()?;
        if let Some(tls) = &settings.tls {
            cluster.keep(CERTIFICATE, &tls.certificate)?;
            cluster.keep(KEY, &tls.key)?;
        }
        cluster.start_again()?;
        Ok(cluster)
    }

    /// The URL of a database, as the superuser.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The port on the loopback interface. Stays the same when the server is started again.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of the server's socket, and of everything else.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs SQL as the superuser, with `psql`, which comes with the server.
    ///
    /// # Errors
    /// When `psql` is not there, or the server refuses a statement: in its words.
    pub fn execute(&self, database: &str, sql: &str) -> Result<String, StartError> {
        let output = self
            .command("psql")
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--set", "ON_ERROR_STOP=1", "--command", sql, "--dbname"])
            .arg(self.url(database))
            .output()
            .map_err(|source| StartError::Program {
                program: "psql",
                source,
            })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(StartError::Failed {
            what: "`psql` failed".to_owned(),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Ends the server at once, as a crash does: connections break, nothing is written back, and the next start
    /// recovers. Does nothing when it does not run.
    pub fn stop_immediately(&mut self) {
        self.stop(Signal::QUIT);
    }

    /// Starts the server again after it was stopped, at the same place. Does nothing when it runs.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        if self.server.is_some() {
            return Ok(());
        }
        let fixed = self.port != 0;
        let mut attempts = 0;
        loop {
            if !fixed {
                self.port = free_port()?;
            }
            match self.launch() {
                Ok(running) => {
                    self.server = Some(running);
                    return Ok(());
                }
                // Somebody took the port in between.
                Err(StartError::Failed { log, .. })
                    if !fixed && attempts < 5 && log.contains("Address already in use") =>
                {
                    attempts += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn stop(&mut self, signal: Signal) {
        let Some(mut running) = self.server.take() else {
            return;
        };
        if let Some(pid) = pid_of(&running.process) {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
        drop(running.process.wait());
        drop(running.guard);
    }

    fn initialize(&self) -> Result<(), StartError> {
        let mut command = self.command("initdb");
        command
            .arg("--pgdata")
            .arg(self.folder.path().join("data"))
            .args(["--username=postgres", "--auth=trust", "--encoding=UTF8"])
            .args(["--locale=C", "--no-sync", "--no-instructions"]);
        let output = command.output().map_err(|source| StartError::Program {
            program: "initdb",
            source,
        })?;
        if output.status.success() {
            return Ok(());
        }
        Err(StartError::Failed {
            what: "`initdb` failed".to_owned(),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// A file in the data folder that nobody else may read.
    fn keep(&self, name: &str, text: &str) -> Result<(), StartError> {
        let path = self.folder.path().join("data").join(name);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| self.user.map_or(Ok(()), |user| user.own(&path)));
        written.map_err(|error| StartError::Failed {
            what: format!("`{}` could not be written: {error}", path.display()),
            log: String::new(),
        })
    }

    fn launch(&self) -> Result<Running, StartError> {
        let mut command = self.command("postgres");
        let folder = self.folder.path().display();
        let on = |yes: bool| if yes { "on" } else { "off" };
        let mut parameters: Vec<(String, String)> = [
            ("listen_addresses", "127.0.0.1".to_owned()),
            ("port", self.port.to_string()),
            ("unix_socket_directories", folder.to_string()),
            ("fsync", on(self.settings.durable).to_owned()),
            ("full_page_writes", on(self.settings.durable).to_owned()),
            ("lc_messages", "C".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        parameters.extend(self.settings.server.iter().cloned());
        command.arg("-D").arg(self.folder.path().join("data"));
        for (name, value) in parameters {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let failed = |source| StartError::Program {
            program: "postgres",
            source,
        };
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let guard = match Guard::of(process.id(), self.folder.path()) {
            Ok(guard) => guard,
            Err(error) => {
                drop(process.kill());
                drop(process.wait());
                return Err(failed(error));
            }
        };
        let (sender, lines) = mpsc::channel();
        if let Some(stderr) = process.stderr.take() {
            thread::spawn(move || pass_on(stderr, &sender));
        }
        let mut running = Running { guard, process };
        wait_until_ready(&mut running, &lines)?;
        Ok(running)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // What the user has set for their own servers is not for this one.
        let settings = std::env::vars_os().filter_map(|(name, _)| {
            let text = name.to_str()?;
            text.starts_with("PG").then(|| name.clone())
        });
        for name in settings {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").current_dir(self.folder.path());
        if let Some(user) = self.user {
            user.run(&mut command);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop_immediately();
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("port", &self.port)
            .field("running", &self.server.is_some())
            .finish_non_exhaustive()
    }
}

fn pid_of(process: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(process.id()).ok()?)
}

fn free_port() -> Result<u16, StartError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|source| StartError::Program {
            program: "bind",
            source,
        })
}

/// Reads the server's log for as long as it runs, so that it never waits for a reader.
fn pass_on(stderr: ChildStderr, lines: &Sender<String>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        // Nobody listens once the server is up.
        drop(lines.send(line));
    }
}

fn wait_until_ready(running: &mut Running, lines: &Receiver<String>) -> Result<(), StartError> {
    let mut last = VecDeque::new();
    // Ends with the server.
    for line in lines {
        if line.contains("database system is ready to accept connections") {
            return Ok(());
        }
        last.push_back(line);
        if last.len() > 20 {
            last.pop_front();
        }
    }
    drop(running.process.wait());
    Err(StartError::Failed {
        what: "`postgres` ended instead of taking connections".to_owned(),
        log: Vec::from(last).join("\n"),
    })
}

#[cfg(test)]
mod tests;
