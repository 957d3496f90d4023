//! `simulate`: prints samples of a seeded fleet, or sends them to a topic.

use std::sync::Arc;

use clap::Args;

use super::exit;
use super::flags::{BrokerFlags, Context};
use super::print::Printer;
use crate::ops::{InvalidRequest, simulate};
use crate::simulate::{Fleet, FleetSettings};

const EXAMPLES: &str = "\
Examples:
  tstar simulate --devices 3 --samples 20 --seed 7
  tstar simulate --devices 100 --samples 20000 --mix 46,34,19,1 --bad 0.01
  tstar simulate --devices 100 --samples 20000 --brokers 127.0.0.1:9092 --topic samples

Prints NDJSON in arrival order; with --brokers or --topic, sends it to the topic, keyed by device.
The same seed gives the same bytes. Vans, buses and trucks drive through a town, stop with the
ignition on and off, and lose the network; with --mix, trucks know no stops, and samples arrive in
that mix.";

/// Flags of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// Number of devices
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().devices)]
    pub devices: u32,
    /// Total number of lines
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().samples)]
    pub samples: u64,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = FleetSettings::default().seed)]
    pub seed: u64,
    /// Weights of the arrival kinds: end, inside, beginning, merge
    #[arg(long, value_name = "E,I,B,M")]
    pub mix: Option<String>,
    /// Share of malformed lines, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub bad: f64,
    #[command(flatten)]
    pub topic: BrokerFlags,
}

/// Prints the samples, or sends them if a flag names brokers or a topic.
pub(crate) async fn run(
    args: &SimulateArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let fleet = FleetSettings {
        devices: args.devices,
        samples: args.samples,
        seed: args.seed,
        mix: args.mix.as_deref().map(parse_mix).transpose()?,
        bad: args.bad,
    };
    if args.topic.0.is_empty() {
        return Ok(simulate::write_lines(Fleet::new(&fleet)?, printer.out())?);
    }
    let settings = context.settings(&[&args.topic.0])?;
    let brokers = settings.brokers()?;
    simulate::send(&fleet, &brokers, &settings.topic, Arc::new(exit::print_status)).await
}

fn parse_mix(text: &str) -> Result<[f64; 4], InvalidRequest> {
    let weights: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
    let four = weights.ok().and_then(|weights| weights.try_into().ok());
    four.ok_or_else(|| {
        InvalidRequest(format!(
            "`{text}` is not a valid mix; give four weights (end, inside, beginning, merge), like \
             46,34,19,1"
        ))
    })
}
