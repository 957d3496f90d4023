//! Measures the cost of building trips from files, and of lookups.
//!
//! ```sh
//! cargo bench                       # path, identity, and a small lookup
//! cargo bench -- all                # everything at full size
//! cargo bench -- scaling --millions 5
//! cargo bench -- --quick            # a tenth of the samples, for a quick try
//! ```
//!
//! Each step is measured in a separate process, which gives its CPU time and peak memory. CPU time
//! comes first: wall time depends on other load on the machine.

mod child;
mod drive;
mod export;
mod floor;
mod http;
mod lookup;
mod machine;
mod null;
mod path;
mod role;
mod scaling;
mod shuffle;
mod table;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

/// A part of the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// Decoding, trips, path encoding, the durable import
    Path,
    /// Arrivals that change a trip's key
    Identity,
    /// Each export format, compared with NDJSON
    Export,
    /// A lookup compared with a bare query
    Lookup,
    /// CPU and memory over more samples and more devices
    Scaling,
    /// All of them, at full size
    All,
}

/// Measures the cost of building trips from files
#[derive(Debug, Parser)]
struct Args {
    /// What to measure [default: path identity lookup]
    sections: Vec<Section>,
    /// Runs of each row of the path
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// A tenth of the samples and trips
    #[arg(long)]
    quick: bool,
    /// Samples of the largest scaling runs, millions
    #[arg(long, value_name = "N", default_value_t = 20)]
    millions: u64,
    /// Trips in the store of the lookups [default: 100000, with `all` 1000000]
    #[arg(long, value_name = "N")]
    trips: Option<u32>,
    /// Passed by cargo to benches, not to tests
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    /// Whether a section was requested.
    fn has(&self, section: Section) -> bool {
        match &self.sections[..] {
            [] => !matches!(section, Section::Scaling | Section::Export),
            sections => sections.contains(&section) || self.is_full(),
        }
    }

    fn is_full(&self) -> bool {
        self.sections.contains(&Section::All)
    }

    /// A number of samples, reduced by `--quick`.
    fn samples(&self, full: u64) -> u64 {
        if self.quick { full / 10 } else { full }
    }
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let done = match role::Role::from_args(&args) {
        Some(role) => role.play().map(|()| true),
        None => bench(&Args::parse()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("file_path: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Measures the requested sections. Returns false if a run is void.
fn bench(args: &Args) -> anyhow::Result<bool> {
    if !args.bench {
        // `cargo test --all-targets` runs this program too.
        println!("file_path measures only under `cargo bench`");
        return Ok(true);
    }
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.context("cannot create a folder for the files of the bench")?;
    println!("{}", machine::describe(&child::version(folder.path())?)?);
    if [Section::Path, Section::Identity, Section::Export].iter().any(|it| args.has(*it)) {
        let input = path::Input::write(folder.path(), args.samples(2_000_000))?;
        println!("\n{}", input.describe());
        let summary = if args.has(Section::Path) {
            let measured = path::measure(&input, args.runs)?;
            if let Some(reason) = measured.void() {
                println!("\nVOID: {reason}");
                return Ok(false);
            }
            println!("\n{}", measured.table());
            measured.summary().to_owned()
        } else {
            path::ingest(&input)?.stdout
        };
        if args.has(Section::Identity) {
            println!("\n{}", path::identity(&summary)?);
        }
        if args.has(Section::Export) {
            println!("\n{}", export::measure(folder.path(), &input, args.runs)?);
        }
        input.remove()?;
    }
    if args.has(Section::Lookup) {
        let full = if args.is_full() { 1_000_000 } else { 100_000 };
        let trips = args.trips.unwrap_or(if args.quick { full / 10 } else { full });
        println!("\n{}", lookup::measure(folder.path(), trips)?);
    }
    if args.has(Section::Scaling) {
        scaling::measure(folder.path(), args.samples(1_000_000), args.millions)?;
    }
    Ok(true)
}
