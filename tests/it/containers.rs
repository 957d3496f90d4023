//! Servers in containers, started by testcontainers on this machine's engine.
//!
//! A killed test cannot stop its container. So another process holds the container and ends with
//! its standard input: this binary again, running [`hold`].

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use scylla::statement::Consistency;
use serde_json::{Value, json};
use testcontainers_modules::testcontainers::core::IntoContainerPort;
use testcontainers_modules::testcontainers::runners::SyncRunner;
use testcontainers_modules::testcontainers::{
    Container, ContainerRequest, GenericImage, ImageExt, TestcontainersError,
};

use crate::servers::lifeline::Up;
use crate::servers::own::{consume, produce, read_row, release, write_row};
use crate::servers::{Kind, LIMIT, free_port, ready, skip};

const KAFKA_IMAGE: &str = "apache/kafka:4.2.0";
const CQL_IMAGE: &str = "scylladb/scylla:2026.2.4";

const NO_ENGINE: &str = "no container engine answers; start one, or see tests/servers/README.md";

/// An image may have to be pulled first.
const PULL_LIMIT: Duration = Duration::from_secs(900);

/// Settings that a broker needs when any are given.
const KAFKA_SETTINGS: [(&str, &str); 14] = [
    ("CLUSTER_ID", "dHN0YXItdGVzdHMtYWJjZA"),
    ("KAFKA_NODE_ID", "1"),
    ("KAFKA_PROCESS_ROLES", "broker,controller"),
    ("KAFKA_CONTROLLER_QUORUM_VOTERS", "1@localhost:9093"),
    ("KAFKA_CONTROLLER_LISTENER_NAMES", "CONTROLLER"),
    ("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093"),
    ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
    ("KAFKA_INTER_BROKER_LISTENER_NAME", "PLAINTEXT"),
    ("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "1"),
    ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "1"),
    ("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1"),
    ("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1"),
    ("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0"),
    ("KAFKA_HEAP_OPTS", "-Xmx768m"),
];

/// An engine that responds: a client on the path, or a socket without a listener, does not count.
pub struct Engine {
    host: String,
}

/// This machine's engine.
pub fn engine() -> Option<&'static Engine> {
    static ENGINE: OnceLock<Option<Engine>> = OnceLock::new();
    let probe = || {
        let named = env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
        let host = named.unwrap_or_else(|| "unix:///var/run/docker.sock".to_owned());
        let engine = Engine { host };
        engine.get("/_ping").is_ok_and(|(status, _)| status == 200).then_some(engine)
    };
    ENGINE.get_or_init(probe).as_ref()
}

impl Engine {
    /// Its address, in the form of `DOCKER_HOST`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Status and body of a response of its API.
    pub fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let request = format!("GET {path} HTTP/1.0\r\nHost: engine\r\n\r\n");
        let mut answer = String::new();
        if let Some(socket) = self.host.strip_prefix("unix://") {
            let mut stream = UnixStream::connect(socket)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)?;
        } else {
            let host = self.host.trim_start_matches("tcp://").trim_start_matches("http://");
            let mut stream = TcpStream::connect(host)?;
            stream.set_read_timeout(Some(LIMIT))?;
            stream.write_all(request.as_bytes())?;
            stream.read_to_string(&mut answer)?;
        }
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((status.unwrap_or(0), body.to_owned()))
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).unwrap();
        assert_eq!(status, 200, "GET {path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

/// A container that a child process holds. It ends with this value, and with this process however
/// that ends.
pub struct HeldContainer {
    child: Child,
    /// Its address, id and image, as [`hold`] prints them.
    said: Value,
}

impl HeldContainer {
    /// Starts a server and waits until it responds; an error is the child's output instead.
    pub fn start(kind: Kind) -> Result<Self, String> {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "containers::hold", "--ignored", "--nocapture"]);
        command.env("TSTAR_TEST_HOLD", kind.name());
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let said = lines.find_map(|line| serde_json::from_str(line.strip_prefix("HELD ")?).ok());
        let Some(said) = said else {
            return Err(format!("its holder ended with {}", child.wait().unwrap()));
        };
        Ok(Self { child, said })
    }

    fn word(&self, name: &str) -> &str {
        self.said[name].as_str().unwrap()
    }

    /// Host and port for clients.
    pub fn address(&self) -> &str {
        self.word("address")
    }

    /// Name, id and image, for display.
    pub fn describe(&self) -> String {
        let (id, digest) = (self.word("id"), self.word("digest"));
        format!("container {id} of {} ({digest})", self.word("image"))
    }
}

impl Drop for HeldContainer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

/// Name and tag of a server's image.
fn image(kind: Kind) -> String {
    let (variable, image) = match kind {
        Kind::Kafka => ("TSTAR_TEST_KAFKA_IMAGE", KAFKA_IMAGE),
        Kind::Cql => ("TSTAR_TEST_CQL_IMAGE", CQL_IMAGE),
    };
    let named = env::var(variable).ok().filter(|image| !image.is_empty());
    named.unwrap_or_else(|| image.to_owned())
}

/// A server on a fixed port of this machine: a broker advertises it to clients.
fn request(kind: Kind, port: u16) -> ContainerRequest<GenericImage> {
    let image = image(kind);
    let (name, tag) = image.rsplit_once(':').expect("an image with its tag");
    let inside = match kind {
        Kind::Kafka => 9092,
        Kind::Cql => 9042,
    };
    let request = GenericImage::new(name, tag).with_mapped_port(port, inside.tcp());
    let mut request = request.with_startup_timeout(PULL_LIMIT);
    match kind {
        Kind::Kafka => {
            for (setting, value) in KAFKA_SETTINGS {
                request = request.with_env_var(setting, value);
            }
            let address = format!("PLAINTEXT://127.0.0.1:{port}");
            request.with_env_var("KAFKA_ADVERTISED_LISTENERS", address)
        }
        Kind::Cql if name.contains("scylla") => {
            let small = "--smp 1 --memory 1G --overprovisioned 1 --developer-mode 1";
            request.with_cmd(small.split(' '))
        }
        Kind::Cql => {
            let request = request.with_env_var("MAX_HEAP_SIZE", "1G");
            let request = request.with_env_var("HEAP_NEWSIZE", "256M");
            request.with_env_var("CASSANDRA_BROADCAST_RPC_ADDRESS", "127.0.0.1")
        }
    }
}

fn run(kind: Kind) -> Result<(Container<GenericImage>, String), TestcontainersError> {
    let port = free_port();
    let container = request(kind, port).start()?;
    let address = format!("127.0.0.1:{port}");
    let ended = || {
        let over = !container.is_running().unwrap();
        over.then(|| {
            let logs = [container.stdout_to_vec().unwrap(), container.stderr_to_vec().unwrap()];
            format!("ended:\n{}", String::from_utf8_lossy(&logs.concat()))
        })
    };
    ready::wait(kind, &address, LIMIT, ended);
    Ok((container, address))
}

/// What [`HeldContainer`] runs: one server in a container, until the standard input closes.
#[test]
#[ignore = "another test runs it: holds a container until its standard input closes"]
fn hold() {
    let Ok(name) = env::var("TSTAR_TEST_HOLD") else { return };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap();
    let (container, address) = run(kind).unwrap_or_else(|fault| panic!("{fault}"));
    let digest = &engine().unwrap().json(&format!("/containers/{}/json", container.id()))["Image"];
    let (id, image) = (container.id(), image(kind));
    println!("\nHELD {}", json!({"address": address, "id": id, "image": image, "digest": digest}));
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(container);
    // The parent may have ended, so the test's output may go nowhere.
    std::process::exit(0);
}

/// Host and port of a containerised Kafka broker, shared by all tests of this process.
pub fn kafka() -> Option<String> {
    static HELD: OnceLock<Option<HeldContainer>> = OnceLock::new();
    shared(&HELD, Kind::Kafka)
}

/// Host and port of a containerised CQL server, shared by all tests of this process.
pub fn cql() -> Option<String> {
    static HELD: OnceLock<Option<HeldContainer>> = OnceLock::new();
    shared(&HELD, Kind::Cql)
}

/// `None` only without an engine, which has been reported; with one, no server is a failure.
fn shared(held: &'static OnceLock<Option<HeldContainer>>, kind: Kind) -> Option<String> {
    let start = || {
        if engine().is_none() {
            return skip(NO_ENGINE);
        }
        let held =
            HeldContainer::start(kind).unwrap_or_else(|fault| panic!("{}: {fault}", kind.name()));
        println!("\nCONTAINER {}: {}", kind.name(), held.describe());
        Some(held)
    };
    held.get_or_init(start).as_ref().map(|held| held.address().to_owned())
}

#[test]
fn a_client_outside_reaches_the_broker_where_it_says_it_is() {
    let Some(address) = kafka() else { return };
    produce(&address, "contained", "a sample");
    assert_eq!(consume(&address, "contained", 1), ["a sample"]);
}

#[test]
fn a_client_outside_writes_and_reads_a_row() {
    let Some(address) = cql() else { return };
    println!("\nCONTAINER cql says it is {}", release(&address));
    write_row(&address, "contained", 1);
    assert_eq!(read_row(&address, "contained", Consistency::One), 42);
}

#[test]
fn a_container_ends_with_a_test_that_is_killed() {
    let Some(engine) = engine() else { return skip(NO_ENGINE).unwrap_or(()) };
    let mut up = Up::start("kafka", false, &[]);
    let [id] = up.after("container ").try_into().unwrap();
    let status = || engine.get(&format!("/containers/{id}/json")).unwrap().0;
    assert_eq!(status(), 200);
    up.kill();
    let is_removed = || (status() == 404).then_some(());
    ready::until("the end of the container", LIMIT, is_removed, || None);
}
