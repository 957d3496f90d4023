//! Compares schemes of naming trips on the same late data.
//!
//! ```sh
//! bench="cargo run --release --manifest-path benches/identity/Cargo.toml --"
//! $bench                                  # 200,000 trips
//! $bench all                              # 1,000,000
//! $bench --trips 20000                    # for a quick try
//! $bench --into benches/identity/RESULTS.md
//! ```
//!
//! Counters are in SQLite, and in a CQL server if `TSTAR_TEST_CQL` is set (`tests/servers/up`
//! starts one). `TSTAR_BENCH_CQL_PID` is its process id; if set, its CPU time is included. `--into`
//! writes the tables between the lines `<!-- identity: begin -->` and `<!-- identity: end -->` of a
//! file.
//!
//! The generators are part of the bench, because tstar itself generates no ids. They are checked
//! against published ids before anything is measured.

mod check;
mod child;
mod form;
mod index;
mod kill;
mod log;
#[path = "../file_path/machine.rs"]
mod machine;
mod mint;
mod names;
mod order;
mod pass;
mod prefix;
#[path = "../topic_path/process.rs"]
#[expect(dead_code, reason = "topic_path reads threads")]
mod process;
mod race;
mod replay;
mod report;
mod schemes;
mod stock;
#[path = "../file_path/table.rs"]
#[expect(dead_code, reason = "speeds are rounded differently here")]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use clap::{Parser, ValueEnum};

use crate::form::Form;
use crate::names::{Course, Name, Names};
use crate::order::Inversions;
use crate::pass::{History, Way};
use crate::report::{Cost, Report, SchemeResult};
use crate::schemes::Scheme;
use crate::stock::{Connected, Database};
use crate::table::grouped;

/// Trips of each device.
const TRIPS_OF_DEVICE: usize = 1000;

/// Samples per batch if ids are minted in batches: the default maximum of a Kafka poll.
const BATCH: u64 = 500;

/// How the log is replayed.
const WAYS: [Way; 3] = [Way::Straight, Way::Batches(BATCH), Way::TakenOver];

/// Number of trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    /// 1,000,000 trips
    All,
}

/// Compares schemes of naming trips on the same late data
#[derive(Debug, Parser)]
struct Args {
    /// Full size [default: 200000 trips]
    size: Option<Size>,
    /// Number of trips that start in the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8000..))]
    trips: Option<u32>,
    /// Write the tables into this file, between its markers
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [role, issuer] if role == "--issue" => serde_json::from_str(issuer)
            .map_err(anyhow::Error::new)
            .and_then(|issuer: kill::Issuer| issuer.issue()),
        _ => bench(&Args::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("identity: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures all schemes, prints the tables and writes them to a file.
fn bench(args: &Args) -> anyhow::Result<()> {
    check::generators().context("a generator differs from its published ids")?;
    // Not in /tmp, which may be memory.
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.context("cannot create a folder for the files of the bench")?;
    let server = server()?;
    let full = if args.size == Some(Size::All) { 1_000_000 } else { 200_000 };
    let begun = usize::try_from(args.trips.unwrap_or(full))?;
    let devices = u32::try_from(begun / TRIPS_OF_DEVICE)?;
    eprintln!("identity: reading the log, four times");
    let (names, histories) = read(devices, begun)?;
    let history = &histories[0];
    let mut report = Report {
        head: head(devices, &names, history, server.as_ref())?,
        begun: begun as u64,
        arrivals: names.arrivals,
        measured: Vec::new(),
        costs: Vec::new(),
    };
    for scheme in Scheme::ALL {
        eprintln!("identity: {}", scheme.label());
        report.measured.push(measure(folder.path(), scheme, &names, &histories)?);
    }
    let costs = costs(folder.path(), server.as_ref());
    // Also after an error: the server may be used by others.
    let removed = server.as_ref().map_or(Ok(()), Server::remove);
    report.costs = costs?;
    removed?;
    let text = report.text();
    println!("{text}");
    args.into.as_ref().map_or(Ok(()), |file| report::into(file, &text))
}

/// Reads the log once with a watcher of names, and replays it in each way.
fn read(devices: u32, begun: usize) -> anyhow::Result<(Names, Vec<History>)> {
    let (mut names, histories) = std::thread::scope(|scope| {
        let replays = WAYS.map(|way| scope.spawn(move || pass::read(devices, begun, way, &mut ())));
        let mut names = Names::new(devices);
        let first = pass::read(devices, begun, Way::Straight, &mut names);
        let replays = replays
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a reader of the log panicked"))?);
        let histories = std::iter::once(first).chain(replays).collect::<Result<Vec<_>, _>>()?;
        anyhow::Ok((names, histories))
    })?;
    names.resolve(&histories[0]);
    let spans = histories[0].remaining().count();
    for history in &histories[1..] {
        ensure!(history.remaining().count() == spans, "the same log gave different trips");
    }
    Ok((names, histories))
}

fn measure(
    folder: &Path,
    scheme: Scheme,
    names: &Names,
    histories: &[History],
) -> anyhow::Result<SchemeResult> {
    let history = &histories[0];
    let ids = replay::ids(scheme, history, Way::Straight, false)?;
    let mut equal = [0.0; 3];
    for (equal, (way, replayed)) in equal.iter_mut().zip(WAYS.into_iter().zip(&histories[1..])) {
        let replayed_ids = replay::ids(scheme, replayed, way, true)?;
        *equal = replay::equal(history, &ids, replayed, &replayed_ids);
    }
    let course = match scheme.name() {
        None => replay::minted_course(history, &ids),
        Some(name) => names.courses[name as usize],
    };
    let course = match scheme {
        Scheme::TStarUuid => Course { fate: replay::uuid_fate(history)?, ..course },
        _ => course,
    };
    let table = prefix::Table::new(scheme, history, &ids)?;
    let births = replay::at_birth(scheme, history, &ids)?;
    Ok(SchemeResult {
        scheme,
        course,
        equal,
        order: Inversions::new(scheme, history, &ids),
        day: table.day()?,
        newest: table.newest()?,
        index: index::measure(folder, scheme, &births)?,
        form: Form::from_ids(&ids),
    })
}

/// The CQL server of the bench.
struct Server {
    database: Database,
    connected: Connected,
    pid: Option<u32>,
}

impl Server {
    fn remove(&self) -> anyhow::Result<()> {
        match &self.connected {
            Connected::Server(server) => server.remove(),
            Connected::File(_) => Ok(()),
        }
    }
}

/// The CQL server named by the environment variables.
fn server() -> anyhow::Result<Option<Server>> {
    let address = std::env::var("TSTAR_TEST_CQL").ok().filter(|address| !address.is_empty());
    let Some(address) = address else { return Ok(None) };
    let pid = match std::env::var("TSTAR_BENCH_CQL_PID") {
        Ok(text) => {
            let wrong = || format!("TSTAR_BENCH_CQL_PID={text} is not a running process");
            let pid = text.parse().with_context(wrong)?;
            process::cpu_of(pid).with_context(wrong)?;
            Some(pid)
        }
        Err(_) => None,
    };
    let keyspace = format!("tstar_bench_identity_{}", std::process::id());
    let database = Database::Server { address, keyspace };
    Ok(Some(Server { connected: database.connect()?, database, pid }))
}

/// The cost of generating ids, for each scheme and database.
fn costs(folder: &Path, server: Option<&Server>) -> anyhow::Result<Vec<Cost>> {
    let file = Database::File(folder.join("stock.db"));
    let connected = file.connect()?;
    let mut costs = Vec::new();
    for scheme in Scheme::ALL {
        eprintln!("identity: generating {}", scheme.label());
        let counts = scheme.is_coordinated() && scheme != Scheme::Digits;
        let cost =
            |database, races| Cost { scheme, database, races, skipped: None, knows_cpu: true };
        if !counts {
            let races = [race::alone(scheme, 1)?, race::alone(scheme, replay::WORKERS)?];
            costs.push(cost(None, Some(races)));
        }
        if !scheme.is_coordinated() {
            continue;
        }
        let races = |connected: &Connected, pid| {
            let race = |writers| race::stocked(scheme, connected, writers, pid);
            anyhow::Ok(Some([race(1)?, race(replay::WORKERS)?]))
        };
        let skipped = |database: &Database, connected: &Connected| {
            counts.then(|| kill::skipped(scheme, database, connected)).transpose()
        };
        costs.push(Cost {
            skipped: skipped(&file, &connected)?,
            ..cost(Some(file.label()), races(&connected, None)?)
        });
        if let Some(server) = server {
            // Warm-up: a server compiles code while it first runs it.
            race::stocked(scheme, &server.connected, replay::WORKERS, None)?;
        }
        costs.push(match server {
            None => cost(Some("CQL"), None),
            Some(server) => Cost {
                skipped: skipped(&server.database, &server.connected)?,
                knows_cpu: server.pid.is_some(),
                ..cost(Some(server.database.label()), races(&server.connected, server.pid)?)
            },
        });
    }
    Ok(costs)
}

/// The commit of the work tree.
fn commit() -> String {
    let mut git = std::process::Command::new("git");
    git.args(["rev-parse", "--short=12", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    match git.output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "of an unknown commit".to_owned(),
    }
}

/// Describes the machine, the program and the log of the figures.
fn head(
    devices: u32,
    names: &Names,
    history: &History,
    server: Option<&Server>,
) -> anyhow::Result<String> {
    let date = chrono::Utc::now().format("%Y-%m-%d");
    let sqlite = rusqlite::version();
    let cql = match server.map(|server| &server.connected) {
        Some(Connected::Server(server)) => server.version()?,
        _ => "no CQL server".to_owned(),
    };
    let (all, Course { changes, .. }) = (names.arrivals, names.courses[Name::StartEnd as usize]);
    let share = |count| 100.0 * table::ratio(count, all);
    let inside = all - changes.end - changes.beginning - changes.merge;
    Ok(format!(
        "{date}, {machine}; SQLite {sqlite}, {cql}.\n\
         {begun} trips of {devices} devices begin, {remaining} remain at the end, the others were \
         merged into them; {all} arrivals: {:.1} % end, {:.1} % inside, {:.1} % beginning, \
         {:.1} % merge.",
        share(changes.end),
        share(inside),
        share(changes.beginning),
        share(changes.merge),
        machine = machine::describe(&format!("tstar {}", commit()))?.replace('\n', "; "),
        begun = grouped(history.trips.len() as u64),
        remaining = grouped(history.remaining().count() as u64),
        all = grouped(all),
    ))
}
