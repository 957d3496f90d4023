//! `demo`: simulates a fleet, builds its trips and looks some up whose ids late samples changed.

use std::path::{Path, PathBuf};

use super::flags::{Context, Format, PathFlag, clock_ms};
use super::print::Printer;
use super::report::{Counts as _, Summary};
use super::{ingest, serve};
use crate::model::scalar::DeviceTime;
use crate::model::time::format_time;
use crate::model::zone::Zone;
use crate::ops::InvalidRequest;
use crate::ops::demo::{FLEET, MergedTrip, SplitTrip, write_samples};
use crate::ops::demo_live::{LiveFleet, fleet_until};
use crate::ops::demo_map::write_streets;
use crate::settings::{Origin, Settings};
use crate::simulate::{Fleet, FleetSettings, START_MS};
use crate::store::{AnyStore, EmbeddedStore, TripRow};
use crate::views::Extras;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tstar demo

Writes tstar-demo.ndjson.gz (the samples, in arrival order), tstar-demo.db (their trips) and
tstar-demo.pmtiles (the streets of the town), and replaces them each time. On a terminal it then
serves the page on 127.0.0.1:8080 until Ctrl-C, and the fleet drives on: late bursts join and split
trips as you watch. Set TSTAR_LISTEN, or listen in tstar.toml, to another address or to off.";

const SAMPLES: &str = "tstar-demo.ndjson.gz";
const STORE: &str = "tstar-demo.db";
const STREETS: &str = "tstar-demo.pmtiles";

/// Simulates a fleet, builds its trips and looks one up.
pub(crate) async fn run(context: &Context, printer: &mut Printer) -> anyhow::Result<()> {
    let settings = context.settings(&[])?;
    if let Some(Origin::Flag { .. }) = settings.origins.get("store") {
        let problem = format!("demo writes to its own store, sqlite:{STORE}; leave out --store");
        return Err(InvalidRequest(problem).into());
    }
    let settings = Settings { store: format!("sqlite:{STORE}"), ..settings };
    let settings = with_streets(settings)?;
    EmbeddedStore::remove(Path::new(STORE))?;
    let FleetSettings { devices, samples, .. } = FLEET;
    printer.line(&format!(
        "{devices} vans, buses and trucks send {samples} samples: late, in bursts, newest first, \
         twice.\n\
         The samples in arrival order: {SAMPLES}\n"
    ))?;
    let is_live = printer.is_terminal() && settings.http.listen.is_some();
    let mut fleet = match is_live {
        true => fleet_until(DeviceTime(clock_ms()))?,
        false => Fleet::town(&FLEET, START_MS)?,
    };
    write_samples(Path::new(SAMPLES), &mut fleet)?;
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
    if is_live {
        serve::after_demo(&settings, LiveFleet::new(fleet, store, &settings)?).await?;
    }
    Ok(())
}

/// Writes the streets of the town, and shows them under the trips unless another map is set.
fn with_streets(mut settings: Settings) -> anyhow::Result<Settings> {
    write_streets(Path::new(STREETS), &FLEET)?;
    if settings.http.tiles.is_none() && settings.http.basemap.is_empty() {
        settings.http.basemap = STREETS.to_owned();
    }
    Ok(settings)
}

/// Looks up a merged trip, by a time and by a retired id, and a split one.
async fn show_lookups(store: &AnyStore, printer: &mut Printer) -> anyhow::Result<()> {
    let mut show = |what: &str, command: String, (row, extras): (TripRow, Extras)| {
        printer.line(&format!("\n{what}:\n  {command} --store sqlite:{STORE}\n"))?;
        printer.answer(&row, &extras, Format::Table, (&PathFlag::default(), Zone::UTC))
    };
    if let Some(merged) = MergedTrip::find(store).await? {
        let time = format_time(merged.covered_ms.ms());
        let by_time = format!("tstar lookup {} {time}", merged.device_id);
        show("A trip by a time that it covers", by_time, merged.by_time(store).await?)?;
        let by_id = format!("tstar trip {}", merged.retired_id);
        let what = "The same trip by an id that a merge retired";
        show(what, by_id, merged.by_retired_id(store).await?)?;
    }
    if let Some(split) = SplitTrip::find(store).await? {
        let what = format!(
            "A late sample has split a trip. The part with its first samples has kept its id,\n\
             the other is now {}",
            split.new_id
        );
        show(&what, format!("tstar trip {}", split.kept_id), split.kept(store).await?)?;
    }
    Ok(())
}
