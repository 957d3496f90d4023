//! `lookup` and `trip`: one trip, by a time or by an id.

use clap::Args;
use tstar::identity::{AnyId, UuidId, check_device_id};
use tstar::moment::{format_time, parse_time};
use tstar::settings::Settings;
use tstar::store::{StoreError, TripRow, TripStore, was_erased};
use tstar::surface::{Extras, Match, is_open};
use tstar::timeline::day_of;

use super::devices::PAGE;
use super::exit::NoResult;
use super::flags::{OutputFlags, PathFlag, ReaderFlags, ServerFlags};
use super::print::Printer;

const LOOKUP_EXAMPLES: &str = "\
Examples:
  tstar lookup truck-17 2026-11-20T21:38:00Z
  tstar lookup truck-17 2026-11-20T22:38:00+01:00 --json
  tstar lookup truck-17 1795210680000 --format geojson

Prints nothing and exits 1 where no trip covers the time; the reason begins with `gone` where the
device's trips up to a later time were erased (tstar forget).";

const TRIP_EXAMPLES: &str = "\
Examples:
  tstar trip truck-17~20261120T213800.123Z
  tstar trip ehp7aorb5koje040000q3un52stg --json
  tstar trip 01a1fae5-173b-8152-8ed4-88d4aacc8ddd --json --path

Prints nothing and exits 1 where no trip covers the time of the id; the reason begins with `gone`
where the device's trips up to a later time were erased (tstar forget). A UUID names no device: of
one that is not found it cannot be told whether it was erased.";

/// Flags of `lookup`.
#[derive(Debug, Args)]
#[command(after_help = LOOKUP_EXAMPLES)]
pub struct LookupArgs {
    /// Device id
    pub device: String,
    /// RFC 3339 with any offset, or ms since 1970
    #[arg(allow_negative_numbers = true)]
    pub time: String,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub reader: ReaderFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of `trip`.
#[derive(Debug, Args)]
#[command(after_help = TRIP_EXAMPLES)]
pub struct TripArgs {
    /// Trip id: text, bytes (base32hex) or UUID
    pub id: String,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub reader: ReaderFlags,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Prints the trip of a device that covers a time.
pub async fn lookup<S: TripStore>(
    store: &S,
    args: &LookupArgs,
    settings: &Settings,
    now_ms: i64,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    args.path.check(format)?;
    check_device_id(&args.device)?;
    let time_ms = parse_time(&args.time)?;
    let Some(row) = store.covering(&args.device, time_ms).await? else {
        let (device, time) = (&args.device, format_time(time_ms));
        let unknown = format!("no trip of device `{device}` covers {time}");
        return Err(gone(store, device, time_ms).await?.unwrap_or(NoResult(unknown)).into());
    };
    let open = is_open(&row, settings.max_gap_ms, settings.settle_ms, now_ms);
    let extras = Extras { open: Some(open), ..Extras::default() };
    printer.answer(&row, &extras, format, args.path.path)
}

/// The trip that an id finds.
pub struct Found {
    /// The trip.
    pub row: TripRow,
    /// The time of the id, ms.
    pub t_star_ms: i64,
    /// How that lies in the trip.
    pub matched: Match,
}

/// Finds the trip that covers the time of an id of any form.
pub async fn find<S: TripStore>(store: &S, id: &str) -> anyhow::Result<Found> {
    let (found, t_star_ms, device) = match AnyId::parse(id)? {
        AnyId::Trip(id) => {
            let found = store.covering(&id.device_id, id.t_star_ms).await?;
            (found, id.t_star_ms, Some(id.device_id))
        }
        AnyId::Uuid(id) => (covering_uuid(store, &id).await?, id.t_star_ms, None),
    };
    let Some(row) = found else {
        let time = format_time(t_star_ms);
        let unknown = format!("no trip has the id `{id}`: none of its device covers {time}");
        let gone = match device {
            Some(device) => gone(store, &device, t_star_ms).await?,
            None => None,
        };
        return Err(gone.unwrap_or(NoResult(unknown)).into());
    };
    Ok(Found { matched: Match::of(t_star_ms, &row), row, t_star_ms })
}

/// Prints the trip that covers the time of an id.
pub async fn trip<S: TripStore>(
    store: &S,
    args: &TripArgs,
    settings: &Settings,
    now_ms: i64,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    args.path.check(format)?;
    let Found { row, matched, .. } = find(store, &args.id).await?;
    let extras = Extras {
        open: Some(is_open(&row, settings.max_gap_ms, settings.settle_ms, now_ms)),
        requested_id: Some(args.id.clone()),
        matched: Some(matched),
        merged: Some(matched == Match::Retired),
    };
    printer.answer(&row, &extras, format, args.path.path)
}

/// Why nothing covers a time, where that is because trips were erased.
async fn gone<S: TripStore>(
    store: &S,
    device: &str,
    time_ms: i64,
) -> Result<Option<NoResult>, StoreError> {
    let forget = was_erased(store, device, time_ms).await?;
    Ok(forget.map(|forget| {
        let before = format_time(forget.before_ms);
        let what = format!("the trips of {device} before {before} were erased (tstar forget)");
        NoResult(format!("gone: {what}"))
    }))
}

/// The trip of a UUID. It holds a hash of the device alone, but its time names a day that the trip
/// touches, a retired id's too, and the store lists the devices of a day.
async fn covering_uuid<S: TripStore>(
    store: &S,
    id: &UuidId,
) -> Result<Option<TripRow>, StoreError> {
    let day = Some(day_of(id.t_star_ms));
    let mut after: Option<String> = None;
    loop {
        let devices = store.devices(day, after.as_deref(), PAGE).await?;
        if let Some(device) = devices.iter().find(|device| id.matches(device, id.t_star_ms)) {
            return store.covering(device, id.t_star_ms).await;
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            return Ok(None);
        }
    }
}
