//! The rows: each adds a step to the previous one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::child::{measured, tstar};
use crate::daemon::{DaemonRun, RunUsage};
use crate::log::Log;
use crate::role::{RunCounts, StoreTarget};
use crate::servers::{Servers, remove_group};
use crate::table::{per_second, ratio, table};

/// Maximum number of rows written per sample. More would mean that writes grow with paths.
const MAX_ROWS: f64 = 0.05;

/// Maximum cost of a row, CPU s per million samples.
enum Target {
    None,
    /// On top of row (a).
    Above(f64),
    Whole(f64),
}

const ROWS: [(&str, Target); 5] = [
    ("(a) drained by the client", Target::None),
    ("(b) decoding, trips in memory", Target::Above(0.5)),
    ("(c) tstar run into SQLite", Target::Whole(1.1)),
    ("(d) tstar run into a CQL server", Target::Whole(1.6)),
    ("(e) the same with the table topic", Target::None),
];

/// Flags of row (e).
const TABLE: &[&str] = &["--table-topic"];

/// Columns of a comparison of programs.
const COMPARED: [&str; 7] = [
    "program",
    "wall s",
    "CPU s per million",
    "server's CPU",
    "rows per sample",
    "peak MiB",
    "polling thread, client's threads, workers, other",
];

/// Input of all rows, and where they may write.
pub struct Input<'a> {
    /// Folder for files.
    pub folder: &'a Path,
    /// Servers for topic and keyspaces.
    pub servers: &'a Servers,
    /// The input topic.
    pub log: Log,
}

/// One run of a row.
struct Run {
    usage: RunUsage,
    counts: RunCounts,
}

/// The runs of each row, by CPU time.
pub struct Measurements {
    samples: u64,
    runs: [Vec<Run>; 5],
}

impl Input<'_> {
    fn run(&self, row: usize, nth: u32) -> anyhow::Result<Run> {
        let bench = std::env::current_exe()?;
        let usage = match row {
            0 | 1 => {
                let role = if row == 0 { "--floor" } else { "--trips" };
                let log = serde_json::to_string(&self.log)?;
                let used = measured(self.folder, &bench, &[role, &log])?;
                RunUsage { used, server_s: None, threads: BTreeMap::new() }
            }
            2 => {
                let file = self.folder.join(format!("run-{nth}.db"));
                self.daemon(tstar(), StoreTarget::File(file), &[])?
            }
            3 => self.to_keyspace(tstar(), &nth.to_string(), &[])?,
            _ => self.to_keyspace(tstar(), &format!("{nth}_table"), TABLE)?,
        };
        self.counted(ROWS[row].0, usage)
    }

    fn counted(&self, name: &str, usage: RunUsage) -> anyhow::Result<Run> {
        let counts: RunCounts = serde_json::from_str(&usage.used.stdout)?;
        let samples = self.log.samples();
        ensure!(counts.delivered == samples, "{name}: {} of {samples} samples", counts.delivered);
        Ok(Run { usage, counts })
    }

    fn to_keyspace(&self, program: &Path, nth: &str, flags: &[&str]) -> anyhow::Result<RunUsage> {
        let keyspace = format!("tstar_bench_{}_{nth}", std::process::id());
        self.servers.create_keyspace(self.folder, program, &keyspace)?;
        let (url, server) = (self.servers.url(&keyspace), self.servers.cql_pid);
        let target = StoreTarget::Keyspace { url, group: keyspace.clone(), server };
        let usage = self.daemon(program, target, flags);
        // Also after an error.
        let dropped = self.servers.drop_keyspace(&keyspace);
        let usage = usage?;
        dropped?;
        remove_group(&self.log.brokers, &keyspace)?;
        Ok(usage)
    }

    /// Runs the daemon in a process without other children, so that the kernel's figures are those
    /// of the daemon.
    fn daemon(
        &self,
        program: &Path,
        target: StoreTarget,
        flags: &[&str],
    ) -> anyhow::Result<RunUsage> {
        let run = DaemonRun {
            folder: self.folder.to_owned(),
            program: program.to_owned(),
            log: self.log.clone(),
            target,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
        };
        let mut child = crate::child::plain(self.folder, &std::env::current_exe()?);
        child.arg("--daemon").arg(serde_json::to_string(&run)?);
        let output = child.stderr(std::process::Stdio::inherit()).output()?;
        ensure!(output.status.success(), "a measured run of tstar failed");
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Measures row (d) of several programs `runs` times, by turns, and prints a row for each run.
///
/// # Errors
/// A run fails or loses samples.
pub fn compare(input: &Input<'_>, programs: &[PathBuf], runs: u32) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let samples = input.log.samples();
    let per_million = |seconds: f64| format!("{:.3}", seconds / ratio(samples, 1_000_000));
    for nth in 0..runs {
        for (at, program) in programs.iter().enumerate() {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let usage = input.to_keyspace(program, &format!("{nth}_{at}"), &[])?;
            let Run { usage, counts } = input.counted(&name, usage)?;
            rows.push([
                name,
                format!("{:.1}", usage.used.wall_s),
                per_million(usage.used.cpu_s),
                usage.server_s.map_or_else(|| "-".into(), per_million),
                format!("{:.4}", ratio(counts.trips_written, samples)),
                format!("{:.1}", usage.used.peak_mib()),
                threads(&usage, samples),
            ]);
            println!("\n{}", table(COMPARED, &rows));
        }
    }
    Ok(())
}

/// CPU of the threads of a daemon by what they do, s per million samples.
fn threads(usage: &RunUsage, samples: u64) -> String {
    let of = |prefix: &str| -> f64 {
        let named = usage.threads.iter().filter(|(name, _)| name.starts_with(prefix));
        named.map(|(_, cpu_s)| cpu_s).sum()
    };
    let [polling, client, workers] = ["tstar-kafka", "rdk:", "tokio-"].map(of);
    let other = usage.used.cpu_s - polling - client - workers;
    [polling, client, workers, other]
        .map(|cpu_s| format!("{:.3}", cpu_s / ratio(samples, 1_000_000)))
        .join(", ")
}

impl Measurements {
    /// Measures every row `runs` times. Rows are interleaved, so that a slow period affects all of
    /// them.
    ///
    /// # Errors
    /// A run fails or loses samples.
    pub fn measure(input: &Input<'_>, runs: u32) -> anyhow::Result<Self> {
        let mut measured = Self { samples: input.log.samples(), runs: Default::default() };
        for nth in 0..runs {
            for (row, runs) in measured.runs.iter_mut().enumerate() {
                runs.push(input.run(row, nth)?);
            }
        }
        for runs in &mut measured.runs {
            runs.sort_by(|a, b| a.usage.used.cpu_s.total_cmp(&b.usage.used.cpu_s));
        }
        Ok(measured)
    }

    /// The run of a row with the median CPU time.
    fn median(&self, row: usize) -> &Run {
        &self.runs[row][(self.runs[row].len() - 1) / 2]
    }

    fn per_million(&self, seconds: f64) -> f64 {
        seconds / ratio(self.samples, 1_000_000)
    }

    fn cpu(&self, run: &Run) -> f64 {
        self.per_million(run.usage.used.cpu_s)
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
             sample: {MAX_ROWS}\n- wall time of (b) to (e) ends when everything is flushed: \
             trips wait up to 30 s (--max-staleness) for more samples\n- server's CPU is that of \
             the CQL server during (d) and (e), s per million samples\n- CPU s per million of \
             polling thread, client's threads, workers, other: (c) {}; (d) {}; (e) {}",
            self.runs[0].len(),
            table(head, &rows),
            floor + 0.5,
            threads(&self.median(2).usage, self.samples),
            threads(&self.median(3).usage, self.samples),
            threads(&self.median(4).usage, self.samples),
        )
    }

    fn row(&self, at: usize, (name, target): &(&str, Target)) -> [String; 10] {
        let floor = self.cpu(self.median(0));
        let Run { usage, counts } = self.median(at);
        let cpu = self.per_million(usage.used.cpu_s);
        let spread = match &self.runs[at][..] {
            [min, .., max] => format!("{:.3}-{:.3}", self.cpu(min), self.cpu(max)),
            _ => format!("{cpu:.3}"),
        };
        let max = match target {
            Target::None => None,
            Target::Above(more) => Some(floor + more),
            Target::Whole(max) => Some(*max),
        };
        let met = |is_met| if is_met { "met" } else { "missed" };
        let target = max.map_or("-".into(), |max| format!("<= {max:.2}: {}", met(cpu <= max)));
        let (rows, flushes) = if at == 0 {
            ("-".to_owned(), "-".to_owned())
        } else {
            let rows = ratio(counts.trips_written, self.samples);
            (format!("{rows:.4}: {}", met(rows <= MAX_ROWS)), counts.flushes.to_string())
        };
        let server = usage.server_s.map(|seconds| format!("{:.3}", self.per_million(seconds)));
        [
            (*name).to_owned(),
            per_second(self.samples, usage.used.wall_s),
            format!("{cpu:.3}"),
            spread,
            format!("{:.2}", cpu / floor),
            target,
            server.unwrap_or_else(|| "-".into()),
            rows,
            flushes,
            format!("{:.1}", usage.used.peak_mib()),
        ]
    }
}
