//! `simulate`: samples of a seeded fleet, to stdout or to a topic.

use std::io::Write;
use std::sync::Arc;
use tstar::ops::InvalidRequest;

use clap::Args;
use tstar::kafka::producer::{Producer, ProducerRecord};
use tstar::kafka::topic::Topics;
use tstar::settings::Settings;
use tstar::simulate::{Fleet, FleetSettings};

use super::exit;
use super::flags::{BrokerFlags, Context};
use super::open;
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar simulate --devices 3 --samples 20 --seed 7
  tstar simulate --devices 100 --samples 20000 --seed 7 --mix 46,34,19,1 --bad 0.01
  tstar simulate --devices 100 --samples 20000 --brokers 127.0.0.1:9092 --topic samples

Prints NDJSON in order of arrival, or sends it keyed by device where --brokers or --topic is given.
The same seed gives the same bytes.";

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
    #[command(flatten)]
    pub topic: BrokerFlags,
}

/// How many records are on their way before their acknowledgements are waited for.
const SENT_TOGETHER: usize = 10_000;

/// Prints the samples, or sends them where brokers are named.
pub async fn run(
    args: &SimulateArgs,
    context: &Context,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let fleet = FleetSettings {
        devices: args.devices,
        samples: args.samples,
        seed: args.seed,
        mix: parse_mix(&args.mix)?,
        bad: args.bad,
    };
    if args.topic.0.is_empty() {
        return write_all(&fleet, printer.out());
    }
    let (settings, _) = context.settings(&args.topic.0)?;
    send_all(&fleet, &settings).await
}

/// Sends the samples of a fleet, keyed by device.
async fn send_all(fleet: &FleetSettings, settings: &Settings) -> anyhow::Result<()> {
    let brokers = open::brokers(settings)?;
    let topics = Topics::new(&brokers)?;
    topics.needed(&settings.topic)?;
    let on_waiting = Arc::new(|why: &str| exit::print_status(why));
    let producer = Producer::new(&brokers, on_waiting)?;
    let mut records = Vec::with_capacity(SENT_TOGETHER);
    for event in Fleet::new(fleet)? {
        let mut value = Vec::new();
        event.write_line(&mut value)?;
        value.pop();
        let key = Some(event.device_id().into_bytes());
        records.push(ProducerRecord { key, value, ..ProducerRecord::default() });
        if records.len() == SENT_TOGETHER {
            send(&producer, settings, &records).await?;
            records.clear();
        }
    }
    send(&producer, settings, &records).await
}

async fn send(
    producer: &Producer,
    settings: &Settings,
    records: &[ProducerRecord],
) -> anyhow::Result<()> {
    let sent = producer.send(&settings.topic, records).await;
    Ok(sent.map_err(producer.failed("sending samples"))?)
}

fn parse_mix(text: &str) -> Result<[f64; 4], InvalidRequest> {
    let weights: Result<Vec<f64>, _> = text.split(',').map(str::parse).collect();
    let four = weights.ok().and_then(|weights| weights.try_into().ok());
    four.ok_or_else(|| {
        InvalidRequest(format!("`{text}` is no mix: write four weights, such as 46,34,19,1"))
    })
}

/// Writes the samples of a fleet, a line each.
pub fn write_all(fleet: &FleetSettings, mut out: impl Write) -> anyhow::Result<()> {
    for event in Fleet::new(fleet)? {
        event.write_line(&mut out)?;
    }
    Ok(())
}
