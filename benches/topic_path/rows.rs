//! The rows: each adds a step to the one before.

use std::path::Path;

use anyhow::ensure;

use crate::child::measured;
use crate::daemon::{Job, Ran};
use crate::role::{Log, Place, Told};
use crate::servers::{Servers, remove_group};
use crate::table::{per_second, ratio, table};

/// More rows of trips than this for each sample would show that writes grow with paths.
const MOST_ROWS: f64 = 0.05;

/// What a row may cost, CPU s per million samples.
enum Most {
    Any,
    /// More than row (a).
    Above(f64),
    Whole(f64),
}

const ROWS: [(&str, Most); 4] = [
    ("(a) drained by the client", Most::Any),
    ("(b) decoding, trips in memory", Most::Above(0.5)),
    ("(c) tstar run into SQLite", Most::Whole(1.1)),
    ("(d) tstar run into a CQL server", Most::Whole(1.6)),
];

/// What all rows read, and where they may write.
pub struct Input<'a> {
    /// For files.
    pub folder: &'a Path,
    /// For the keyspaces.
    pub servers: &'a Servers,
    /// The topic.
    pub log: Log,
}

/// One run of a row.
struct Run {
    ran: Ran,
    told: Told,
}

/// The runs of each row, by their CPU time.
pub struct Measured {
    samples: u64,
    runs: [Vec<Run>; 4],
}

impl Input<'_> {
    fn run(&self, row: usize, nth: u32) -> anyhow::Result<Run> {
        let bench = std::env::current_exe()?;
        let ran = match row {
            0 | 1 => {
                let role = if row == 0 { "--floor" } else { "--trips" };
                let log = serde_json::to_string(&self.log)?;
                let used = measured(self.folder, &bench, &[role, &log])?;
                Ran { used, server_s: None }
            }
            2 => {
                let file = self.folder.join(format!("run-{nth}.db"));
                self.daemon(Place::File(file))?
            }
            _ => self.to_keyspace(nth)?,
        };
        let told: Told = serde_json::from_str(&ran.used.stdout)?;
        let samples = self.log.samples();
        let name = ROWS[row].0;
        ensure!(told.delivered == samples, "{name}: {} of {samples} samples", told.delivered);
        Ok(Run { ran, told })
    }

    fn to_keyspace(&self, nth: u32) -> anyhow::Result<Ran> {
        let keyspace = format!("tstar_bench_{}_{nth}", std::process::id());
        self.servers.make_keyspace(self.folder, &keyspace)?;
        let (url, server) = (self.servers.url(&keyspace), self.servers.cql_pid);
        let ran = self.daemon(Place::Keyspace { url, group: keyspace.clone(), server });
        // Also where it failed.
        let dropped = self.servers.drop_keyspace(&keyspace);
        let ran = ran?;
        dropped?;
        remove_group(&self.log.brokers, &keyspace)?;
        Ok(ran)
    }

    /// In a process that has no other child, so that the kernel's figures are the daemon's alone.
    fn daemon(&self, place: Place) -> anyhow::Result<Ran> {
        let job = Job { folder: self.folder.to_owned(), log: self.log.clone(), place };
        let mut child = crate::child::plain(self.folder, &std::env::current_exe()?);
        child.arg("--daemon").arg(serde_json::to_string(&job)?);
        let output = child.stderr(std::process::Stdio::inherit()).output()?;
        ensure!(output.status.success(), "a measured run of tstar failed");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Measured {
    /// Measures every row so many times, in turns, so that a slow minute strikes them all.
    ///
    /// # Errors
    /// A row cannot be run, or loses samples.
    pub fn of(input: &Input<'_>, runs: u32) -> anyhow::Result<Self> {
        let mut measured = Self { samples: input.log.samples(), runs: Default::default() };
        for nth in 0..runs {
            for (row, kept) in measured.runs.iter_mut().enumerate() {
                kept.push(input.run(row, nth)?);
            }
        }
        for runs in &mut measured.runs {
            runs.sort_by(|one, other| one.ran.used.cpu_s.total_cmp(&other.ran.used.cpu_s));
        }
        Ok(measured)
    }

    /// The run of a row whose CPU time is the median.
    fn median(&self, row: usize) -> &Run {
        &self.runs[row][(self.runs[row].len() - 1) / 2]
    }

    fn per_million(&self, seconds: f64) -> f64 {
        seconds / ratio(self.samples, 1_000_000)
    }

    fn cpu(&self, run: &Run) -> f64 {
        self.per_million(run.ran.used.cpu_s)
    }

    /// The rows, with their targets.
    pub fn table(&self) -> String {
        let floor = self.cpu(self.median(0));
        let rows: Vec<_> = ROWS.iter().enumerate().map(|(at, row)| self.row(at, row)).collect();
        let head = [
            "step",
            "samples/s (wall)",
            "CPU s per million",
            "of all runs",
            "times (a)",
            "target",
            "server's CPU",
            "rows per sample",
            "flushes",
            "peak MiB",
        ];
        format!(
            "topic: the run of median CPU of {}; CPU is user and system time of all threads\n\n{}\n\
             \n- targets: CPU s per million: (b) (a) + 0.5 = {:.3}, (c) 1.1, (d) 1.6; rows per \
             sample: {MOST_ROWS}\n- wall time of (b) to (d) ends when everything is flushed: \
             trips wait up to 30 s (--max-staleness) for more samples\n- server's CPU is that of \
             the CQL server during (d), s per million samples",
            self.runs[0].len(),
            table(head, &rows),
            floor + 0.5,
        )
    }

    fn row(&self, at: usize, (name, most): &(&str, Most)) -> [String; 10] {
        let floor = self.cpu(self.median(0));
        let Run { ran, told } = self.median(at);
        let cpu = self.per_million(ran.used.cpu_s);
        let spread = match &self.runs[at][..] {
            [least, .., largest] => format!("{:.3}-{:.3}", self.cpu(least), self.cpu(largest)),
            _ => format!("{cpu:.3}"),
        };
        let most = match most {
            Most::Any => None,
            Most::Above(more) => Some(floor + more),
            Most::Whole(most) => Some(*most),
        };
        let met = |is_met| if is_met { "met" } else { "missed" };
        let target = most.map_or("-".into(), |most| format!("<= {most:.2}: {}", met(cpu <= most)));
        let (rows, flushes) = if at == 0 {
            ("-".to_owned(), "-".to_owned())
        } else {
            let rows = ratio(told.trips_written, self.samples);
            (format!("{rows:.4}: {}", met(rows <= MOST_ROWS)), told.flushes.to_string())
        };
        let server = ran.server_s.map(|seconds| format!("{:.3}", self.per_million(seconds)));
        [
            (*name).to_owned(),
            per_second(self.samples, ran.used.wall_s),
            format!("{cpu:.3}"),
            spread,
            format!("{:.2}", cpu / floor),
            target,
            server.unwrap_or_else(|| "-".into()),
            rows,
            flushes,
            format!("{:.1}", ran.used.peak_mib()),
        ]
    }
}
