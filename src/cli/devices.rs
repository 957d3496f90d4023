//! `devices`: lists the devices of a store.

use clap::Args;
use serde::Serialize;

use super::flags::{Context, ListOutputFlags, ServerFlags};
use super::print::{ListPrinter, Printer};
use crate::model::time::parse_day;
use crate::store::{DevicePages, DeviceScope};

const EXAMPLES: &str = "\
Examples:
  tstar devices
  tstar devices --day 2026-11-20 --format csv";

/// Flags of `devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DevicesArgs {
    /// Only devices with a trip that touches this UTC day
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub day: Option<String>,
    #[command(flatten)]
    pub output: ListOutputFlags,
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
    let store = context.settings(&[&args.server.0])?.reader().await?;
    let day = args.day.as_deref().map(parse_day).transpose()?;
    let scope = day.map_or(DeviceScope::All, DeviceScope::OfDay);
    let mut list = ListPrinter::new(printer.format(&args.output), ["device_id"]);
    let mut pages = DevicePages::new(&store, scope);
    while let Some(devices) = pages.next().await? {
        for device in devices {
            list.print::<DeviceJson, _>(device, |it| [it.clone()], printer)?;
        }
    }
    list.print_header(printer)?;
    list.finish(printer)
}
