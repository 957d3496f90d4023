//! The path of a sample, from the bytes of a file to a durable trip, a step more in each row; and
//! what the arrivals would do to a trip's key.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde::Deserialize;

use crate::child::{Used, measured, plain, tstar};
use crate::table::{grouped, per_second, ratio, table};

const DEVICES: u32 = 1000;

/// Above this the floor itself is disturbed, CPU s per million samples.
const MOST_FLOOR: f64 = 0.30;

/// The rows, each with what it may cost, as a multiple of the first.
const ROWS: [(&str, Option<f64>); 4] = [
    ("(a) decode only", None),
    ("(b) decode, trips", Some(1.3)),
    ("(c) decode, trips, path encoding", Some(2.0)),
    ("(d) ingest into durable SQLite", Some(3.5)),
];

/// The file that all rows read.
pub struct Input {
    folder: PathBuf,
    file: PathBuf,
    samples: u64,
    bytes: u64,
}

impl Input {
    /// Writes the samples of the simulated fleet.
    ///
    /// # Errors
    /// The program fails, or the disk.
    pub fn write(folder: &Path, samples: u64) -> anyhow::Result<Self> {
        let file = folder.join("fleet.ndjson");
        simulate(folder, &file, DEVICES, samples)?;
        let bytes = file.metadata()?.len();
        Ok(Self { folder: folder.to_owned(), file, samples, bytes })
    }

    /// What the file holds.
    pub fn describe(&self) -> String {
        format!(
            "input: {} samples of {} simulated devices, seed 1, in arrival order, plain NDJSON, \
             {:.0} bytes a sample",
            grouped(self.samples),
            grouped(DEVICES.into()),
            ratio(self.bytes, self.samples)
        )
    }

    /// Removes the file: those of later sections are large.
    ///
    /// # Errors
    /// The disk fails.
    pub fn remove(self) -> std::io::Result<()> {
        std::fs::remove_file(self.file)
    }
}

/// Writes what `tstar simulate` prints for a fleet of seed 1 into a file.
///
/// # Errors
/// The program fails, or the disk.
pub fn simulate(folder: &Path, file: &Path, devices: u32, samples: u64) -> anyhow::Result<()> {
    let mut simulate = plain(folder, tstar());
    simulate.args(["simulate", "--seed", "1"]);
    simulate.args(["--devices", &devices.to_string(), "--samples", &samples.to_string()]);
    ensure!(simulate.stdout(File::create(file)?).status()?.success(), "tstar simulate failed");
    Ok(())
}

/// The runs of each row.
pub struct Measured {
    samples: u64,
    runs: [Vec<Used>; 4],
}

/// Measures every row so many times, in turns, so that a slow minute strikes them all.
///
/// # Errors
/// A row cannot be run.
pub fn measure(input: &Input, runs: u32) -> anyhow::Result<Measured> {
    let mut measured = Measured { samples: input.samples, runs: Default::default() };
    for _ in 0..runs {
        for (row, used) in measured.runs.iter_mut().enumerate() {
            used.push(run(input, row)?);
        }
    }
    for runs in &mut measured.runs {
        runs.sort_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s));
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

/// Row (d): the whole program, into a new store.
///
/// # Errors
/// It fails.
pub fn ingest(input: &Input) -> anyhow::Result<Used> {
    ingest_with(&input.folder, &input.file, "path", &[])
}

/// Imports a file into a new store `NAME.db` of the folder, with more arguments.
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

impl Measured {
    /// The run of a row whose CPU time is the median.
    fn median(&self, row: usize) -> &Used {
        &self.runs[row][(self.runs[row].len() - 1) / 2]
    }

    fn per_million(&self, used: &Used) -> f64 {
        used.cpu_s / ratio(self.samples, 1_000_000)
    }

    /// Why the figures mean nothing, if so.
    pub fn void(&self) -> Option<String> {
        let floor = self.per_million(self.median(0));
        (floor > MOST_FLOOR).then(|| {
            format!(
                "{} took {floor:.3} CPU s per million samples, over {MOST_FLOOR:.2}: the machine \
                 is too loaded, or too slow for these targets",
                ROWS[0].0
            )
        })
    }

    /// What `ingest` printed.
    pub fn summary(&self) -> &str {
        &self.median(3).stdout
    }

    /// The rows, with their targets.
    pub fn table(&self) -> String {
        let floor = self.per_million(self.median(0));
        let row = |(at, (name, most)): (usize, &(&str, Option<f64>))| {
            let used = self.median(at);
            let cpu = self.per_million(used);
            let (least, largest) = match &self.runs[at][..] {
                [only] => (only, only),
                [least, .., largest] => (least, largest),
                [] => (used, used),
            };
            let times = cpu / floor;
            let target = most.map_or("-".into(), |most| {
                let met = if times <= most { "met" } else { "missed" };
                format!("<= {most:.1}: {met}")
            });
            [
                (*name).to_owned(),
                per_second(self.samples, used.wall_s),
                format!("{cpu:.3}"),
                format!("{:.3}-{:.3}", self.per_million(least), self.per_million(largest)),
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

/// What `ingest` prints, as far as it is needed here.
#[derive(Deserialize)]
pub struct Summary {
    /// Where samples met a trip.
    pub arrivals: Arrivals,
    /// Trips in the store.
    pub trips: u64,
    key_changes: KeyChanges,
}

/// Where samples met a trip.
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

/// How many arrivals would have changed a trip's key.
///
/// # Errors
/// The summary is not one.
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
    let head = ["key made of", "arrivals that change it", "share"];
    Ok(format!(
        "identity: of {} arrivals that met a trip ({})\n\n{}",
        grouped(joined),
        summary.arrivals.mix(),
        table(head, &rows.map(row))
    ))
}
