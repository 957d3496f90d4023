//! The command line: results go to stdout, everything else to stderr.

mod backup;
mod config;
mod confirm;
mod demo;
mod devices;
mod dlq;
mod doctor;
mod epoch;
pub mod exit;
mod explain;
mod export;
mod flags;
mod forget;
mod http_files;
mod id;
mod ingest;
mod inspect;
mod inspect_table;
mod lookup;
mod man;
mod print;
mod progress;
mod rebuild;
mod replay;
mod report;
mod run;
mod run_progress;
mod schema;
mod serve;
mod simulate;
mod stop;
mod summary;
mod table;
mod tag;
mod times;
mod trips;
mod usage;
mod verify;
mod verify_trip;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use flags::{Context, GlobalFlags};
use print::Printer;

use crate::telemetry::logging;

const EXAMPLES: &str = "\
Examples:
  tstar lookup truck-17 2026-11-20T21:38:00Z
  tstar trips truck-17 --prefix 202611
  tstar export --format csv

Exit codes: 0 done; 1 no result; 2 usage, or a malformed id, time or duration; 65 bad data;
69 server unreachable; 70 internal error; 74 input or output failed; 78 configuration;
130 and 143 stopped by SIGINT or SIGTERM before the end.";

const COMPLETIONS: &str = "\
Examples:
  tstar completions bash
  tstar completions zsh";

/// Builds trips from out-of-order location samples and gives each an id that survives late data
#[derive(Debug, Parser)]
#[command(
    name = "tstar",
    version = concat!(env!("CARGO_PKG_VERSION"), " (", env!("TSTAR_COMMIT"), ")"),
    after_help = EXAMPLES,
    max_term_width = 100
)]
struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the trips of a simulated fleet in tstar-demo.db, and look one up
    #[command(after_help = demo::EXAMPLES)]
    Demo,
    /// Build trips from files
    Ingest(ingest::IngestArgs),
    /// Look at the first records of files or of a topic, and say how to read them
    Inspect(Box<inspect::InspectArgs>),
    /// Build trips from a topic until a signal arrives
    Run(Box<run::RunArgs>),
    /// Serve trips over HTTP: a page, a JSON API, metrics
    Serve(Box<serve::ServeArgs>),
    /// Find the trip of a device that covers a time
    Lookup(lookup::LookupArgs),
    /// Find a trip by its id, in any form; retired ids work
    Trip(lookup::TripArgs),
    /// Show the history of a trip: what minted it, what it absorbed, and each of its records
    Explain(explain::ExplainArgs),
    /// List the trips of a device, or of all devices on a day, by start time
    Trips(trips::TripsArgs),
    /// Sum up the trips and stops of a span: by day, device or driver
    Summary(summary::SummaryArgs),
    /// Show, set and remove the tags of a trip or device
    Tag(tag::TagArgs),
    /// List devices
    Devices(devices::DevicesArgs),
    /// Export all trips, by device and start time
    Export(export::ExportArgs),
    /// Print samples of a simulated fleet in arrival order, or send them to a topic
    Simulate(simulate::SimulateArgs),
    /// List, replay or purge dead letters
    Dlq(dlq::DlqArgs),
    /// Encode and decode trip ids
    Id(id::IdArgs),
    /// Send late or historic files to the topic, or replay the topic into a store
    Replay(replay::ReplayArgs),
    /// Build another store from the log under other rules, and compare the ids
    Rebuild(Box<rebuild::RebuildArgs>),
    /// Compare a store with its log, and repair rows that differ
    Verify(Box<verify::VerifyArgs>),
    /// Check whether a trip follows from its records, without a store
    VerifyTrip(verify_trip::VerifyTripArgs),
    /// Erase the trips of a device, or of all devices, that ended before a time
    Forget(Box<forget::ForgetArgs>),
    /// Show and manage epochs
    Epoch(epoch::EpochArgs),
    /// Copy a store in a file, also while it is written
    Backup(backup::BackupArgs),
    /// Check a copy of a store, and put it in the place of a store that is lost
    Restore(backup::RestoreArgs),
    /// Check a store, its log and this machine
    Doctor(doctor::DoctorArgs),
    /// Show and check the settings
    Config(config::ConfigArgs),
    /// Print the schema files, or create the tables of a keyspace
    Schema(schema::SchemaArgs),
    /// Print shell completions
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write the man pages
    Man(man::ManArgs),
}

/// Runs the program; `env` holds the `TSTAR_*` variables, `user` is the system's user name.
pub fn main(env: Vec<(String, String)>, user: Option<String>) -> ExitCode {
    let cli = match usage::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(exit::USAGE);
            // Help written to a closed pipe succeeds.
            return error.print().map_or(ExitCode::SUCCESS, |()| ExitCode::from(code));
        }
    };
    match run(cli, env, user) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

fn run(cli: Cli, env: Vec<(String, String)>, user: Option<String>) -> anyhow::Result<()> {
    stop::ignore_size_limit()?;
    // These work in parallel, on partitions or requests; the other commands do not.
    let mut builder = match cli.command {
        Command::Run(_)
        | Command::Serve(_)
        | Command::Demo
        | Command::Replay(_)
        | Command::Rebuild(_)
        | Command::Verify(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = builder.enable_all().build()?;
    let mut context = Context::new(cli.global, env);
    context.user = user;
    // A daemon logs the warnings itself, once it knows the log format.
    if !matches!(cli.command, Command::Run(_) | Command::Serve(_)) {
        context.warn();
        logging::init_store_warnings();
    }
    let mut printer = Printer::stdout();
    let done = runtime.block_on(dispatch(cli.command, &context, &mut printer));
    exit::begin_to_end();
    done?;
    printer.flush()?;
    Ok(())
}

async fn dispatch(
    command: Command,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    match command {
        Command::Demo => demo::run(context, printer).await,
        Command::Ingest(args) => ingest::run(&args, context, printer).await,
        Command::Inspect(args) => inspect::run(&args, context, printer).await,
        Command::Run(args) => run::run(&args, context, printer).await,
        Command::Serve(args) => serve::run(&args, context).await,
        Command::Simulate(args) => simulate::run(&args, context, printer).await,
        Command::Dlq(args) => dlq::run(&args, context, printer).await,
        Command::Lookup(args) => lookup::lookup(&args, context, printer).await,
        Command::Trip(args) => lookup::trip(&args, context, printer).await,
        Command::Explain(args) => explain::run(&args, context, printer).await,
        Command::Trips(args) => trips::run(&args, context, printer).await,
        Command::Summary(args) => summary::run(&args, context, printer).await,
        Command::Tag(args) => tag::run(&args, context, printer).await,
        Command::Devices(args) => devices::run(&args, context, printer).await,
        Command::Export(args) => export::run(&args, context, printer).await,
        Command::Forget(args) => forget::run(&args, context, printer).await,
        Command::Id(args) => id::run(&args, printer),
        Command::Epoch(args) => epoch::run(&args, context, printer).await,
        Command::Replay(args) => replay::run(&args, context, printer).await,
        Command::Rebuild(args) => rebuild::run(&args, context, printer).await,
        Command::Verify(args) => verify::run(&args, context, printer).await,
        Command::VerifyTrip(args) => verify_trip::run(&args, printer),
        Command::Backup(args) => backup::back_up(&args, context, printer).await,
        Command::Restore(args) => backup::restore(&args, context, printer).await,
        Command::Doctor(args) => doctor::run(&args, context, printer).await,
        Command::Config(args) => config::run(&args, context, printer),
        Command::Schema(args) => schema::run(&args, context, printer).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tstar", &mut script);
            Ok(printer.write(&script)?)
        }
        Command::Man(args) => man::run(&args, Cli::command(), printer),
    }
}

#[cfg(test)]
mod tests;
