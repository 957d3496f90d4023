//! Every scheme of naming trips, on the same late data.
//!
//! ```sh
//! cargo bench --bench identity                  # 200,000 trips begin
//! cargo bench --bench identity -- all           # 1,000,000
//! cargo bench --bench identity -- --trips 20000 # to try it out
//! cargo bench --bench identity -- --into docs/identity-bench.md
//! ```
//!
//! Counters are taken from SQLite, and from a CQL server where `TSTAR_TEST_CQL` names one
//! (`tests/servers/up` starts one); `TSTAR_BENCH_CQL_PID` names its process, whose CPU time counts
//! then. `--into` writes the tables between the lines `<!-- identity: begin -->` and
//! `<!-- identity: end -->` of a file.
//!
//! The generators live here: the product mints nothing. They are checked against published ids
//! before anything is measured.

mod check;
#[path = "../file_path/child.rs"]
#[expect(dead_code, reason = "the lookups of file_path ask for more")]
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
mod process;
mod race;
mod replay;
mod report;
mod schemes;
mod stock;
#[path = "../file_path/table.rs"]
#[expect(dead_code, reason = "speeds are rounded in another way here")]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, anyhow, ensure};
use clap::{Parser, ValueEnum};

use crate::form::Form;
use crate::names::{Course, Name, Names};
use crate::order::Inversions;
use crate::pass::{History, Way};
use crate::report::{Cost, Measured, Report};
use crate::schemes::Scheme;
use crate::stock::{Connected, Place};
use crate::table::grouped;

/// Trips that each device begins.
const TRIPS_OF_DEVICE: usize = 1000;

/// Samples of a batch, where ids are minted by the batch: what a Kafka consumer polls at most.
const BATCH: u64 = 500;

/// How the log is read again.
const WAYS: [Way; 3] = [Way::Straight, Way::Batches(BATCH), Way::TakenOver];

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Size {
    /// 1,000,000 trips
    All,
}

/// Measures every scheme of naming trips on the same late data
#[derive(Debug, Parser)]
struct Args {
    /// All of it [default: 200000 trips]
    size: Option<Size>,
    /// Trips that begin in the log
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(8000..))]
    trips: Option<u32>,
    /// Writes the tables into this file, between its markers
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// What cargo says to a bench, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let told: Vec<_> = std::env::args().skip(1).collect();
    let done = match &told[..] {
        [role, giver] if role == "--give" => serde_json::from_str(giver)
            .map_err(anyhow::Error::new)
            .and_then(|giver: kill::Giver| giver.give()),
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

/// Measures, prints, and writes into a file.
fn bench(args: &Args) -> anyhow::Result<()> {
    check::generators().context("a generator is not what its authors publish")?;
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("identity measures only under `cargo bench`");
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot make a folder for the files of the bench")?;
    let server = server()?;
    let full = if args.size == Some(Size::All) { 1_000_000 } else { 200_000 };
    let begun = usize::try_from(args.trips.unwrap_or(full))?;
    let devices = u32::try_from(begun / TRIPS_OF_DEVICE)?;
    eprintln!("identity: reading the log, four times");
    let (names, histories) = read(devices, begun)?;
    let history = &histories[0];
    let mut report = Report {
        head: head(folder.path(), devices, &names, history, server.as_ref())?,
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
    // Also where something failed: the server may be somebody's own.
    let removed = server.as_ref().map_or(Ok(()), Server::remove);
    report.costs = costs?;
    removed?;
    let text = report.text();
    println!("{text}");
    args.into.as_ref().map_or(Ok(()), |file| report::into(file, &text))
}

/// Reads the log once while its names are watched, and once more in each way.
fn read(devices: u32, begun: usize) -> anyhow::Result<(Names, Vec<History>)> {
    let (mut names, histories) = std::thread::scope(|scope| {
        let again = WAYS.map(|way| scope.spawn(move || pass::read(devices, begun, way, &mut ())));
        let mut names = Names::new(devices);
        let first = pass::read(devices, begun, Way::Straight, &mut names);
        let again = again
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a reader of the log panicked"))?);
        let histories = std::iter::once(first).chain(again).collect::<Result<Vec<_>, _>>()?;
        anyhow::Ok((names, histories))
    })?;
    names.resolve(&histories[0]);
    let spans = histories[0].standing().count();
    for history in &histories[1..] {
        ensure!(history.standing().count() == spans, "the same log gave other trips");
    }
    Ok((names, histories))
}

fn measure(
    folder: &Path,
    scheme: Scheme,
    names: &Names,
    histories: &[History],
) -> anyhow::Result<Measured> {
    let history = &histories[0];
    let ids = replay::ids(scheme, history, Way::Straight, false)?;
    let mut equal = [0.0; 3];
    for (equal, (way, again)) in equal.iter_mut().zip(WAYS.into_iter().zip(&histories[1..])) {
        let ids_again = replay::ids(scheme, again, way, true)?;
        *equal = replay::equal(history, &ids, again, &ids_again);
    }
    let course = match scheme.name() {
        None => replay::minted_course(history, &ids),
        Some(name) => names.courses[name as usize],
    };
    let course = match scheme {
        Scheme::TStarUuid => Course { fate: replay::uuid_fate(history)?, ..course },
        _ => course,
    };
    let table = prefix::Table::of(scheme, history, &ids)?;
    let births = replay::at_birth(scheme, history, &ids)?;
    Ok(Measured {
        scheme,
        course,
        equal,
        order: Inversions::of(scheme, history, &ids),
        day: table.day()?,
        newest: table.newest()?,
        index: index::measure(folder, scheme, &births)?,
        form: Form::of(&ids),
    })
}

/// A CQL server.
struct Server {
    place: Place,
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

/// The CQL server that the environment names.
fn server() -> anyhow::Result<Option<Server>> {
    let address = std::env::var("TSTAR_TEST_CQL").ok().filter(|address| !address.is_empty());
    let Some(address) = address else { return Ok(None) };
    let pid = match std::env::var("TSTAR_BENCH_CQL_PID") {
        Ok(text) => {
            let wrong = || format!("TSTAR_BENCH_CQL_PID={text} is no process");
            let pid = text.parse().with_context(wrong)?;
            process::cpu_of(pid).with_context(wrong)?;
            Some(pid)
        }
        Err(_) => None,
    };
    let keyspace = format!("tstar_bench_identity_{}", std::process::id());
    let place = Place::Server { address, keyspace };
    Ok(Some(Server { connected: place.connect()?, place, pid }))
}

/// What giving ids out costs, of each scheme and database.
fn costs(folder: &Path, server: Option<&Server>) -> anyhow::Result<Vec<Cost>> {
    let file = Place::File(folder.join("stock.db"));
    let connected = file.connect()?;
    let mut costs = Vec::new();
    for scheme in Scheme::ALL {
        eprintln!("identity: giving out {}", scheme.label());
        let counts = scheme.is_coordinated() && scheme != Scheme::Digits;
        let cost = |place, races| Cost { scheme, place, races, skipped: None, knows_cpu: true };
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
        let skipped = |place: &Place, connected: &Connected| {
            counts.then(|| kill::skipped(scheme, place, connected)).transpose()
        };
        costs.push(Cost {
            skipped: skipped(&file, &connected)?,
            ..cost(Some(file.label()), races(&connected, None)?)
        });
        if let Some(server) = server {
            // Not measured: a server compiles what it runs while it first runs it.
            race::stocked(scheme, &server.connected, replay::WORKERS, None)?;
        }
        costs.push(match server {
            None => cost(Some("CQL"), None),
            Some(server) => Cost {
                skipped: skipped(&server.place, &server.connected)?,
                knows_cpu: server.pid.is_some(),
                ..cost(Some(server.place.label()), races(&server.connected, server.pid)?)
            },
        });
    }
    Ok(costs)
}

/// On what, and of what, the figures are.
fn head(
    folder: &Path,
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
         {begun} trips of {devices} devices begin, {standing} remain at the end, the others were \
         merged into them; {all} arrivals: {:.1} % end, {:.1} % inside, {:.1} % beginning, \
         {:.1} % merge.",
        share(changes.end),
        share(inside),
        share(changes.beginning),
        share(changes.merge),
        machine = machine::describe(folder)?.replace('\n', "; "),
        begun = grouped(history.trips.len() as u64),
        standing = grouped(history.standing().count() as u64),
        all = grouped(all),
    ))
}
