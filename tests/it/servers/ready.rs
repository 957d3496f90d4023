//! Whether a server responds, in its own protocol.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::Kind;

/// Time limit for a server to start or to end, generous enough for a busy machine.
pub const LIMIT: Duration = Duration::from_secs(600);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Timeout of an attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// OPTIONS of CQL's version 4: no flags, stream 0, no body.
const OPTIONS: [u8; 9] = [4, 0, 0, 0, 5, 0, 0, 0, 0];
/// The code of its response, SUPPORTED.
const SUPPORTED: u8 = 6;

/// Polls until there is a result; panics when `ended` returns a message, or after `limit`.
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

/// Waits until the server responds to a request for metadata, or for its options.
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
    let metadata = consumer.fetch_metadata(None, ATTEMPT_TIMEOUT).ok()?;
    (!metadata.brokers().is_empty()).then_some(())
}

fn supported(address: &str) -> Option<()> {
    let address = address.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT_TIMEOUT).ok()?;
    stream.set_read_timeout(Some(ATTEMPT_TIMEOUT)).ok()?;
    stream.write_all(&OPTIONS).ok()?;
    let mut header = [0; 9];
    stream.read_exact(&mut header).ok()?;
    (header[4] == SUPPORTED).then_some(())
}
