//! Measures what a live fleet costs, with real servers on this machine.
//!
//! ```sh
//! tests/servers/up                  # in another terminal: starts both, prints their addresses
//! TSTAR_TEST_KAFKA=127.0.0.1:PORT TSTAR_TEST_CQL=127.0.0.1:PORT cargo bench --bench live
//! cargo bench --bench live -- --binary OLD     # alternates with another program
//! cargo bench --bench live -- --streams paths  # Kafka Streams as well, on the same topic
//! cargo bench --bench live -- --quick          # a small fleet, for a quick try
//! ```
//!
//! `TSTAR_BENCH_CQL_PID` and `TSTAR_BENCH_KAFKA_PID` are the process ids of the servers; if set,
//! their CPU time is measured.
//!
//! Every device sends a sample each period by the wall clock; one in twenty is up to 10 minutes
//! late. The topic has a history of such samples, so that trips are long from the start. The
//! program reads it, then the fleet goes live, and what is measured begins when trips have been
//! written in the new rhythm. Afterwards the same program replays the same topic into an empty
//! keyspace: the cost of a live sample is a multiple of a replayed one in the same run.

#[path = "../file_path/child.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod child;
mod daemon;
mod feed;
mod fleet;
#[path = "../topic_path/log.rs"]
mod log;
#[path = "../file_path/machine.rs"]
mod machine;
mod probe;
#[path = "../topic_path/process.rs"]
#[expect(dead_code, reason = "topic_path reads threads")]
mod process;
mod report;
mod run;
#[path = "../topic_path/servers.rs"]
#[expect(dead_code, reason = "topic_path fills a topic with it")]
mod servers;
mod streams;
#[path = "../file_path/table.rs"]
#[expect(dead_code, reason = "other benches use more of it")]
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;

use crate::table::grouped;

/// Measures what a live fleet costs
#[derive(Debug, Parser)]
struct Args {
    /// Devices of the fleet
    #[arg(long, value_name = "N", default_value_t = 5_000,
          value_parser = clap::value_parser!(u32).range(1..))]
    devices: u32,
    /// Seconds between two samples of a device
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..))]
    period: u32,
    /// Measured time, s
    #[arg(long, default_value_t = 120)]
    seconds: u32,
    /// Time before the start of which the topic has samples, s
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    history: u32,
    /// Runs of each program
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Another program to alternate with this build
    #[arg(long, value_name = "PATH")]
    binary: Vec<PathBuf>,
    /// Also measures Kafka Streams, which reads the topic at the same time. Needs Maven
    #[arg(long, value_name = "TRIPS", value_enum)]
    streams: Option<streams::Trips>,
    /// 500 devices, measured for half a minute
    #[arg(long)]
    quick: bool,
    /// Passed by cargo to benches, not to tests
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    match bench(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each program, by turns, and prints a row for each run.
fn bench(args: &Args) -> anyhow::Result<()> {
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("live measures only under `cargo bench`");
        return Ok(());
    }
    let servers = servers::Servers::from_env()?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot create a folder for the files of the bench")?;
    let date = chrono::Utc::now().format("%Y-%m-%d %H:%M UTC");
    println!(
        "date: {date}\n{}\n{}",
        machine::describe(&child::version(folder.path())?)?,
        servers.describe()?
    );
    let fleet = fleet::FleetConfig {
        devices: if args.quick { 500 } else { args.devices },
        period_s: args.period,
        history_s: if args.quick { 120 } else { args.history },
    };
    let seconds = if args.quick { 30 } else { args.seconds };
    println!(
        "\nfleet: {} devices, a sample each {} s, one in twenty late by up to 10 minutes, {} s of \
         history; {} partitions; measured for {seconds} s",
        grouped(fleet.devices.into()),
        fleet.period_s,
        fleet.history_s,
        run::PARTITIONS,
    );
    let build = |trips| streams::Program::build(folder.path(), trips);
    let streams = args.streams.map(build).transpose()?;
    let mut programs = args.binary.clone();
    programs.push(child::tstar().to_owned());
    let mut rows = Vec::new();
    for nth in 0..args.runs {
        for (at, program) in programs.iter().enumerate() {
            let name = format!("{nth}_{at}");
            let (folder, streams) = (folder.path(), streams.as_ref());
            let input = run::Input { folder, servers: &servers, program, fleet, streams };
            let figures = input.measure(&name, seconds)?;
            rows.push(report::row(program, &figures));
            println!("\n{}", report::table(&rows));
            if let Some(figures) = &figures.streams {
                println!("{}", report::streams(figures));
                figures.check()?;
            }
        }
    }
    Ok(())
}
