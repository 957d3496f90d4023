//! The path of a sample from the bytes of a file to a durable trip, with one more step in each row;
//! and how often arrivals would change the key of a trip.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde::Deserialize;

use crate::child::{Used, measured, plain, tstar};
use crate::table::{grouped, per_second, ratio, table};

const DEVICES: u32 = 1000;

/// Maximum cost of row (a), CPU s per million samples. Above it, the measurement is void.
const MAX_FLOOR: f64 = 0.30;

/// The rows, each with its maximum cost as a multiple of the first.
const ROWS: [(&str, Option<f64>); 4] = [
    ("(a) decode only", None),
    ("(b) decode, trips", Some(1.3)),
    ("(c) decode, trips, path encoding", Some(2.0)),
    ("(d) ingest into durable SQLite", Some(3.5)),
];

/// The input file of all rows.
pub struct Input {
    folder: PathBuf,
    file: PathBuf,
    samples: u64,
    bytes: u64,
}

impl Input {
    /// Writes the input file: a simulated fleet.
    ///
    /// # Errors
    /// The program fails, or the disk does.
    pub fn write(folder: &Path, samples: u64) -> anyhow::Result<Self> {
        let file = folder.join("fleet.ndjson");
        simulate(folder, &file, DEVICES, samples)?;
        let bytes = file.metadata()?.len();
        Ok(Self { folder: folder.to_owned(), file, samples, bytes })
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Describes the input.
    pub fn describe(&self) -> String {
        format!(
            "input: {} samples of {} simulated devices, seed 1, in arrival order, plain NDJSON, \
             {:.0} bytes a sample",
            grouped(self.samples),
            grouped(DEVICES.into()),
            ratio(self.bytes, self.samples)
        )
    }

    /// Removes the file, to free space for the large files of later sections.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self) -> std::io::Result<()> {
        std::fs::remove_file(self.file)
    }
}

/// Writes the output of `tstar simulate --seed 1` to a file.
///
/// # Errors
/// The program fails, or the disk does.
pub fn simulate(folder: &Path, file: &Path, devices: u32, samples: u64) -> anyhow::Result<()> {
    let mut simulate = plain(folder, tstar());
    simulate.args(["simulate", "--seed", "1", "--mix", "46,34,19,1"]);
    simulate.args(["--devices", &devices.to_string(), "--samples", &samples.to_string()]);
    ensure!(simulate.stdout(File::create(file)?).status()?.success(), "tstar simulate failed");
    Ok(())
}

/// The runs of each row, by CPU time.
pub struct Measurements {
    samples: u64,
    runs: [Vec<Used>; 4],
}

/// Measures every row `runs` times. Rows are interleaved, so that a slow period affects them all.
///
/// # Errors
/// A run fails.
pub fn measure(input: &Input, runs: u32) -> anyhow::Result<Measurements> {
    let mut measured = Measurements { samples: input.samples, runs: Default::default() };
    for _ in 0..runs {
        for (row, used) in measured.runs.iter_mut().enumerate() {
            used.push(run(input, row)?);
        }
    }
    for runs in &mut measured.runs {
        runs.sort_by(|a, b| a.cpu_s.total_cmp(&b.cpu_s));
    }
    Ok(measured)
}

fn run(input: &Input, row: usize) -> anyhow::Result<Used> {
    let role = match row {
        0 => "--floor",
        1 => "--trips",
        2 => "--encode",
        _ => return ingest(input),
    };
    let bench = std::env::current_exe()?;
    measured(&input.folder, &bench, &[OsStr::new(role), input.file.as_os_str()])
}

/// Row (d): `tstar ingest` into a new store.
///
/// # Errors
/// The program fails.
pub fn ingest(input: &Input) -> anyhow::Result<Used> {
    ingest_with(&input.folder, &input.file, "path", &[])
}

/// Imports a file into a new store `NAME.db` in the folder, with additional arguments.
///
/// # Errors
/// The program fails.
pub fn ingest_with(folder: &Path, file: &Path, name: &str, more: &[&str]) -> anyhow::Result<Used> {
    remove_store(folder, name)?;
    let store = format!("sqlite:{name}.db");
    let mut args = vec![OsStr::new("ingest"), file.as_os_str(), OsStr::new("--json")];
    args.extend([OsStr::new("--store"), OsStr::new(&store)]);
    args.extend(more.iter().map(OsStr::new));
    measured(folder, tstar(), &args)
}

/// Removes every file of a store.
///
/// # Errors
/// The disk fails.
pub fn remove_store(folder: &Path, name: &str) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&format!("{name}.db")) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Measurements {
    /// The run of a row with the median CPU time.
    fn median(&self, row: usize) -> &Used {
        &self.runs[row][(self.runs[row].len() - 1) / 2]
    }

    fn per_million(&self, used: &Used) -> f64 {
        used.cpu_s / ratio(self.samples, 1_000_000)
    }

    /// Why the measurement is void, if it is.
    pub fn void(&self) -> Option<String> {
        let floor = self.per_million(self.median(0));
        (floor > MAX_FLOOR).then(|| {
            format!(
                "{} took {floor:.3} CPU s per million samples, over {MAX_FLOOR:.2}: the machine \
                 is too loaded, or too slow for these targets",
                ROWS[0].0
            )
        })
    }

    /// The summary that `ingest` printed.
    pub fn summary(&self) -> &str {
        &self.median(3).stdout
    }

    /// The rows, with their targets.
    pub fn table(&self) -> String {
        let floor = self.per_million(self.median(0));
        let row = |(at, (name, limit)): (usize, &(&str, Option<f64>))| {
            let used = self.median(at);
            let cpu = self.per_million(used);
            let (min, max) = match &self.runs[at][..] {
                [only] => (only, only),
                [min, .., max] => (min, max),
                [] => (used, used),
            };
            let times = cpu / floor;
            let target = limit.map_or("-".into(), |limit| {
                let met = if times <= limit { "met" } else { "missed" };
                format!("<= {limit:.1}: {met}")
            });
            [
                (*name).to_owned(),
                per_second(self.samples, used.wall_s),
                format!("{cpu:.3}"),
                format!("{:.3}-{:.3}", self.per_million(min), self.per_million(max)),
                format!("{times:.2}"),
                target,
                format!("{:.1}", used.peak_mib()),
            ]
        };
        let rows: Vec<_> = ROWS.iter().enumerate().map(row).collect();
        let head = [
            "step",
            "samples/s (wall)",
            "CPU s per million",
            "of all runs",
            "times (a)",
            "target",
            "peak MiB",
        ];
        let runs = self.runs[0].len();
        let note = "CPU is user and system time of all threads";
        format!("path: the run of median CPU of {runs}; {note}\n\n{}", table(head, &rows))
    }
}

/// The parts of the summary of `ingest` that are used here.
#[derive(Deserialize)]
pub struct Summary {
    /// Samples by arrival kind.
    pub arrivals: Arrivals,
    /// Trips in the store.
    pub trips: u64,
    key_changes: KeyChanges,
}

/// Samples that joined an existing trip, by arrival kind.
#[derive(Deserialize)]
pub struct Arrivals {
    end: u64,
    inside: u64,
    beginning: u64,
    merge: u64,
}

#[derive(Deserialize)]
struct KeyChanges {
    t_star: u64,
    start: u64,
    end: u64,
    start_end: u64,
}

impl Arrivals {
    fn joined(&self) -> u64 {
        self.end + self.inside + self.beginning + self.merge
    }

    /// The mix, in percent.
    pub fn mix(&self) -> String {
        let share = |count| 100.0 * ratio(count, self.joined());
        format!(
            "{:.1} % end, {:.1} % inside, {:.1} % beginning, {:.1} % merge",
            share(self.end),
            share(self.inside),
            share(self.beginning),
            share(self.merge)
        )
    }
}

/// How many arrivals would have changed the key of a trip, for each kind of key.
///
/// # Errors
/// The summary cannot be parsed.
pub fn identity(summary: &str) -> anyhow::Result<String> {
    let summary: Summary = serde_json::from_str(summary)?;
    let joined = summary.arrivals.joined();
    let row = |(name, count): (&str, u64)| {
        let share = 100.0 * ratio(count, joined);
        [name.to_owned(), grouped(count), format!("{share:.2} %")]
    };
    let keys = summary.key_changes;
    let rows = [
        ("device, t*", keys.t_star),
        ("device, start", keys.start),
        ("device, end", keys.end),
        ("device, start, end", keys.start_end),
    ];
    let head = ["key derived from", "arrivals that change it", "share"];
    Ok(format!(
        "identity: of {} arrivals that joined a trip ({})\n\n{}",
        grouped(joined),
        summary.arrivals.mix(),
        table(head, &rows.map(row))
    ))
}
