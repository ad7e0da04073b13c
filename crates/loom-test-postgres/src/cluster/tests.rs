use std::io::Read as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::{env, fs, process};

use super::*;

fn connects(cluster: &Cluster) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, cluster.port())).is_ok()
}

#[test]
fn several_clusters_run_at_once_are_stopped_started_again_and_end_with_their_owner() {
    if !crate::available() {
        return;
    }
    let mut first = Cluster::start(&Settings::fast()).unwrap();
    let second = Cluster::start(&Settings::durable().with("max_connections", "20")).unwrap();
    assert_ne!(first.port(), second.port());
    assert!(connects(&first) && connects(&second));

    first.stop_immediately();
    assert!(!connects(&first) && connects(&second));
    first.start_again().unwrap();
    assert!(connects(&first));

    let (port, folder) = (first.port(), first.folder().to_owned());
    // As a test that fails does.
    let unwound = std::panic::catch_unwind(move || {
        let _owner = first;
        panic!("on purpose");
    });
    assert!(unwound.is_err());
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    assert!(!folder.exists());
}

#[test]
fn a_setting_that_postgres_refuses_is_reported_in_its_words() {
    if !crate::available() {
        return;
    }
    let refused = Cluster::start(&Settings::fast().with("no_such_setting", "1")).unwrap_err();
    assert!(refused.to_string().contains("no_such_setting"), "{refused}");
}

/// Tells this process that it is the one that shall be killed.
const OWNER: &str = "LOOM_TEST_POSTGRES_OWNER";

#[test]
fn the_server_of_a_test_that_is_killed_ends_and_its_folder_is_removed() {
    if env::var_os(OWNER).is_some() {
        return be_killed();
    }
    if !crate::available() {
        return;
    }
    let this = "cluster::tests::the_server_of_a_test_that_is_killed_ends_and_its_folder_is_removed";
    let mut owner = Command::new(env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env(OWNER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(owner.stdout.take().unwrap()).lines();
    let line = said
        .find_map(|line| Some(line.ok()?.split_once("server at ")?.1.to_owned()))
        .unwrap();
    let (port, folder) = line.split_once(' ').unwrap();
    let (port, folder): (u16, PathBuf) = (port.parse().unwrap(), folder.into());
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();

    owner.kill().unwrap();
    owner.wait().unwrap();
    // Ends with the server, or when the server has waited for a minute.
    let mut rest = Vec::new();
    drop(connection.read_to_end(&mut rest));
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() || fs::exists(&folder).unwrap() {
        thread::yield_now();
    }
}

/// Starts a server, says where, and does not end it.
fn be_killed() {
    let cluster = Cluster::start(&Settings::fast()).unwrap();
    let (port, folder) = (cluster.port(), cluster.folder().display());
    println!("\nserver at {port} {folder}");
    drop(io::stdin().read(&mut [0]));
    process::abort();
}
