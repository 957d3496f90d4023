//! Trips over HTTP: the real binary, queried through real sockets.

mod abuse;
mod apps;
mod asking;
mod audit;
pub mod basemap;
mod changes;
mod client;
mod contract;
mod devices;
pub mod document;
mod ingesting;
mod limits;
mod lists;
mod malformed;
mod replaced;
mod rights;
mod samples;
mod sessions;
mod silence;
mod storm;
mod tokens;
mod zones;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Folder, minutes};
use crate::servers::LIMIT;
use crate::servers::ready::until;

/// Read timeout, longer than any response takes.
const IO_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server, killed when dropped.
pub struct Server {
    child: Child,
    log: PathBuf,
    pub address: String,
}

impl Server {
    /// Runs `serve` or `run` on a port of its own, until it is ready.
    pub fn start(folder: &Folder, words: &str) -> Self {
        let server = Self::launch(folder, words);
        let ready =
            || (server.get("/readyz").status != 503 || words.starts_with("run")).then_some(());
        until("the server to be ready", LIMIT, ready, || None);
        server
    }

    /// The same, until it listens.
    pub fn launch(folder: &Folder, words: &str) -> Self {
        let log = folder.path(&format!("server-{}.log", fastrand::u64(..)));
        let listen = if words.contains("--listen") { "" } else { "--listen 127.0.0.1:0" };
        let words = format!("{words} {listen}");
        let mut command = folder.command(&words);
        let (out, said) = (Stdio::piped(), File::create(&log).unwrap());
        let child = command.stdout(out).stderr(said).spawn().unwrap();
        let mut server = Self { child, log, address: String::new() };
        let log = server.log.clone();
        let address = || {
            let said = std::fs::read_to_string(&log).unwrap();
            let (_, rest) = said.split_once("listening on http")?;
            let (line, _) = rest.split_once('\n')?;
            let (_, address) = line.split_once("://")?;
            // A line of JSON has more after it.
            address.split('"').next().map(str::to_owned)
        };
        server.address = until("the server to listen", LIMIT, address, || server.ended());
        server
    }

    pub fn said(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().unwrap()?;
        Some(format!("the server ended with {status}: {}", self.said()))
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect();
        // The server may have closed before it read everything.
        drop(stream.write_all(bytes));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        answer
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(IO_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(IO_TIMEOUT)).unwrap();
        stream
    }

    /// Sends a request with headers, each with its line end.
    pub fn request(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Answer {
        let mut bytes = format!(
            "{method} {target} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        Answer::read(&self.raw(&bytes))
    }

    pub fn get(&self, target: &str) -> Answer {
        self.request("GET", target, "", b"")
    }

    /// The value of a metric with its labels, where it is exposed.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = self.get("/metrics").is(200).text();
        let value = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value)
    }

    /// Ends it as an operator would.
    #[track_caller]
    pub fn drain(self) -> String {
        self.ends(0)
    }

    /// Ends it as an operator would, with this exit code.
    #[track_caller]
    pub fn ends(mut self, code: i32) -> String {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success(), "no signal to the server");
        let child = &mut self.child;
        let status = until("the drain", LIMIT, || child.try_wait().unwrap(), || None);
        assert_eq!(status.code(), Some(code), "{}", self.said());
        self.said()
    }

    /// Peak memory, bytes.
    fn peak_memory(&self) -> u64 {
        crate::support::memory(self.child.id(), "VmHWM").unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Posts JSON to a server that may be killed meanwhile. The status of the answer, if there is one.
fn try_post(address: &str, target: &str, headers: &str, body: &Value) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(IO_TIMEOUT)).ok()?;
    let body = body.to_string();
    let request = format!(
        "POST {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).ok()?;
    std::str::from_utf8(&status[9..]).ok()?.parse().ok()
}

/// A whole response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut body = bytes[end + 4..].to_vec();
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            body = unchunked(&body);
        }
        Self { status, head, body }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.text()))
    }

    /// Asserts the status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.head, self.text());
        self
    }

    /// Asserts that it is a problem with this status and code.
    #[track_caller]
    pub fn fails(self, status: u16, code: &str) -> Value {
        let kind = self.header("content-type").map(str::to_owned);
        assert_eq!(kind.as_deref(), Some("application/problem+json"), "{self:?}");
        let problem = self.is(status).json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{problem}");
        problem
    }
}

fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|it| it == b"\r\n") {
        let length = std::str::from_utf8(&body[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 2 + length + 2..];
    }
    whole
}

/// A store with a merged trip of `truck-17` (8:00 to 8:12; 8:10 is retired), a second one at 8:40
/// the same day, and one of `a b`.
pub fn worked_example(folder: &Folder) {
    let mut lines = minutes("truck-17", &[10, 12, 0, 2, 6, 40]);
    lines += &minutes("a b", &[5]);
    folder.write("worked.ndjson", lines);
    folder.ingest("worked.ndjson --store sqlite:trips.db");
}
