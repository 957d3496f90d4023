//! Lookups over HTTP that find a trip and that find none: the CPU time of the server per lookup and
//! the lookups per second, compared with a constant answer of the same server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::child::{plain, tstar};
use crate::lookup::Key;
use crate::table::{per_second, table};

/// Numbers of concurrent connections, each with one request at a time.
const CONNECTIONS: [usize; 2] = [2, 16];

/// Measured rounds of each kind, interleaved, after a warm-up round.
const ROUNDS: usize = 3;

/// Ticks per second in `/proc`.
const TICKS: u32 = 100;

/// A `tstar serve` process, killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(folder: &Path, file: &Path) -> anyhow::Result<Self> {
        let store = format!("sqlite:{}", file.display());
        let mut command = plain(folder, tstar());
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store]);
        let child = command.stderr(Stdio::piped()).spawn().context("cannot run tstar serve")?;
        let mut server = Self { child, address: String::new() };
        let stderr = server.child.stderr.take().context("stderr is piped")?;
        for line in BufReader::new(stderr).lines() {
            if let Some((_, address)) = line?.split_once("listening on http://") {
                server.address = address.to_owned();
                break;
            }
        }
        ensure!(!server.address.is_empty(), "tstar serve did not print its address");
        // Wait until the store is open.
        while get(&mut server.connect()?, &server.address, "/readyz")?.0 != 200 {}
        Ok(server)
    }

    fn connect(&self) -> anyhow::Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    /// User and system time of the server so far.
    fn cpu(&self) -> anyhow::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = stat.rsplit_once(") ").context("no name in stat")?;
        let ticks: Vec<u32> =
            fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(Duration::from_secs(1) * ticks.iter().sum() / TICKS)
    }

    /// Requests every target of a kind, and returns what that took.
    fn round(&self, kind: &Kind, connections: usize) -> anyhow::Result<Round> {
        let (before, began) = (self.cpu()?, Instant::now());
        std::thread::scope(|scope| {
            let parts = kind.targets.chunks(kind.targets.len().div_ceil(connections));
            let work: Vec<_> =
                parts.map(|part| scope.spawn(|| self.get_all(part, kind.status))).collect();
            work.into_iter().try_for_each(|part| part.join().expect("a client does not panic"))
        })?;
        Ok(Round { cpu: self.cpu()? - before, wall: began.elapsed() })
    }

    fn get_all(&self, targets: &[String], expected: u16) -> anyhow::Result<()> {
        let mut stream = self.connect()?;
        for target in targets {
            let (status, _) = get(&mut stream, &self.address, target)?;
            ensure!(status == expected, "{target}: {status}");
        }
        Ok(())
    }
}

/// Requests of one kind.
struct Kind {
    name: &'static str,
    targets: Vec<String>,
    /// Status of each answer.
    status: u16,
}

/// What one round of requests took.
#[derive(Clone, Copy)]
struct Round {
    /// User and system time of the server.
    cpu: Duration,
    wall: Duration,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have exited already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends a GET request. Returns status and length of the answer.
fn get(
    stream: &mut BufReader<TcpStream>,
    host: &str,
    target: &str,
) -> anyhow::Result<(u16, usize)> {
    write!(stream.get_mut(), "GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")?;
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "the server closed the connection");
        match line.trim_end().split_once(": ") {
            None if line.starts_with("HTTP/1.1 ") => status = line[9..12].parse()?,
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse()?;
            }
            Some(_) => (),
        }
    }
    std::io::copy(&mut stream.by_ref().take(length as u64), &mut std::io::sink())?;
    Ok((status, length))
}

/// Measures lookups over HTTP: `found` keys that a trip covers, `none` that no trip covers, and as
/// many requests for a constant.
///
/// # Errors
/// The server fails, or answers otherwise than expected.
pub fn measure(folder: &Path, file: &Path, found: &[Key], none: &[Key]) -> anyhow::Result<String> {
    let server = Server::start(folder, file)?;
    let lookup = |key: &Key| format!("/v1/trips/lookup?device={}&at={}", key.device, key.time_ms);
    let kind = |name, targets, status| Kind { name, targets, status };
    let kinds = [
        kind("GET /livez, a constant", vec!["/livez".to_owned(); found.len()], 200),
        kind("GET /v1/trips/lookup, a trip", found.iter().map(lookup).collect(), 200),
        kind("GET /v1/trips/lookup, none", none.iter().map(lookup).collect(), 404),
    ];
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        let mut rounds: [Vec<Round>; 3] = Default::default();
        for _ in 0..=ROUNDS {
            for (kind, rounds) in kinds.iter().zip(&mut rounds) {
                rounds.push(server.round(kind, connections)?);
            }
        }
        let [constant, ..] = rounds.each_ref().map(|rounds| median(rounds));
        for (kind, rounds) in kinds.iter().zip(&rounds) {
            let Round { cpu, wall } = median(rounds);
            let each = cpu.as_secs_f64() / kind.targets.len() as f64;
            rows.push([
                kind.name.to_owned(),
                connections.to_string(),
                format!("{:.1}", each * 1e6),
                format!("{:.2}", constant.cpu.div_duration_f64(cpu)),
                per_second(kind.targets.len() as u64, wall.as_secs_f64()),
                format!("{:.2}", constant.wall.div_duration_f64(wall)),
            ]);
        }
    }
    let head = [
        "by HTTP",
        "connections",
        "server's CPU us",
        "of the constant",
        "answers per second",
        "of the constant",
    ];
    Ok(format!(
        "by HTTP, from another process; targets: 0.6 of the constant, and a lookup that finds none \
         at most 1.3 times one that finds a trip\n\n{}",
        table(head, &rows)
    ))
}

/// The medians of CPU and wall time, without the first round.
fn median(rounds: &[Round]) -> Round {
    let middle = |of: fn(&Round) -> Duration| {
        let mut sorted: Vec<_> = rounds[1..].iter().map(of).collect();
        sorted.sort_unstable();
        sorted[ROUNDS / 2]
    };
    Round { cpu: middle(|round| round.cpu), wall: middle(|round| round.wall) }
}
