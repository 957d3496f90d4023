//! `tstar serve`, until its test ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use crate::cli::Folder;
use crate::servers::LIMIT;
use crate::servers::ready::until;

/// Its message when it accepts requests.
const LISTENING: &str = "listening on ";

pub struct Serve {
    child: Child,
    origin: String,
    /// Drains stderr, so that the server's logging never blocks.
    rest: Option<JoinHandle<()>>,
}

impl Serve {
    /// On a free port.
    pub fn start(folder: &Folder, words: &str) -> Self {
        Self::at(folder, words, "127.0.0.1:0")
    }

    /// On this address.
    pub fn at(folder: &Folder, words: &str, address: &str) -> Self {
        Self::spawn(folder.command(&format!("serve {words} --listen {address}")))
    }

    /// On a free port, with arguments that may contain spaces.
    pub fn with(folder: &Folder, words: &str, arguments: &[&str]) -> Self {
        let mut command = folder.command(&format!("serve {words} --listen 127.0.0.1:0"));
        command.args(arguments);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        let origin = loop {
            let from = said.len();
            let read = stderr.read_line(&mut said).unwrap();
            assert_ne!(read, 0, "serve ended: {said}");
            if let Some((_, origin)) = said[from..].split_once(LISTENING) {
                break origin.trim().trim_end_matches(['"', '/']).to_owned();
            }
        };
        let rest = thread::spawn(move || {
            let mut sink = Vec::new();
            // A read error means that the server has ended.
            stderr.read_to_end(&mut sink).ok();
        });
        Self { child, origin, rest: Some(rest) }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The page, with a fragment.
    pub fn url(&self, hash: &str) -> String {
        format!("{}/{hash}", self.origin)
    }

    /// Host and port.
    pub fn address(&self) -> String {
        self.origin.trim_start_matches("http://").to_owned()
    }

    /// Sends SIGTERM, after which it exits cleanly.
    #[track_caller]
    pub fn stop(&mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success(), "no signal to {pid}");
        let child = &mut self.child;
        let status = until("the end of serve", LIMIT, || child.try_wait().unwrap(), || None);
        assert!(status.success(), "{status}");
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
        if let Some(rest) = self.rest.take() {
            rest.join().ok();
        }
    }
}
