//! `id`: encodes and decodes trip ids, without a store.

use clap::{Args, Subcommand, ValueEnum};

use super::flags::ValueOutputFlags;
use super::print::Printer;
use crate::identity::{AnyId, TripId, prefix};
use crate::model::scalar::DeviceTime;
use crate::model::time::{format_time, parse_time};

const EXAMPLES: &str = "\
Examples:
  tstar id encode truck-17 2026-11-20T21:38:00.123Z
  tstar id decode truck-17~20261120T213800.123Z
  tstar id prefix truck-17 202611";

const ENCODE_EXAMPLES: &str = "\
Examples:
  tstar id encode truck-17 2026-11-20T21:38:00.123Z
  tstar id encode truck-17 1795210680123 --form uuid";

const DECODE_EXAMPLES: &str = "\
Examples:
  tstar id decode truck-17~20261120T213800.123Z
  tstar id decode 01a1fae5-173b-8152-8ed4-88d4aacc8ddd --json";

const PREFIX_EXAMPLES: &str = "\
Examples:
  tstar id prefix truck-17 202611
  tstar id prefix truck-17 2026-11-20";

/// Flags of `id`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IdArgs {
    #[command(subcommand)]
    command: IdCommand,
}

#[derive(Debug, Subcommand)]
enum IdCommand {
    /// Encode a trip id
    #[command(after_help = ENCODE_EXAMPLES)]
    Encode {
        /// Device id
        device: String,
        /// t_star: RFC 3339 with any offset, or ms since 1970
        #[arg(allow_negative_numbers = true)]
        time: String,
        /// Form of the id
        #[arg(long, value_enum, default_value = "text")]
        form: IdForm,
    },
    /// Decode a trip id in any form
    #[command(after_help = DECODE_EXAMPLES)]
    Decode {
        /// Trip id: text, bytes (base32hex) or UUID
        id: String,
        #[command(flatten)]
        output: ValueOutputFlags,
    },
    /// Print the prefix of the ids of a year, month, day or hour
    #[command(after_help = PREFIX_EXAMPLES)]
    Prefix {
        /// Device id
        device: String,
        /// 2026, 202611, 20261120 or 20261120T21; dashes are allowed
        date: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum IdForm {
    /// truck-17~20261120T213800.123Z
    Text,
    /// Base32hex; sorts like the ids in the store
    Bytes,
    /// UUID version 8
    Uuid,
}

/// Runs `id`.
pub(crate) fn run(args: &IdArgs, printer: &mut Printer) -> anyhow::Result<()> {
    match &args.command {
        IdCommand::Encode { device, time, form } => {
            let id = TripId::new(device.as_str(), DeviceTime(parse_time(time)?))?;
            let text = match form {
                IdForm::Text => id.text()?,
                IdForm::Bytes => id.key_text(),
                IdForm::Uuid => id.uuid()?.to_string(),
            };
            Ok(printer.line(&text)?)
        }
        IdCommand::Decode { id, output } => decode(id, output, printer),
        IdCommand::Prefix { device, date } => Ok(printer.line(&prefix(device, date)?)?),
    }
}

fn decode(id: &str, output: &ValueOutputFlags, printer: &mut Printer) -> anyhow::Result<()> {
    let order = ["device_id", "t_star", "t_star_ms", "text", "bytes", "uuid"];
    // A UUID contains only a hash of the device, so forms that name the device are null.
    let (trip, uuid, t_star_ms) = match AnyId::parse(id)? {
        AnyId::Trip(trip) => {
            let (uuid, t_star_ms) = (trip.uuid().ok(), trip.t_star_ms);
            (Some(trip), uuid, t_star_ms)
        }
        AnyId::Uuid(uuid) => (None, Some(uuid.uuid()), uuid.t_star_ms),
    };
    let forms = serde_json::json!({
        "device_id": trip.as_ref().map(|trip| trip.device_id.as_str()),
        "t_star": format_time(t_star_ms.ms()),
        "t_star_ms": t_star_ms,
        "text": trip.as_ref().and_then(|trip| trip.text().ok()),
        "bytes": trip.as_ref().map(TripId::key_text),
        "uuid": uuid.map(|uuid| uuid.to_string()),
    });
    printer.object(&forms, &order, printer.format(output))
}
