//! `lookup` and `trip`: one trip, by a time or by an id.

use clap::Args;

use super::flags::{Context, KindFlag, OutputFlags, PathFlag, ReaderFlags, ServerFlags, ZoneFlag};
use super::print::Printer;
use super::times::SECONDS_SINCE_2001;
use crate::identity::DeviceId;
use crate::model::time::format_time;
use crate::model::zone::Zone;
use crate::ops::NoResult;
use crate::ops::lookup::{self, FoundTrip};
use crate::ops::tags;
use crate::store::{AnyStore, TripRow};
use crate::views::{Extras, Match, is_open};

const LOOKUP_EXAMPLES: &str = "\
Examples:
  tstar lookup truck-17 2026-11-20T21:38:00Z
  tstar lookup truck-17 2026-11-20T22:38:00+01:00 --json
  tstar lookup truck-17 1795210680000 --format geojson
  tstar lookup truck-17 2026-11-20T21:38:00Z --kind all

Prints nothing and exits 1 if no trip covers the time; the message starts with `gone` if the
device's trips up to a later time were erased (tstar forget). With --kind stop or all, also a stop.";

const TRIP_EXAMPLES: &str = "\
Examples:
  tstar trip truck-17~20261120T213800.123Z
  tstar trip ehp7aorb5koje040000q3un52stg --json
  tstar trip 01a1fae5-173b-8152-8ed4-88d4aacc8ddd --json --path

Prints nothing and exits 1 if no trip covers the time of the id; the message starts with `gone` if
the device's trips up to a later time were erased (tstar forget). A UUID contains no device id, so
a UUID that is not found may or may not have been erased. With --kind stop or all, also a stop.";

/// Flags of `lookup`.
#[derive(Debug, Args)]
#[command(after_help = LOOKUP_EXAMPLES)]
pub(crate) struct LookupArgs {
    /// Device id
    pub device: String,
    /// RFC 3339 with any offset, or without one in the zone of --tz, or ms since 1970
    #[arg(allow_negative_numbers = true)]
    pub time: String,
    #[command(flatten)]
    trip: TripFlags,
}

/// Flags of `trip`.
#[derive(Debug, Args)]
#[command(after_help = TRIP_EXAMPLES)]
pub(crate) struct TripArgs {
    /// Trip id: text, bytes (base32hex) or UUID
    pub id: String,
    #[command(flatten)]
    trip: TripFlags,
}

/// How one trip is read and printed.
#[derive(Debug, Args)]
struct TripFlags {
    #[command(flatten)]
    kind: KindFlag,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    path: PathFlag,
    #[command(flatten)]
    reader: ReaderFlags,
    #[command(flatten)]
    zone: ZoneFlag,
    #[command(flatten)]
    server: ServerFlags,
}

impl TripFlags {
    /// Prints the trip that `find` finds, with what it adds to the trip.
    async fn print(
        &self,
        find: impl AsyncFnOnce(&AnyStore, Zone) -> anyhow::Result<(TripRow, Extras)>,
        context: &Context,
        printer: &mut Printer,
    ) -> anyhow::Result<()> {
        let settings = context.settings(&[&self.reader.0, &self.zone.0, &self.server.0])?;
        let store = settings.reader().await?;
        // That of the store goes before that of the settings.
        let rules = store.rules().await?;
        let max_gap_ms = rules.map_or(settings.max_gap_ms, |rules| rules.max_gap_ms);
        let format = printer.format(&self.output);
        self.path.check(format)?;
        let (row, extras) = find(&store, settings.tz).await?;
        let tags = tags::values(&store, &row).await?;
        let open = is_open(&row, max_gap_ms, settings.settle_ms, settings.now_ms);
        let extras = Extras { tags: Some(tags), open: Some(open), ..extras };
        printer.answer(&row, &extras, format, (&self.path, settings.tz))
    }
}

/// Prints the trip of a device that covers a time.
pub(crate) async fn lookup(
    args: &LookupArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let find = async |store: &AnyStore, zone: Zone| {
        let device = DeviceId::new(&args.device)?;
        let at = (&device, zone.parse_time(&args.time)?);
        let row = lookup::by_time(store, at, args.trip.kind.kind, zone).await;
        let row = row.map_err(|error| with_unit_hint(error, &args.time))?;
        Ok((row, Extras::default()))
    };
    args.trip.print(find, context, printer).await
}

/// Adds a hint to the error of a lookup without a result if its time looks like seconds.
fn with_unit_hint(error: anyhow::Error, time: &str) -> anyhow::Error {
    let seconds = time.parse().ok().filter(|number| SECONDS_SINCE_2001.contains(number));
    match (error.downcast::<NoResult>(), seconds) {
        (Ok(NoResult(message)), Some(seconds)) => {
            let ms = seconds * 1000;
            let meant = format_time(ms);
            let hint = format!("{time} is read as ms; in seconds it would be {meant}, {ms} in ms");
            NoResult(format!("{message}; {hint}")).into()
        }
        (Ok(none), None) => none.into(),
        (Err(error), _) => error,
    }
}

/// Prints the trip that covers the time of an id.
pub(crate) async fn trip(
    args: &TripArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let find = async |store: &AnyStore, _| {
        let FoundTrip { row, matched, .. } =
            lookup::by_id(store, &args.id, args.trip.kind.kind).await?;
        let extras = Extras {
            requested_id: Some(args.id.clone()),
            matched: Some(matched),
            merged: Some(matched == Match::Retired),
            ..Extras::default()
        };
        Ok((*row, extras))
    };
    args.trip.print(find, context, printer).await
}
