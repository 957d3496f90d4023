//! Lookups over HTTP: the CPU time of the server per lookup, compared with a constant answer of the
//! same server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use crate::child::{plain, tstar};
use crate::lookup::Key;
use crate::table::{per_second, table};

/// Number of concurrent connections, each with one request at a time.
const CONNECTIONS: usize = 2;

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

    /// Requests every target, and returns the CPU time that the server used.
    fn round(&self, targets: &[String]) -> anyhow::Result<Duration> {
        let before = self.cpu()?;
        std::thread::scope(|scope| {
            let parts = targets.chunks(targets.len().div_ceil(CONNECTIONS));
            let work: Vec<_> = parts.map(|part| scope.spawn(|| self.get_all(part))).collect();
            work.into_iter().try_for_each(|part| part.join().expect("a client does not panic"))
        })?;
        Ok(self.cpu()? - before)
    }

    fn get_all(&self, targets: &[String]) -> anyhow::Result<()> {
        let mut stream = self.connect()?;
        for target in targets {
            let (status, _) = get(&mut stream, &self.address, target)?;
            ensure!(status == 200, "{target}: {status}");
        }
        Ok(())
    }
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

/// Measures lookups of all keys over HTTP, and as many requests for a constant.
///
/// # Errors
/// The server fails, or does not find a trip.
pub fn measure(folder: &Path, file: &Path, keys: &[Key]) -> anyhow::Result<String> {
    let server = Server::start(folder, file)?;
    let lookup = |key: &Key| format!("/v1/trips/lookup?device={}&at={}", key.device, key.time_ms);
    let lookups: Vec<_> = keys.iter().map(lookup).collect();
    let constants = vec!["/livez".to_owned(); lookups.len()];
    let (mut found, mut constant) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        found.push(server.round(&lookups)?);
        constant.push(server.round(&constants)?);
    }
    let median = |mut rounds: Vec<Duration>| {
        rounds.remove(0);
        rounds.sort_unstable();
        rounds[ROUNDS / 2]
    };
    let (found, constant) = (median(found), median(constant));
    let row = |name: &str, cpu: Duration| {
        let each = cpu.as_secs_f64() / lookups.len() as f64;
        let share = constant.div_duration_f64(cpu);
        let answers = per_second(lookups.len() as u64, cpu.as_secs_f64());
        [name.to_owned(), format!("{:.1}", each * 1e6), answers, format!("{share:.2}")]
    };
    let rows = [row("GET /v1/trips/lookup", found), row("GET /livez, a constant", constant)];
    let head = ["by HTTP", "server's CPU us", "answers per CPU second", "of the constant"];
    Ok(format!(
        "by HTTP: the same lookups, {CONNECTIONS} connections, from another process; target: 0.6 of \
         the constant\n\n{}",
        table(head, &rows)
    ))
}
