//! The daemon as a process, observed from outside.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use crate::cli::{Folder, Ran};
use crate::faults::until;
use crate::servers::free_port;

/// A running daemon, killed when dropped.
pub struct Daemon {
    words: String,
    child: Child,
    address: String,
    /// Files for its stdout and stderr: a pipe that is not read would block it.
    printed: PathBuf,
    said: PathBuf,
}

impl Daemon {
    pub fn start(folder: &Folder, words: &str, name: &str) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let words = format!("{words} --listen {address}");
        let (printed, said) = (folder.path(&format!("{name}.out")), folder.path(name));
        let mut command = folder.command(&words);
        command.stdout(File::create(&printed).unwrap());
        let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
        Self { words, child, address, printed, said }
    }

    /// Its log.
    pub fn said(&self) -> String {
        let said = fs::read(&self.said).unwrap_or_default();
        String::from_utf8_lossy(&said[said.len().saturating_sub(4000)..]).into_owned()
    }

    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(format!("it ended with {status}"))
    }

    /// Status and body of a response; `None` while nothing listens.
    pub fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let address = &self.address;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
    }

    pub fn is_ready(&self) -> bool {
        self.get("/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// The sum of a metric's values whose labels contain a text.
    #[track_caller]
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        let (status, text) = self.get("/metrics").expect("metrics");
        assert_eq!(status, 200);
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let labels = series.strip_prefix(name)?;
            let is_it = (labels.is_empty() || labels.starts_with('{')) && labels.contains(label);
            is_it.then(|| value.parse::<f64>().unwrap())
        };
        text.lines().filter_map(value).sum::<f64>() as u64
    }

    /// Peak resident memory, bytes; `None` where the system does not report it.
    pub fn peak_bytes(&self) -> Option<u64> {
        crate::support::memory(self.child.id(), "VmHWM")
    }

    /// Ends it as an operator would.
    pub fn drain(mut self) -> Ran {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = until("the daemon to drain", || self.child.try_wait().unwrap());
        Ran {
            words: self.words.clone(),
            code: status.code(),
            stdout: fs::read(&self.printed).unwrap(),
            stderr: self.said(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
