//! `devices`: lists the devices of a store.

use clap::Args;

use super::flags::{Context, Format, ServerFlags, format_parser};
use super::print::{JsonList, Printer};
use super::table;
use crate::model::time::parse_day;
use crate::store::{DevicePages, DeviceScope};

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
    /// Output format [default: table on a terminal, else ndjson]
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(&FORMATS))]
    pub format: Option<Format>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Formats of lists of devices.
const FORMATS: [Format; 4] = [Format::Table, Format::Ndjson, Format::Json, Format::Csv];

/// Prints the devices in byte order, a page at a time.
pub async fn run(
    args: &DevicesArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = context.settings(&[&args.server.0])?.reader().await?;
    let format = args.json.then_some(Format::Json).or(args.format);
    let format = format.unwrap_or(printer.default_format());
    let day = args.day.as_deref().map(parse_day).transpose()?;
    let scope = day.map_or(DeviceScope::All, DeviceScope::OfDay);
    if format == Format::Csv {
        printer.line("device_id")?;
    }
    let (mut objects, mut tables) = (JsonList::new(format), 0);
    let mut pages = DevicePages::new(&store, scope);
    while let Some(devices) = pages.next().await? {
        match format {
            // One table per page, so that memory holds one page only.
            Format::Table => {
                printer.line(&table::column("device_id", devices))?;
                tables += 1;
            }
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(Vec::new());
                devices.iter().try_for_each(|device| writer.write_record([device]))?;
                printer.write(&writer.into_inner()?)?;
            }
            _ => {
                for device in devices {
                    objects.print(&serde_json::json!({ "device_id": device }), printer)?;
                }
            }
        }
    }
    if format == Format::Table && tables == 0 {
        printer.line(&table::column("device_id", Vec::new()))?;
    }
    objects.finish(printer)
}
