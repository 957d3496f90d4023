//! `demo`: a fleet whose samples arrive out of order, its trips, and what their ids are worth.

use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tstar::identity::TripId;
use tstar::model::time::format_time;
use tstar::ops::simulate::write_lines;
use tstar::settings::Settings;
use tstar::simulate::FleetSettings;
use tstar::store::{
    AnyStore, DeviceScope, EmbeddedStore, Order, StoreError, TripRow, TripStore, files,
};
use tstar::views::{Extras, Match};

use super::flags::{Context, Format};
use super::ingest;
use super::open;
use super::print::Printer;
use super::report::Summary;
use super::serve;

pub const EXAMPLES: &str = "\
Examples:
  tstar demo

Writes tstar-demo.ndjson.gz (the samples, in order of arrival) and tstar-demo.db (their trips), both
made anew each time. On a terminal it ends with the page on 127.0.0.1:8080 (TSTAR_LISTEN, or listen
in tstar.toml, names another address, or off), until Ctrl-C.";

const SAMPLES: &str = "tstar-demo.ndjson.gz";
const STORE: &str = "tstar-demo.db";

const FLEET: FleetSettings = FleetSettings {
    devices: 50,
    samples: 200_000,
    seed: 17,
    mix: [46.0, 34.0, 19.0, 1.0],
    bad: 0.001,
};

/// Simulates, builds, shows.
pub async fn run(context: &Context, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let (settings, _) = context.settings(&[])?;
    let settings = Settings { store: format!("sqlite:{STORE}"), ..settings };
    EmbeddedStore::remove(Path::new(STORE))?;
    let FleetSettings { devices, samples, .. } = FLEET;
    printer.line(&format!(
        "{devices} devices send {samples} samples: late, in bursts, newest first, twice.\n\
         The samples in order of arrival: {SAMPLES}\n"
    ))?;
    write_samples(Path::new(SAMPLES))?;
    let files = [PathBuf::from(SAMPLES)];
    let imported = ingest::import(&files, &settings, context).await?;
    if let Some(error) = imported.stopped {
        return Err(error);
    }
    printer.line(&Summary::new(&imported.counts, Some(imported.trips)).table())?;
    let store = open::reader(&settings, context).await?;
    show_lookups(&store, printer).await?;
    printer.line(&format!(
        "\nGo on with it:\n  tstar devices --store sqlite:{STORE}\n  \
         tstar export --format geojson --store sqlite:{STORE}\n  \
         tstar dlq ls --store sqlite:{STORE}\n  \
         tstar serve --store sqlite:{STORE}"
    ))?;
    printer.flush()?;
    if printer.is_terminal() {
        serve::after_demo(&settings, context).await?;
    }
    Ok(())
}

fn write_samples(path: &Path) -> anyhow::Result<()> {
    // A run that is stopped leaves no half of a file under the name.
    files::replace(path, |file| {
        let mut gzip = GzEncoder::new(BufWriter::new(file), Compression::fast());
        write_lines(&FLEET, &mut gzip).map_err(io::Error::other)?;
        gzip.finish()?.flush()
    })?;
    Ok(())
}

/// Looks a merged trip up, by a time and by the id that the merge retired.
async fn show_lookups(store: &AnyStore, printer: &mut Printer<'_>) -> anyhow::Result<()> {
    let Some(row) = merged_trip(store).await? else { return Ok(()) };
    let (device, middle_ms) = (&row.device_id, row.start_ms.midpoint(row.end_ms));
    let time = format_time(middle_ms);
    printer.line("\nA trip by a time that it covers:")?;
    printer.line(&format!("  tstar lookup {device} {time} --store sqlite:{STORE}\n"))?;
    show(store, middle_ms, None, &row, printer).await?;
    let retired_ms = *row.absorbed.keys().next().expect("the trip has absorbed another");
    let retired = TripId::new(device.as_str(), retired_ms)?.text()?;
    printer.line("\nThe same trip by an id that a merge retired:")?;
    printer.line(&format!("  tstar trip {retired} --store sqlite:{STORE}\n"))?;
    show(store, retired_ms, Some(retired), &row, printer).await
}

async fn show(
    store: &AnyStore,
    time_ms: i64,
    requested_id: Option<String>,
    expected: &TripRow,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let found = store.covering(&expected.device_id, time_ms).await?;
    let row = found.ok_or_else(|| anyhow::anyhow!("the demo's trip is gone from {STORE}"))?;
    let matched = requested_id.as_ref().map(|_| Match::classify(time_ms, &row));
    let merged = matched.map(|matched| matched == Match::Retired);
    let extras = Extras { requested_id, matched, merged, ..Extras::default() };
    printer.answer(&row, &extras, Format::Table, false)
}

async fn merged_trip(store: &AnyStore) -> Result<Option<TripRow>, StoreError> {
    for device in store.devices(DeviceScope::All, None, usize::MAX).await? {
        let trips = store.range(&device, i64::MIN, i64::MAX, Order::Asc, usize::MAX).await?;
        if let Some(merged) = trips.into_iter().find(|trip| !trip.absorbed.is_empty()) {
            return Ok(Some(merged));
        }
    }
    Ok(None)
}
