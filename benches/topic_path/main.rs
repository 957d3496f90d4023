//! Measures the cost of building trips from a topic, with real servers on this machine.
//!
//! ```sh
//! tests/servers/up                  # in another terminal: starts both, prints their addresses
//! TSTAR_TEST_KAFKA=127.0.0.1:PORT TSTAR_TEST_CQL=127.0.0.1:PORT cargo bench --bench topic_path
//! cargo bench --bench topic_path -- --quick    # a tenth of the samples, for a quick try
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
#[path = "../file_path/null.rs"]
mod null;
mod process;
mod role;
mod rows;
#[expect(dead_code, reason = "live uses more of it")]
mod servers;
#[path = "../file_path/table.rs"]
mod table;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

use crate::table::grouped;

/// Devices of the fleet.
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
    println!("date: {date}\n{}", machine::describe(folder.path())?);
    println!("{}", servers.describe()?);
    let samples = if args.quick { 200_000 } else { 2_000_000 };
    let topic = servers::Topic::create(&servers.kafka, "topic", PARTITIONS)?;
    let input = topic.fill(folder.path(), DEVICES, samples);
    let measured = input.and_then(|log| {
        println!(
            "\ninput: {} samples of {} simulated devices, seed 1, one per record, keyed by device, \
             {PARTITIONS} partitions, lz4",
            grouped(samples),
            grouped(DEVICES.into()),
        );
        rows::Measurements::measure(
            &rows::Input { folder: folder.path(), servers: &servers, log },
            args.runs,
        )
    });
    // Also after an error: the servers may be used by others.
    let removed = topic.remove();
    println!("\n{}", measured?.table());
    removed
}
