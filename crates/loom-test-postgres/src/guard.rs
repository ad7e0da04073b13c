//! Ending a server whose test was killed.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of this process, however it comes, and then ends the server and removes its folder.
/// Destructors do not run in a process that is killed.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn of(server: u32, folder: &Path) -> io::Result<Self> {
        let wait_and_end = r#"read -r line; kill -QUIT "$1" 2>&-; rm -rf -- "$2""#;
        Command::new("sh")
            .args(["-c", wait_and_end, "guard"])
            .arg(server.to_string())
            .arg(folder)
            // Held open by this process alone: other children do not get it.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }
}

impl Drop for Guard {
    /// The server has ended in good order: nothing is left to do.
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
