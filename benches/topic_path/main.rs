//! Measures the cost of building trips from a topic, with real servers on this machine.
//!
//! ```sh
//! tests/servers/up                  # in another terminal: starts both, prints their addresses
//! TSTAR_TEST_KAFKA=127.0.0.1:PORT TSTAR_TEST_CQL=127.0.0.1:PORT cargo bench --bench topic_path
//! cargo bench --bench topic_path -- --quick    # a tenth of the samples, for a quick try
//! cargo bench --bench topic_path -- --many-devices 1000000 --samples 3000000 --binary OLD
//!                                   # step (d) alone, with new devices, alternated with OLD
//! ```
//!
//! `TSTAR_BENCH_CQL_PID` is the process id of the CQL server; if set, its CPU time is measured.
//! `TSTAR_BENCH_KAFKA_VERSION` is the version of the broker, which the protocol does not report.
//!
//! Each step is measured in a separate process. CPU time comes first: wall time depends on other
//! load on the machine, and on the delay before trips are written.

#[path = "../file_path/child.rs"]
#[expect(dead_code, reason = "the lookups of file_path use more of it")]
mod child;
mod daemon;
mod drive;
mod floor;
mod log;
#[path = "../file_path/machine.rs"]
mod machine;
mod many_devices;
#[path = "../file_path/null.rs"]
mod null;
mod process;
mod role;
mod rows;
#[expect(dead_code, reason = "live uses more of it")]
mod servers;
#[path = "../file_path/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Parser;

use crate::table::grouped;

/// Devices of the simulated fleet.
const DEVICES: u32 = 1000;

/// Partitions of the topic.
const PARTITIONS: i32 = 4;

/// Measures the cost of building trips from a topic
#[derive(Debug, Parser)]
struct Args {
    /// Runs of each row
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Measures step (d) alone, with samples of N devices in random order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    many_devices: Option<u32>,
    /// Samples of the topic
    #[arg(long, value_name = "N", default_value_t = 2_000_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,
    /// Another program to alternate with this build
    #[arg(long, value_name = "PATH", requires = "many_devices")]
    binary: Vec<PathBuf>,
    /// A tenth of the samples
    #[arg(long)]
    quick: bool,
    /// Passed by cargo to benches, not to tests
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match role::Role::from_args(&args) {
        Ok(Some(role)) => role.play(),
        Ok(None) => bench(&Args::parse()),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("topic_path: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Creates a topic of samples, measures every row, and removes the topic.
fn bench(args: &Args) -> anyhow::Result<()> {
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("topic_path measures only under `cargo bench`");
        return Ok(());
    }
    let servers = servers::Servers::from_env()?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot create a folder for the files of the bench")?;
    let date = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC");
    println!("date: {date}\n{}", machine::describe(&child::version(folder.path())?)?);
    println!("{}", servers.describe()?);
    let samples = if args.quick { args.samples.div_ceil(10) } else { args.samples };
    let topic = servers::Topic::create(&servers.kafka, "topic", PARTITIONS)?;
    let place = (folder.path(), &servers);
    let measured = match args.many_devices {
        Some(devices) => many(&topic, place, devices, samples, args),
        None => steps(&topic, place, samples, args.runs),
    };
    // Also after an error: the servers may be used by others.
    let removed = topic.remove();
    measured?;
    removed
}

/// Measures every step with a simulated fleet.
fn steps(
    topic: &servers::Topic,
    (folder, servers): (&Path, &servers::Servers),
    samples: u64,
    runs: u32,
) -> anyhow::Result<()> {
    let log = topic.fill(folder, DEVICES, samples)?;
    println!(
        "\ninput: {} samples of {} simulated devices, seed 1, one per record, keyed by device, \
         {PARTITIONS} partitions, lz4",
        grouped(samples),
        grouped(DEVICES.into()),
    );
    let measured = rows::Measurements::measure(&rows::Input { folder, servers, log }, runs)?;
    println!("\n{}", measured.table());
    Ok(())
}

/// Measures step (d) with new devices.
fn many(
    topic: &servers::Topic,
    (folder, servers): (&Path, &servers::Servers),
    devices: u32,
    samples: u64,
    args: &Args,
) -> anyhow::Result<()> {
    let sent = many_devices::send(&topic.log()?, devices, samples)?;
    let log = topic.log()?;
    ensure!(log.samples() == samples, "the topic ends at {:?}", log.ends);
    println!(
        "\ninput: {} samples, each of a random device of {}, of which {} sent one; one per \
         record, keyed by device, {PARTITIONS} partitions, lz4",
        grouped(samples),
        grouped(devices.into()),
        grouped(sent),
    );
    let mut programs = args.binary.clone();
    programs.push(child::tstar().to_owned());
    rows::compare(&rows::Input { folder, servers, log }, &programs, args.runs)
}
