//! `devices`: lists the devices of a store.

use crate::model::time::parse_day;
use crate::ops::InvalidRequest;
use crate::store::{DeviceScope, TripStore};
use clap::Args;

use super::flags::{Format, OutputFlags, ServerFlags};
use super::print::Printer;
use super::table;

/// Devices per query.
pub const PAGE: usize = 1000;

const EXAMPLES: &str = "\
Examples:
  tstar devices
  tstar devices --day 2026-11-20 --format csv";

/// Flags of `devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DevicesArgs {
    /// Only devices with a trip that touches this UTC day
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub day: Option<String>,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Prints the devices in byte order, a page at a time.
pub async fn run<S: TripStore>(
    store: &S,
    args: &DevicesArgs,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    if matches!(format, Format::Geojson | Format::Gpx) {
        return Err(InvalidRequest("--format must be table, ndjson, json or csv".into()).into());
    }
    let day = args.day.as_deref().map(parse_day).transpose()?;
    let scope = day.map_or(DeviceScope::All, DeviceScope::OfDay);
    printer.write(match format {
        Format::Json => b"[".as_slice(),
        Format::Csv => b"device_id\n",
        _ => b"",
    })?;
    let (mut after, mut printed): (Option<String>, u64) = (None, 0);
    loop {
        let devices = store.devices(scope, after.as_deref(), PAGE).await?;
        // One table per page, so that memory holds one page only.
        if format == Format::Table && (!devices.is_empty() || printed == 0) {
            printer.line(&table::column("device_id", &devices))?;
        }
        for device in &devices {
            print(device, format, printed, printer)?;
            printed += 1;
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            break;
        }
    }
    if format == Format::Json {
        printer.line(if printed == 0 { "]" } else { "\n]" })?;
    }
    Ok(())
}

fn print(
    device: &str,
    format: Format,
    printed: u64,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let object = || serde_json::json!({ "device_id": device }).to_string();
    match format {
        Format::Json => {
            printer.write(if printed == 0 { b"\n".as_slice() } else { b",\n" })?;
            printer.write(object().as_bytes())?;
        }
        Format::Csv => {
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record([device])?;
            printer.write(&writer.into_inner()?)?;
        }
        Format::Ndjson => printer.line(&object())?,
        _ => (),
    }
    Ok(())
}
