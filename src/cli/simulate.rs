//! `simulate`: samples of a seeded fleet.

use std::io::Write;

use clap::Args;
use tstar::simulate::{Fleet, FleetSettings};

use super::exit::Usage;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar simulate --devices 3 --samples 20 --seed 7
  tstar simulate --devices 100 --samples 20000 --seed 7 --mix 46,34,19,1 --bad 0.01

Prints NDJSON in order of arrival. The same seed gives the same bytes.";

/// Flags of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SimulateArgs {
    /// How many devices
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().devices)]
    pub devices: u32,
    /// How many lines in all
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().samples)]
    pub samples: u64,
    /// Where the random numbers start
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().seed)]
    pub seed: u64,
    /// Weights of the arrivals: end, inside, beginning, merge
    #[arg(long, value_name = "E,I,B,M", default_value = "46,34,19,1")]
    pub mix: String,
    /// Share of malformed lines, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub bad: f64,
}

/// Prints the samples.
pub fn run(args: &SimulateArgs, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let fleet = FleetSettings {
        devices: args.devices,
        samples: args.samples,
        seed: args.seed,
        mix: parse_mix(&args.mix)?,
        bad: args.bad,
    };
    write_all(&fleet, printer.out())
}

fn parse_mix(text: &str) -> Result<[f64; 4], Usage> {
    let weights: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
    let four = weights.ok().and_then(|weights| weights.try_into().ok());
    four.ok_or_else(|| Usage(format!("`{text}` is no mix: write four weights, such as 46,34,19,1")))
}

/// Writes the samples of a fleet, a line each.
pub fn write_all(fleet: &FleetSettings, mut out: impl Write) -> anyhow::Result<()> {
    for event in Fleet::new(fleet)? {
        event.write_line(&mut out)?;
    }
    Ok(())
}
