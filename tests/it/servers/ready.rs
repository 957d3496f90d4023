//! Whether a server answers, in its own protocol.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::Kind;

/// No server takes that long to start or to end, beside other suites either.
pub const LIMIT: Duration = Duration::from_secs(300);

/// How long between two questions.
const PAUSE: Duration = Duration::from_millis(50);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// OPTIONS of CQL's version 4: no flags, stream 0, no body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
/// The code of its answer, SUPPORTED.
const SUPPORTED: u8 = 6;

/// Asks until there is an answer; panics when `ended` has something to say, or after `limit`.
#[track_caller]
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Option<T>,
    mut ended: impl FnMut() -> Option<String>,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        if let Some(fault) = ended() {
            panic!("{what}: {fault}");
        }
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        thread::park_timeout(PAUSE);
    }
}

/// Waits until the server answers a request for metadata, or for what it supports.
#[track_caller]
pub fn wait(kind: Kind, address: &str, limit: Duration, ended: impl FnMut() -> Option<String>) {
    let what = format!("{} at {address}", kind.name());
    match kind {
        Kind::Kafka => {
            let consumer = client(address);
            until(&what, limit, || brokers(&consumer), ended);
        }
        Kind::Cql => until(&what, limit, || supported(address), ended),
    }
}

fn client(address: &str) -> BaseConsumer {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "tstar-tests-ready");
    config.set("reconnect.backoff.ms", "50").set("reconnect.backoff.max.ms", "100");
    config.create().unwrap()
}

fn brokers(consumer: &BaseConsumer) -> Option<()> {
    let metadata = consumer.fetch_metadata(None, PATIENCE).ok()?;
    (!metadata.brokers().is_empty()).then_some(())
}

fn supported(address: &str) -> Option<()> {
    let address = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&OPTIONS).ok()?;
    let mut header = [0; 9];
    stream.read_exact(&mut header).ok()?;
    (header[4] == SUPPORTED).then_some(())
}
