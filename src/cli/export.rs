//! `export`: prints all trips, each once, by device id (in byte order), then start time.

use std::io::Write;

use clap::Args;

use super::flags::{Context, Format, OutputFlags, PathFlag, ServerFlags};
use super::open;
use super::print::Printer;
use crate::identity::DeviceId;
use crate::model::scalar::DeviceTime;
use crate::ops::InvalidRequest;
use crate::store::{AnyStore, DevicePages, DeviceScope, Order, TripStore};
use crate::views::{Extras, Form, TripWriter, enumerated};

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
pub async fn run(
    args: &ExportArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let store = open::reader(&context.settings(&[&args.server.0])?.0, context).await?;
    // A table needs its widest row first, so the default is NDJSON, on a terminal, too.
    let format = args.output.format(Format::Ndjson);
    args.path.check(format)?;
    let Some(form) = format.form() else {
        let forms = enumerated(&Form::names(|_| true), "or");
        let problem = format!("--format table is not supported by export; use {forms}");
        return Err(InvalidRequest(problem).into());
    };
    let mut writer = printer.writer(form, args.path.path);
    if let Some(device) = &args.device {
        write_trips(&store, &DeviceId::new(device)?, &mut writer).await?;
    } else {
        let mut pages = DevicePages::new(&store, DeviceScope::All);
        while let Some(devices) = pages.next().await? {
            for device in &devices {
                write_trips(&store, device, &mut writer).await?;
            }
        }
    }
    writer.finish()?;
    Ok(())
}

async fn write_trips(
    store: &AnyStore,
    device: &str,
    writer: &mut TripWriter<&mut dyn Write>,
) -> anyhow::Result<()> {
    for row in store.range(device, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, usize::MAX).await?
    {
        writer.write(&row, &Extras::default())?;
    }
    Ok(())
}
