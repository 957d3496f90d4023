//! A real Kafka broker and a real CQL server, for the tests that need one.
//!
//! [`kafka`] and [`cql`] return the address of a server that all tests of this process share: an
//! external one, one in a container, or one that a JRE runs. `start_kafka` and `start_cassandra`
//! return servers that a test may kill. `tests/servers/README.md` has the order and the versions.

pub mod lifeline;
pub mod own;
mod process;
pub mod ready;

use std::env;
use std::io::Read;
use std::sync::OnceLock;

use crate::containers::{self, Engine, HeldContainer};
pub use process::run_kafka_tool;
pub use process::{
    Server, free_port, send_by_java, send_by_kcat, start_cassandra, start_kafka, start_kafka_beside,
};
use process::{jars, run_folder};
pub use ready::LIMIT;

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Kafka,
    Cql,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Kafka, Self::Cql];

    /// Its name in `TSTAR_TEST_HOLD`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Cql => "cql",
        }
    }

    /// The variable with the address of an external server.
    fn variable(self) -> &'static str {
        match self {
            Self::Kafka => "TSTAR_TEST_KAFKA",
            Self::Cql => "TSTAR_TEST_CQL",
        }
    }
}

/// What keeps a server alive.
enum Keeper {
    External,
    Container(HeldContainer),
    Process(Server),
}

/// A running server, and its address.
struct Shared {
    address: String,
    keeper: Keeper,
}

impl Shared {
    /// A description, for the output.
    fn describe(&self) -> String {
        match &self.keeper {
            Keeper::External => "external".to_owned(),
            Keeper::Container(held) => held.describe(),
            Keeper::Process(server) => format!("{}, pid {}", server.version(), server.pid()),
        }
    }
}

/// A test that cannot run here: fails in CI, prints a message elsewhere.
pub fn skip<T>(why: &str) -> Option<T> {
    assert!(env::var_os("CI").is_none(), "CI needs this: {why}");
    eprintln!("SKIPPED: {why}");
    None
}

/// Host and port of a Kafka broker, shared by all tests of this process: names of topics and groups
/// have to be unique.
pub fn kafka() -> Option<String> {
    static SERVER: OnceLock<Option<Shared>> = OnceLock::new();
    shared(&SERVER, Kind::Kafka)
}

/// Host and port of a CQL server, shared by all tests of this process: names of keyspaces have to
/// be unique.
pub fn cql() -> Option<String> {
    static SERVER: OnceLock<Option<Shared>> = OnceLock::new();
    shared(&SERVER, Kind::Cql)
}

fn shared(server: &'static OnceLock<Option<Shared>>, kind: Kind) -> Option<String> {
    let shared = server.get_or_init(|| provide(kind)).as_ref();
    shared.map(|shared| shared.address.clone())
}

/// The first available: an external server, a container, a process.
fn provide(kind: Kind) -> Option<Shared> {
    if let Some(address) = env::var(kind.variable()).ok().filter(|address| !address.is_empty()) {
        ready::wait(kind, &address, LIMIT, || None);
        return Some(Shared { address, keeper: Keeper::External });
    }
    if containers::engine().is_some() {
        match HeldContainer::start(kind) {
            Ok(held) => {
                let address = held.address().to_owned();
                return Some(Shared { address, keeper: Keeper::Container(held) });
            }
            // For example an engine without access to a registry.
            Err(fault) => eprintln!("no {} in a container: {fault}; without one then", kind.name()),
        }
    }
    if let Err(why) = jars(kind) {
        return skip(&format!("no {}: {why}; or set {}", kind.name(), kind.variable()));
    }
    let port = free_port();
    let folder = run_folder().join(format!("{}-{port}", kind.name()));
    let mut server = match kind {
        Kind::Kafka => start_kafka(&folder, port)?,
        Kind::Cql => start_cassandra(&folder, port, "127.0.0.1", "127.0.0.1")?,
    };
    server.wait_until_ready(LIMIT);
    Some(Shared { address: server.address(), keeper: Keeper::Process(server) })
}

/// `tests/servers/up`: servers for other processes, until the standard input closes.
#[test]
#[ignore = "tests/servers/up runs it: keeps servers until its standard input closes"]
fn up() {
    let Ok(names) = env::var("TSTAR_TEST_HOLD") else { return };
    let wanted = Kind::ALL.into_iter().filter(|kind| names.contains(kind.name()));
    let servers: Vec<_> = wanted.filter_map(|kind| Some((kind, provide(kind)?))).collect();
    for (kind, shared) in &servers {
        println!("\n{}: {}", kind.name(), shared.describe());
        if *kind == Kind::Cql {
            println!("cql: it says it is {}", own::release(&shared.address));
        }
        println!("{}={}", kind.variable(), shared.address);
    }
    println!("engine={}", containers::engine().map_or("", Engine::host));
    println!("servers are up");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for (_, shared) in servers {
        match shared.keeper {
            Keeper::Process(server) => server.remove(),
            Keeper::Container(_) | Keeper::External => {}
        }
    }
}
