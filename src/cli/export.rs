//! `export`: prints all trips, each once, by device id (in byte order), then start time.

use crate::identity::check_device_id;
use crate::ops::InvalidRequest;
use crate::store::{DeviceScope, Order, TripStore};
use crate::views::Extras;
use clap::Args;

use super::devices::PAGE;
use super::flags::{Format, OutputFlags, PathFlag, ServerFlags};
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar export
  tstar export --format csv
  tstar export --device truck-17 --format gpx
  tstar export --format ndjson --path";

/// Flags of `export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// Only the trips of this device
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Prints all trips, a device at a time, so that memory holds the trips of one device only.
pub async fn run<S: TripStore>(
    store: &S,
    args: &ExportArgs,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    // A table needs its widest row first, so the default is NDJSON, on a terminal, too.
    let format = args.output.format(Format::Ndjson);
    args.path.check(format)?;
    let Some(form) = format.form() else {
        let problem =
            "--format table is not supported by export; use ndjson, json, csv, geojson or gpx";
        return Err(InvalidRequest(problem.into()).into());
    };
    let mut writer = printer.writer(form, args.path.path);
    let none = Extras::default();
    if let Some(device) = &args.device {
        check_device_id(device)?;
        for row in store.range(device, i64::MIN, i64::MAX, Order::Asc, usize::MAX).await? {
            writer.write(&row, &none)?;
        }
        writer.finish()?;
        return Ok(());
    }
    let mut after: Option<String> = None;
    loop {
        let devices = store.devices(DeviceScope::All, after.as_deref(), PAGE).await?;
        for device in &devices {
            for row in store.range(device, i64::MIN, i64::MAX, Order::Asc, usize::MAX).await? {
                writer.write(&row, &none)?;
            }
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            break;
        }
    }
    writer.finish()?;
    Ok(())
}
