//! `devices`: lists the devices of a store.

use clap::Args;
use serde::Serialize;

use super::flags::{Context, ListOutputFlags, ServerFlags, ZoneFlag};
use super::print::{ListPrinter, Printer};
use crate::ops::trip_list::devices_of_day;
use crate::store::{DevicePages, DeviceScope};

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
}

impl From<String> for DeviceJson {
    fn from(device_id: String) -> Self {
        Self { device_id }
    }
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
    let mut list = ListPrinter::new(printer.format(&args.output), ["device_id"]);
    let mut print = |devices: Vec<String>, printer: &mut Printer| {
        let mut devices = devices.into_iter();
        devices.try_for_each(|it| list.print::<DeviceJson, _>(it, |it| [it.clone()], printer))
    };
    if let Some(day) = day {
        let mut after = None;
        loop {
            let devices = devices_of_day(&store, day, after.as_deref(), PAGE).await?;
            let Some(last) = devices.last() else { break };
            after = Some(last.clone());
            print(devices, printer)?;
        }
    } else {
        let mut pages = DevicePages::new(&store, DeviceScope::All);
        while let Some(devices) = pages.next().await? {
            print(devices, printer)?;
        }
    }
    list.print_header(printer)?;
    list.finish(printer)
}
