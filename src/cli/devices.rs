//! `devices`: lists the devices of a store.

use clap::Args;
use serde::Serialize;

use super::flags::{Context, Format, ListOutputFlags, ServerFlags, ZoneFlag};
use super::print::{ListPrinter, Printer};
use crate::ops::tags;
use crate::ops::trip_list::devices_of_day;
use crate::store::{AnyStore, DevicePages, DeviceScope};
use crate::views::{TagValues, tag_values};

const EXAMPLES: &str = "\
Examples:
  tstar devices
  tstar devices --day 2026-11-20 --format csv";

/// Devices of a day that are read at once.
const PAGE: usize = 1000;

/// Flags of `devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevicesArgs {
    /// Only devices with a trip or stop that touches this day
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub day: Option<String>,
    #[command(flatten)]
    pub output: ListOutputFlags,
    #[command(flatten)]
    pub zone: ZoneFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// A line of the list.
#[derive(Serialize)]
struct DeviceJson {
    device_id: String,
    tags: TagValues,
}

/// The cells of a line; the tags as JSON in CSV, as for trips.
fn cells(device: &DeviceJson, format: Format) -> [String; 2] {
    let pairs = device.tags.iter().map(|(key, value)| format!("{key}={value}"));
    let tags = match format {
        Format::Csv if !device.tags.is_empty() => {
            serde_json::to_string(&device.tags).expect("tags are plain data")
        }
        _ => pairs.collect::<Vec<_>>().join(", "),
    };
    [device.device_id.clone(), tags]
}

/// Prints the devices in byte order, a page at a time.
pub(crate) async fn run(
    args: &DevicesArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.zone.0, &args.server.0])?;
    let store = settings.reader().await?;
    let day = args.day.as_deref().map(|day| settings.tz.day(day)).transpose()?;
    let format = printer.format(&args.output);
    let mut list = ListPrinter::new(format, ["device_id", "tags"]).hiding_empty();
    if let Some(day) = day {
        let mut after = None;
        loop {
            let devices = devices_of_day(&store, day, after.as_deref(), PAGE).await?;
            let Some(last) = devices.last() else { break };
            after = Some(last.clone());
            print(&store, devices, (&mut list, format), printer).await?;
        }
    } else {
        let mut pages = DevicePages::new(&store, DeviceScope::All);
        while let Some(devices) = pages.next().await? {
            print(&store, devices, (&mut list, format), printer).await?;
        }
    }
    list.print_header(printer)?;
    list.finish(printer)
}

/// Prints a page of devices with their tags.
async fn print(
    store: &AnyStore,
    mut devices: Vec<String>,
    (list, format): (&mut ListPrinter<2>, Format),
    printer: &mut Printer,
) -> anyhow::Result<()> {
    while !devices.is_empty() {
        let tags = tags::of_devices(store, &devices).await?;
        for (device_id, tags) in devices.drain(..tags.len()).zip(tags) {
            let device = DeviceJson { device_id, tags: tag_values(&tags) };
            list.print::<DeviceJson, _>(device, |device| cells(device, format), printer)?;
        }
    }
    Ok(())
}
