//! What the way from a topic to trips costs, over real servers on this machine.
//!
//! ```sh
//! tests/servers/up                  # in another terminal: starts both, says where they are
//! TSTAR_TEST_KAFKA=127.0.0.1:PORT TSTAR_TEST_CQL=127.0.0.1:PORT cargo bench --bench topic_path
//! cargo bench --bench topic_path -- --quick    # a tenth of the samples, to try it out
//! ```
//!
//! `TSTAR_BENCH_CQL_PID` names the process of the CQL server, whose CPU time is told then;
//! `TSTAR_BENCH_KAFKA_VERSION` the version of the broker, which the protocol does not tell.
//!
//! Everything that is measured runs in a process of its own. The figures are CPU time first: wall
//! time depends on who else uses the machine, and on how long trips may wait to be written.

#[path = "../file_path/child.rs"]
#[expect(dead_code, reason = "the lookups of file_path ask for more")]
mod child;
mod daemon;
mod drive;
mod floor;
#[path = "../file_path/machine.rs"]
mod machine;
#[path = "../file_path/null.rs"]
mod null;
mod process;
mod role;
mod rows;
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

/// Measures the way from a topic to trips
#[derive(Debug, Parser)]
struct Args {
    /// How often each row is measured
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// A tenth of the samples
    #[arg(long)]
    quick: bool,
    /// What cargo says to a bench, and not to a test
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let told: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match role::Role::of(&told) {
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

/// Makes a topic of samples, measures every row over it, and removes what was made.
fn bench(args: &Args) -> anyhow::Result<()> {
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("topic_path measures only under `cargo bench`");
        return Ok(());
    }
    let servers = servers::Servers::of_env()?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot make a folder for the files of the bench")?;
    let date = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC");
    println!("date: {date}\n{}", machine::describe(folder.path())?);
    println!("{}", servers.describe()?);
    let samples = if args.quick { 200_000 } else { 2_000_000 };
    let topic = servers::Topic::make(&servers.kafka, PARTITIONS)?;
    let input = topic.fill(folder.path(), DEVICES, samples);
    let measured = input.and_then(|log| {
        println!(
            "\ninput: {} samples of {} simulated devices, seed 1, one a record, keyed by device, \
             {PARTITIONS} partitions, lz4",
            grouped(samples),
            grouped(DEVICES.into()),
        );
        rows::Measured::of(
            &rows::Input { folder: folder.path(), servers: &servers, log },
            args.runs,
        )
    });
    // Also where something failed: the servers may be somebody's own.
    let removed = topic.remove();
    println!("\n{}", measured?.table());
    removed
}
