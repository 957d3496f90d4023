//! Freshness: the time from sending a sample until a reader sees it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlTimestamp;

use crate::fleet::text_time;
use crate::servers::Servers;

/// First delay before a probe is asked again; it grows with the age of the sample.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// Growth of the delay: the resolution of a freshness is an eighth of it.
const GROWTH: u32 = 8;

/// Maximum freshness; what is not visible then counts as this.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A sample to look for.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Device id.
    pub device: String,
    /// Device time, ms.
    pub time_ms: i64,
    /// When it was sent.
    pub sent: Instant,
}

/// Looks for samples until each is visible. Returns how long that took.
///
/// # Errors
/// The reader fails.
pub fn watch(
    probes: &Receiver<Probe>,
    mut is_visible: impl FnMut(&Probe) -> anyhow::Result<bool>,
) -> anyhow::Result<Vec<Duration>> {
    let (mut pending, mut found) = (Vec::new(), Vec::new());
    let mut is_open = true;
    while is_open || !pending.is_empty() {
        match probes.recv_timeout(Duration::from_millis(10)) {
            Ok(probe) => {
                let at = probe.sent + FIRST_DELAY;
                pending.push((probe, at));
            }
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => {
                is_open = false;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let mut waiting = Vec::new();
        for (probe, at) in pending {
            if Instant::now() < at {
                waiting.push((probe, at));
                continue;
            }
            let is_found = is_visible(&probe)?;
            let age = probe.sent.elapsed();
            if is_found || age >= LIMIT {
                found.push(age.min(LIMIT));
            } else {
                waiting.push((probe, Instant::now() + (age / GROWTH).max(FIRST_DELAY)));
            }
        }
        pending = waiting;
    }
    Ok(found)
}

/// A connection to the HTTP API of a daemon.
pub struct HttpReader {
    stream: BufReader<TcpStream>,
    address: String,
}

impl HttpReader {
    /// Connects.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub fn connect(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), address: address.to_owned() })
    }

    /// Sends a GET request. Returns the status.
    ///
    /// # Errors
    /// The connection fails.
    pub fn get(&mut self, target: &str) -> anyhow::Result<u16> {
        let host = &self.address;
        write!(self.stream.get_mut(), "GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")?;
        let (mut line, mut status, mut length) = (String::new(), 0, 0_u64);
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "the daemon closed the connection");
            match line.trim_end().split_once(": ") {
                None if line.starts_with("HTTP/1.1 ") => {
                    status = line.get(9..12).context("no status")?.parse()?;
                }
                None => break,
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.parse()?;
                }
                Some(_) => (),
            }
        }
        std::io::copy(&mut self.stream.by_ref().take(length), &mut std::io::sink())?;
        Ok(status)
    }

    /// Whether a lookup of the sample's time finds a trip.
    ///
    /// # Errors
    /// The daemon answers anything else.
    pub fn is_visible(&mut self, probe: &Probe) -> anyhow::Result<bool> {
        let Probe { device, time_ms, .. } = probe;
        let target = format!("/v1/trips/lookup?device={device}&at={}", text_time(*time_ms));
        let status = match self.get(&target) {
            Ok(status) => status,
            // The daemon closes connections that were idle.
            Err(_) => {
                *self = Self::connect(&self.address)?;
                self.get(&target)?
            }
        };
        ensure!(status == 200 || status == 404, "{target}: {status}");
        Ok(status == 200)
    }
}

/// Reads the rows of trips from the store.
pub struct StoreReader {
    runtime: tokio::runtime::Runtime,
    session: Session,
    select: PreparedStatement,
}

impl StoreReader {
    /// Connects to a keyspace.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn connect(servers: &Servers, keyspace: &str) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (session, select) = runtime.block_on(async {
            let session = servers.session().await?;
            let query = format!(
                "SELECT end_time FROM {keyspace}.trips WHERE device_id = ? AND bucket = ? LIMIT 4"
            );
            let select = session.prepare(query).await?;
            anyhow::Ok((session, select))
        })?;
        Ok(Self { runtime, session, select })
    }

    /// Whether a row ends at the sample's time or later.
    ///
    /// # Errors
    /// The server fails.
    pub fn is_visible(&self, probe: &Probe) -> anyhow::Result<bool> {
        let bucket = CqlTimestamp(probe.time_ms - probe.time_ms.rem_euclid(86_400_000));
        let values = (probe.device.as_str(), bucket);
        let answer = self.runtime.block_on(self.session.execute_unpaged(&self.select, values))?;
        let rows = answer.into_rows_result()?;
        for row in rows.rows::<(CqlTimestamp,)>()? {
            if row?.0.0 >= probe.time_ms {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
