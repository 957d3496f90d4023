//! Servers that a JRE runs, from their published jars.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use super::ready::{self, LIMIT};
use super::{Kind, skip};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// How long logs of past runs are kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Lowest port to use: below those that the kernel assigns to outgoing connections, which could
/// take one between the check and the start.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A server of a test's own. It ends with this value, and with this process however that ends.
pub struct Server {
    kind: Kind,
    /// Its data; its log is elsewhere.
    folder: PathBuf,
    /// Folder of its jars.
    jars: PathBuf,
    port: u16,
    host: String,
    /// The node through which others join the cluster; of Kafka the port of the first broker, empty
    /// for that one itself.
    seed: String,
    /// Its standard input is the lifeline.
    child: Child,
}

/// Starts a broker with its data in `folder`, and does not wait for it; its controller uses the
/// port after `port`. `None`, with a message, without a JRE.
pub fn start_kafka(folder: &Path, port: u16) -> Option<Server> {
    start(Kind::Kafka, folder, port, "127.0.0.1", "")
}

/// Starts a second broker of a cluster, number 2, and does not wait for it.
pub fn start_kafka_beside(first: &Server, folder: &Path, port: u16) -> Option<Server> {
    start(Kind::Kafka, folder, port, "127.0.0.1", &first.port.to_string())
}

/// Starts a Cassandra node on `address`, and does not wait for it; it connects to other nodes on
/// the port after `port`. Nodes with the same `seed` are one cluster: each on its own address, with
/// the same port, and each started when the one before is ready. `None`, with a message, without a
/// JRE.
pub fn start_cassandra(folder: &Path, port: u16, address: &str, seed: &str) -> Option<Server> {
    start(Kind::Cql, folder, port, address, seed)
}

fn start(kind: Kind, folder: &Path, port: u16, host: &str, seed: &str) -> Option<Server> {
    let jars = match jars(kind) {
        Ok(jars) => jars,
        Err(why) => return skip(&format!("no {} of one's own: {why}", kind.name())),
    };
    fs::create_dir_all(folder).unwrap();
    let folder = folder.canonicalize().unwrap();
    let child = spawn(kind, &jars, &folder, port, host, seed);
    let (host, seed) = (host.to_owned(), seed.to_owned());
    Some(Server { kind, folder, jars, port, host, seed, child })
}

fn spawn(kind: Kind, jars: &Path, folder: &Path, port: u16, host: &str, seed: &str) -> Child {
    let path = log_path(kind, host, port);
    let log = File::options().create(true).append(true).open(path).unwrap();
    let scripts = Path::new(ROOT).join("tests/servers");
    let mut command = Command::new(scripts.join("lifeline.sh"));
    command.arg(scripts.join(match kind {
        Kind::Kafka => "kafka.sh",
        Kind::Cql => "cassandra.sh",
    }));
    command.arg(jars).arg(folder).arg(port.to_string());
    match kind {
        Kind::Kafka => command.arg(seed),
        Kind::Cql => command.args([host, seed]),
    };
    // A group of its own: Ctrl-C ends the test, and that ends the server.
    command.process_group(0).stdin(Stdio::piped());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

impl Server {
    /// Host and port for clients.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The process id of the server itself.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Name and version, from the name of its jars' folder.
    pub fn version(&self) -> String {
        self.jars.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// Waits until clients get a response; panics when the server ends before that, or after
    /// `limit`.
    #[track_caller]
    pub fn wait_until_ready(&mut self, limit: Duration) {
        let (kind, address) = (self.kind, self.address());
        ready::wait(kind, &address, Duration::MAX, self.fault_after(limit));
    }

    /// Says that the server has ended, or that `limit` has passed, with the end of its log.
    fn fault_after(&mut self, limit: Duration) -> impl FnMut() -> Option<String> {
        let log = log_path(self.kind, &self.host, self.port);
        let (child, began) = (&mut self.child, Instant::now());
        move || {
            let what = match child.try_wait().unwrap() {
                Some(status) => format!("ended with {status}"),
                None if began.elapsed() >= limit => format!("not within {limit:?}"),
                None => return None,
            };
            Some(format!("{what}; {}:\n{}", log.display(), tail(&log)))
        }
    }

    /// Waits until the port accepts connections, for servers that respond over TLS only.
    #[cfg(feature = "tls")]
    #[track_caller]
    pub fn wait_until_heard(&mut self, limit: Duration) {
        let address = self.address();
        let what = format!("{} at {address}", self.kind.name());
        let listens = || std::net::TcpStream::connect(&address).ok().map(drop);
        ready::until(&what, Duration::MAX, listens, self.fault_after(limit));
    }

    /// SIGKILL: what was not on the disk is lost.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    #[track_caller]
    pub fn stop(&mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(sent.unwrap().success(), "no signal to {}", self.pid());
        let child = &mut self.child;
        ready::until("the end of a server", LIMIT, || child.try_wait().unwrap(), || None);
    }

    /// Starts it again on the same data and port, after SIGKILL if it still runs; does not wait.
    pub fn restart(&mut self) {
        self.kill();
        let Self { kind, jars, folder, port, host, seed, .. } = &*self;
        self.child = spawn(*kind, jars, folder, *port, host, seed);
    }

    /// Runs `nodetool` on a Cassandra node whose folder has the port for it in a file `jmx`.
    ///
    /// # Panics
    /// It fails.
    #[track_caller]
    pub fn nodetool(&self, words: &[&str]) {
        let port = fs::read_to_string(self.folder.join("jmx")).unwrap();
        let mut command = Command::new("java");
        command.arg(format!("@{ROOT}/tests/servers/cassandra.options"));
        // It keeps a history there.
        command.arg(format!("-Duser.home={}", self.folder.display()));
        command.arg("-cp").arg(format!("{}/*", self.jars.display()));
        command.args(["org.apache.cassandra.tools.NodeTool", "-h", "127.0.0.1", "-p", &port]);
        run(command.args(words));
    }

    /// Kills it and removes its data.
    pub fn remove(mut self) {
        self.kill();
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The first of two consecutive ports without a listener on any address. They stay reserved for
/// this process as long as it runs.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    // Other processes start elsewhere.
    let begin = std::process::id().wrapping_mul(7919);
    let port = |nth: u16| {
        let place = begin.wrapping_add(u32::from(nth) * 2) % u32::from(PORTS / 2) * 2;
        FIRST_PORT + u16::try_from(place).unwrap()
    };
    let folder = Path::new(ROOT).join("target/servers/ports");
    fs::create_dir_all(&folder).unwrap();
    let reserve = |port: &u16| {
        let lock = File::create(folder.join(port.to_string())).unwrap();
        let is_ours = lock.try_lock().is_ok();
        TAKEN.lock().unwrap().push(lock);
        is_ours
    };
    let is_free = |port: u16| TcpListener::bind(("0.0.0.0", port)).is_ok();
    let tries = std::iter::repeat_with(|| port(NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut free =
        tries.take(usize::from(PORTS / 2)).filter(|&port| is_free(port) && is_free(port + 1));
    free.find(reserve).expect("two free ports")
}

/// The folder of a server's jars, fetched if it does not exist yet; an error is the reason why no
/// server can run here. Panics if one could, and the jars cannot be fetched.
pub fn jars(kind: Kind) -> Result<PathBuf, String> {
    static KAFKA: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    static CASSANDRA: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let (cell, name) = match kind {
        Kind::Kafka => (&KAFKA, "kafka"),
        Kind::Cql => (&CASSANDRA, "cassandra"),
    };
    cell.get_or_init(|| fetch_jars(name)).clone()
}

fn fetch_jars(name: &str) -> Result<PathBuf, String> {
    let script = Path::new(ROOT).join("tests/servers/jars.sh");
    let output = Command::new(script).arg(name).stdin(Stdio::null()).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.code() {
        Some(0) => {
            let path = String::from_utf8(output.stdout).unwrap();
            // Maven may print colour codes before the path.
            Ok(PathBuf::from(path.lines().last().unwrap()))
        }
        Some(2) => Err(message),
        _ => panic!("tests/servers/jars.sh {name}: {}: {message}", output.status),
    }
}

/// Java with the programs of Kafka's distribution.
fn java() -> Result<Command, String> {
    static TOOLS: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let tools = TOOLS.get_or_init(|| fetch_jars("kafka-tools")).clone()?;
    let mut command = Command::new("java");
    let broker = jars(Kind::Kafka)?;
    command.arg("-cp").arg(format!("{}/*:{}/*", broker.display(), tools.display()));
    Ok(command)
}

/// Runs a program of Kafka's distribution.
///
/// # Panics
/// It fails.
#[track_caller]
pub fn run_kafka_tool(class: &str, words: &[&str]) {
    run(java().unwrap().arg(class).args(words));
}

/// Runs a command to its end.
///
/// # Panics
/// It fails.
#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {printed}{failed}");
}

/// Sends lines to a topic with the console producer of Kafka's distribution: its Java client has
/// its own partitioner. `None` if no Java can run here. `properties` say how a line is read.
pub fn send_by_java(brokers: &str, topic: &str, properties: &[&str], lines: &str) -> Option<()> {
    let mut command = match java() {
        Ok(java) => java,
        Err(why) => return super::skip(&format!("no producer in Java: {why}")),
    };
    command.args(["org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", brokers]);
    // By default it gives a record up after four requests of 1.5 s or two minutes, and exits 0.
    command.args(["--topic", topic, "--request-timeout-ms", "60000"]);
    command.args(["--message-send-max-retries", "1000", "--max-block-ms", "600000"]);
    command.args(["--command-property", "delivery.timeout.ms=600000"]);
    properties.iter().for_each(|property| {
        command.args(["--reader-property", property]);
    });
    pipe(&mut command, lines);
    Some(())
}

/// Sends lines of key, tab, value to a topic with kcat, which has the same client as the program,
/// but partitions by another hash. `None` if it is not installed. `headers` are those of each
/// record, as name=value.
pub fn send_by_kcat(brokers: &str, topic: &str, headers: &[&str], lines: &str) -> Option<()> {
    let found = Command::new("kcat").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        return super::skip("no kcat: apt-get install kcat");
    }
    let mut command = Command::new("kcat");
    command.args(["-P", "-b", brokers, "-t", topic, "-K", "\t"]);
    headers.iter().for_each(|header| {
        command.args(["-H", header]);
    });
    pipe(&mut command, lines);
    Some(())
}

/// Runs a command with these lines as its input.
fn pipe(command: &mut Command, lines: &str) {
    let running = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut running = running.expect("the program was found");
    running.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let status = running.wait().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

/// The folder of this process under target/servers/run: logs, and the data of shared servers.
pub fn run_folder() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let runs = Path::new(ROOT).join("target/servers/run");
        sweep(&runs);
        let folder = runs.join(std::process::id().to_string());
        fs::create_dir_all(&folder).unwrap();
        folder
    };
    FOLDER.get_or_init(make).clone()
}

/// Removes what ended processes left: data at once, logs after a day. Another process may do the
/// same, so missing files are not errors.
fn sweep(runs: &Path) {
    for run in fs::read_dir(runs).into_iter().flatten().flatten() {
        let pid = run.file_name().to_str().and_then(|name| name.parse().ok());
        if pid.is_some_and(is_alive) {
            continue;
        }
        for inside in fs::read_dir(run.path()).into_iter().flatten().flatten() {
            drop(fs::remove_dir_all(inside.path()));
        }
        let age = run.metadata().and_then(|it| it.modified()).ok();
        let age = age.and_then(|then| SystemTime::now().duration_since(then).ok());
        if age.is_some_and(|age| age > KEPT) {
            drop(fs::remove_dir_all(run.path()));
        }
    }
}

/// Whether a process runs; a zombie does not.
pub fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat"));
    if Path::new("/proc/self/stat").exists() {
        let status = status.unwrap_or_default();
        let state = status.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
        return state.is_some_and(|state| !matches!(state, 'Z' | 'X'));
    }
    let asked = Command::new("kill").args(["-0", &pid.to_string()]).stderr(Stdio::null()).status();
    asked.unwrap().success()
}

fn log_path(kind: Kind, host: &str, port: u16) -> PathBuf {
    run_folder().join(format!("{}-{host}-{port}.log", kind.name()))
}

fn tail(log: &Path) -> String {
    let lines = BufReader::new(File::open(log).unwrap()).lines();
    let lines: Vec<_> = lines.map_while(Result::ok).collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
