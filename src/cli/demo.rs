//! `demo`: simulates a fleet, builds its trips and looks one up by a retired id.

use std::path::{Path, PathBuf};

use super::flags::{Context, Format, PathFlag};
use super::print::Printer;
use super::report::{Counts as _, Summary};
use super::{ingest, serve};
use crate::model::time::format_time;
use crate::ops::InvalidRequest;
use crate::ops::demo::{FLEET, MergedTrip, write_samples};
use crate::settings::{Origin, Settings};
use crate::simulate::FleetSettings;
use crate::store::{AnyStore, EmbeddedStore};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tstar demo

Writes tstar-demo.ndjson.gz (the samples, in arrival order) and tstar-demo.db (their trips), and
replaces both each time. On a terminal it then serves the page on 127.0.0.1:8080 until Ctrl-C; set
TSTAR_LISTEN, or listen in tstar.toml, to another address or to off.";

const SAMPLES: &str = "tstar-demo.ndjson.gz";
const STORE: &str = "tstar-demo.db";

/// Simulates a fleet, builds its trips and looks one up.
pub(crate) async fn run(context: &Context, printer: &mut Printer) -> anyhow::Result<()> {
    let settings = context.settings(&[])?;
    if let Some(Origin::Flag { .. }) = settings.origins.get("store") {
        let problem = format!("demo writes to its own store, sqlite:{STORE}; leave out --store");
        return Err(InvalidRequest(problem).into());
    }
    let settings = Settings { store: format!("sqlite:{STORE}"), ..settings };
    EmbeddedStore::remove(Path::new(STORE))?;
    let FleetSettings { devices, samples, .. } = FLEET;
    printer.line(&format!(
        "{devices} devices send {samples} samples: late, in bursts, newest first, twice.\n\
         The samples in arrival order: {SAMPLES}\n"
    ))?;
    write_samples(Path::new(SAMPLES))?;
    let files = [PathBuf::from(SAMPLES)];
    let outcome = ingest::import(&files, &settings).await?;
    if let Some(error) = outcome.stopped {
        return Err(error);
    }
    printer.line(&Summary::new(&outcome.counts, Some(outcome.trips)).table())?;
    let store = settings.reader().await?;
    show_lookups(&store, printer).await?;
    printer.line(&format!(
        "\nTry next:\n  tstar devices --store sqlite:{STORE}\n  \
         tstar export --format geojson --store sqlite:{STORE}\n  \
         tstar dlq ls --store sqlite:{STORE}\n  \
         tstar serve --store sqlite:{STORE}"
    ))?;
    printer.flush()?;
    if printer.is_terminal() {
        serve::after_demo(&settings).await?;
    }
    Ok(())
}

/// Looks up a merged trip, by a time and by a retired id.
async fn show_lookups(store: &AnyStore, printer: &mut Printer) -> anyhow::Result<()> {
    let Some(merged) = MergedTrip::find(store).await? else { return Ok(()) };
    let time = format_time(merged.covered_ms.ms());
    printer.line("\nA trip by a time that it covers:")?;
    printer
        .line(&format!("  tstar lookup {} {time} --store sqlite:{STORE}\n", merged.device_id))?;
    let (row, extras) = merged.by_time(store).await?;
    printer.answer(&row, &extras, Format::Table, &PathFlag::default())?;
    printer.line("\nThe same trip by an id that a merge retired:")?;
    printer.line(&format!("  tstar trip {} --store sqlite:{STORE}\n", merged.retired_id))?;
    let (row, extras) = merged.by_retired_id(store).await?;
    printer.answer(&row, &extras, Format::Table, &PathFlag::default())
}
