//! A way to the server that breaks where a test wants it to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Everything passes.
const PASS: u8 = 0;
/// The next request ends its connection before it gets to the server.
const LOSE_REQUEST: u8 = 1;
/// The next answer ends its connection instead of getting to the client, once the server has given it whole.
const LOSE_ANSWER: u8 = 2;
/// The same for the next answer to a `COMMIT`.
const LOSE_COMMIT: u8 = 3;

/// What the server sends when it has done what it was asked, outside a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// Passes connections on to a server on this machine.
pub(crate) struct Proxy {
    port: u16,
    mode: Arc<AtomicU8>,
    down: watch::Sender<bool>,
}

impl Proxy {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let (down, watching) = watch::channel(false);
        let passing = Arc::clone(&mode);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *watching.borrow() {
                    continue;
                }
                let (mode, down) = (Arc::clone(&passing), watching.clone());
                tokio::spawn(pass(client, server, mode, down));
            }
        });
        Self { port, mode, down }
    }

    /// The URL of a database behind it.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn lose_request(&self) {
        self.mode.store(LOSE_REQUEST, Ordering::SeqCst);
    }

    pub(crate) fn lose_answer(&self) {
        self.mode.store(LOSE_ANSWER, Ordering::SeqCst);
    }

    pub(crate) fn lose_commit(&self) {
        self.mode.store(LOSE_COMMIT, Ordering::SeqCst);
    }

    /// Breaks all connections and takes no new ones, or takes them again.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.send_replace(down);
    }
}

async fn pass(
    client: TcpStream,
    server: u16,
    mode: Arc<AtomicU8>,
    mut down: watch::Receiver<bool>,
) {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut losing = false;
    let mut lost = Vec::new();
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let take = |wanted: u8| {
        mode.compare_exchange(wanted, PASS, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    };
    // Ending drops both connections.
    loop {
        tokio::select! {
            biased;
            () = until_down(&mut down) => return,
            read = from_client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                let request = &asked[..read];
                let commits = request.windows(7).any(|part| part == b"COMMIT\0");
                if take(LOSE_REQUEST) {
                    return;
                }
                losing |= take(LOSE_ANSWER) || (commits && take(LOSE_COMMIT));
                if to_server.write_all(request).await.is_err() {
                    return;
                }
            }
            read = from_server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                if losing {
                    lost.extend_from_slice(&answered[..read]);
                    if lost.ends_with(READY) {
                        return;
                    }
                } else if to_client.write_all(&answered[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn until_down(down: &mut watch::Receiver<bool>) {
    // Without its proxy nothing is to pass either.
    drop(down.wait_for(|down| *down).await);
}
