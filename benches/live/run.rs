//! One run of a program: live, and the replay of the same topic.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use chrono::Utc;

use crate::daemon::{Daemon, Store};
use crate::feed;
use crate::fleet::{Fleet, FleetConfig};
use crate::log::Log;
use crate::probe::{HttpReader, Probe, StoreReader, watch};
use crate::process::cpu_of;
use crate::servers::{Servers, Topic, remove_group};
use crate::streams::{Program, Streams};

/// Partitions of the topic.
pub const PARTITIONS: i32 = 4;

/// Live time before the measured time: longer than trips wait.
const WARM_UP: Duration = Duration::from_secs(40);

/// Input of a run.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// Folder for files.
    pub folder: &'a Path,
    /// Servers for topic and keyspaces.
    pub servers: &'a Servers,
    /// The program.
    pub program: &'a Path,
    /// The fleet.
    pub fleet: FleetConfig,
    /// Kafka Streams, to run at the same time.
    pub streams: Option<&'a Program>,
}

/// What was used up to a moment.
#[derive(Clone, Debug)]
struct Usage {
    /// CPU time of the daemon, s.
    daemon_s: f64,
    /// CPU time of CQL server and broker, s.
    servers_s: [Option<f64>; 2],
    /// CPU time of Kafka Streams, s, and the samples that it has not committed.
    streams: Option<(f64, u64)>,
    /// Records of the topic.
    samples: u64,
    /// Events of the feed, one for each row written.
    rows: u64,
    /// Bytes sent to the CQL server.
    bytes: Option<u64>,
    rss_mib: u64,
}

/// The figures of a run.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Measured samples.
    pub samples: u64,
    /// CPU time of the daemon per sample, live and in the replay, us.
    pub daemon_us: [f64; 2],
    /// CPU time of CQL server and broker per live sample, us.
    pub servers_us: [Option<f64>; 2],
    /// CPU time of the CQL server per replayed sample, us.
    pub replay_cql_us: Option<f64>,
    /// Rows per sample, live and in the replay.
    pub rows: [f64; 2],
    /// Bytes to the CQL server per live sample.
    pub bytes: Option<f64>,
    /// Resident memory at the start and the end of the measured time, MiB.
    pub rss_mib: [u64; 2],
    /// Freshness of lookups, store and feed, sorted.
    pub freshness: [Vec<Duration>; 3],
    /// Load of the machine, average of a minute, at the end.
    pub load: String,
    /// Kafka Streams in the same run.
    pub streams: Option<StreamsFigures>,
}

/// The figures of Kafka Streams in a run.
#[derive(Clone, Debug)]
pub struct StreamsFigures {
    /// CPU time per live sample, us.
    pub cpu_us: f64,
    /// Samples not committed at the start and the end of the measured time.
    pub behind: [u64; 2],
    /// Trips of Kafka Streams and of tstar.
    pub trips: [u64; 2],
}

impl StreamsFigures {
    /// Checks that both did the same.
    ///
    /// # Errors
    /// They have different numbers of trips.
    pub fn check(&self) -> anyhow::Result<()> {
        let [streams, tstar] = self.trips;
        ensure!(streams == tstar, "Kafka Streams has {streams} trips, tstar {tstar}");
        Ok(())
    }
}

impl Input<'_> {
    /// Measures the program.
    ///
    /// # Errors
    /// A process fails.
    pub fn measure(&self, name: &str, seconds: u32) -> anyhow::Result<Figures> {
        let topic = Topic::create(&self.servers.kafka, &format!("live-{name}"), PARTITIONS)?;
        let [live, replay] = ["live", "replay"].map(|kind| {
            let keyspace = format!("tstar_bench_{}_{kind}_{name}", std::process::id());
            Store { url: self.servers.url(&keyspace), group: keyspace.clone(), keyspace }
        });
        let measured = self.live(&topic, &live, seconds).and_then(|mut figures| {
            self.replay(&topic, &replay, &mut figures)?;
            Ok(figures)
        });
        // Also after an error: the servers may be used by others.
        for store in [&live, &replay] {
            self.servers.drop_keyspace(&store.keyspace)?;
            remove_group(&self.servers.kafka, &store.group).ok();
        }
        topic.remove()?;
        measured
    }

    fn live(&self, topic: &Topic, store: &Store, seconds: u32) -> anyhow::Result<Figures> {
        self.servers.create_keyspace(self.folder, self.program, &store.keyspace)?;
        let mut log = topic.log()?;
        let (brokers, name) = (log.brokers.clone(), log.topic.clone());
        let mut fleet = Fleet::new(self.fleet, &brokers, &name)?;
        fleet.send_history(Utc::now().timestamp_millis())?;
        log = topic.log()?;
        let start = |program| Streams::start(self.folder, program, &log, &store.keyspace);
        let mut streams = self.streams.map(start).transpose()?;
        let mut daemon = Daemon::start(self.folder, self.program, &log, store)?;
        daemon.wait_until_stored(&log, store)?;
        if let Some(streams) = &mut streams {
            streams.wait(&log)?;
        }
        let measured = Duration::from_secs(seconds.into());
        let feed = topic.feed()?;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| channel()).unzip();
        let receivers: [Receiver<Probe>; 3] = receivers.try_into().ok().context("three probes")?;
        let mut http = HttpReader::connect(&daemon.address)?;
        let rows = StoreReader::connect(self.servers, &store.keyspace)?;
        let (usage, freshness) = thread::scope(|scope| {
            let [of_http, of_store, of_feed] = receivers;
            let probes = [
                scope.spawn(move || watch(&of_http, |probe| http.is_visible(probe))),
                scope.spawn(move || watch(&of_store, |probe| rows.is_visible(probe))),
                scope.spawn(move || feed::watch(&feed, &of_feed)),
            ];
            let sending = scope.spawn(move || {
                // The channels close when the last sample was sent.
                fleet.send_live(WARM_UP + measured, WARM_UP, &senders)
            });
            thread::sleep(WARM_UP);
            let before = self.usage(&daemon, streams.as_ref(), topic)?;
            thread::sleep(measured);
            let after = self.usage(&daemon, streams.as_ref(), topic)?;
            sending.join().expect("the fleet does not panic")?;
            let mut freshness = Vec::new();
            for probe in probes {
                let mut times = probe.join().expect("a probe does not panic")?;
                times.sort_unstable();
                freshness.push(times);
            }
            anyhow::Ok(([before, after], freshness))
        })?;
        daemon.stop()?;
        let freshness = freshness.try_into().ok().context("three probes")?;
        let mut figures = figures(&usage, freshness)?;
        if let (Some(streams), Some(figures)) = (streams, &mut figures.streams) {
            let rows = self.servers.count_rows(&store.keyspace)?;
            figures.trips = [streams.stop(&topic.log()?)?, rows];
        }
        Ok(figures)
    }

    fn usage(
        &self,
        daemon: &Daemon,
        streams: Option<&Streams>,
        topic: &Topic,
    ) -> anyhow::Result<Usage> {
        let of_streams = |streams: &Streams| {
            let cpu_s = streams.cpu()?;
            anyhow::Ok((cpu_s, streams.behind(&topic.log()?)?))
        };
        Ok(Usage {
            streams: streams.map(of_streams).transpose()?,
            daemon_s: daemon.cpu()?,
            servers_s: self.servers_s()?,
            samples: topic.log()?.samples(),
            rows: topic.feed()?.samples(),
            bytes: daemon.sent_to(&self.servers.cql),
            rss_mib: daemon.rss_mib()?,
        })
    }

    /// CPU time of CQL server and broker so far, s.
    fn servers_s(&self) -> anyhow::Result<[Option<f64>; 2]> {
        let cql = self.servers.cql_pid.map(cpu_of).transpose()?;
        Ok([cql, self.servers.kafka_pid.map(cpu_of).transpose()?])
    }

    fn replay(&self, topic: &Topic, store: &Store, figures: &mut Figures) -> anyhow::Result<()> {
        self.servers.create_keyspace(self.folder, self.program, &store.keyspace)?;
        let log: Log = topic.log()?;
        let before = self.servers_s()?;
        let mut daemon = Daemon::start(self.folder, self.program, &log, store)?;
        daemon.wait_until_stored(&log, store)?;
        let cpu_s = daemon.cpu()?;
        let after = self.servers_s()?;
        let summary = daemon.stop()?;
        ensure!(summary.delivered == log.samples(), "{summary:?} of {}", log.samples());
        figures.daemon_us[1] = each(cpu_s * 1e6, summary.delivered);
        figures.rows[1] = each(count(summary.trips_written), summary.delivered);
        let cql = after[0].zip(before[0]);
        figures.replay_cql_us =
            cql.map(|(after, before)| each((after - before) * 1e6, summary.delivered));
        Ok(())
    }
}

fn figures([before, after]: &[Usage; 2], freshness: [Vec<Duration>; 3]) -> anyhow::Result<Figures> {
    let samples = after.samples - before.samples;
    ensure!(samples > 0, "no sample was sent");
    let servers_us = [0, 1].map(|at| {
        let used = after.servers_s[at].zip(before.servers_s[at]);
        used.map(|(after, before)| each((after - before) * 1e6, samples))
    });
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(Figures {
        samples,
        daemon_us: [each((after.daemon_s - before.daemon_s) * 1e6, samples), 0.0],
        servers_us,
        replay_cql_us: None,
        rows: [each(count(after.rows - before.rows), samples), 0.0],
        bytes: after
            .bytes
            .zip(before.bytes)
            .map(|(all, before)| each(count(all - before), samples)),
        rss_mib: [before.rss_mib, after.rss_mib],
        freshness,
        load: load.split(' ').next().unwrap_or_default().to_owned(),
        streams: after.streams.zip(before.streams).map(|(after, before)| StreamsFigures {
            cpu_us: each((after.0 - before.0) * 1e6, samples),
            behind: [before.1, after.1],
            trips: [0, 0],
        }),
    })
}

fn each(total: f64, samples: u64) -> f64 {
    total / count(samples)
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}
