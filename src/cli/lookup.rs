//! `lookup` and `trip`: one trip, by a time or by an id.

use crate::identity::{AnyId, check_device_id};
use crate::model::time::{format_time, parse_time};
use crate::ops::NoResult;
use crate::settings::Settings;
use crate::store::{self, Forget, LookupResult, TripRow, TripStore};
use crate::views::{Extras, Match, is_open};
use clap::Args;

use super::flags::{OutputFlags, PathFlag, ReaderFlags, ServerFlags};
use super::print::Printer;

const LOOKUP_EXAMPLES: &str = "\
Examples:
  tstar lookup truck-17 2026-11-20T21:38:00Z
  tstar lookup truck-17 2026-11-20T22:38:00+01:00 --json
  tstar lookup truck-17 1795210680000 --format geojson

Prints nothing and exits 1 if no trip covers the time; the message starts with `gone` if the
device's trips up to a later time were erased (tstar forget).";

const TRIP_EXAMPLES: &str = "\
Examples:
  tstar trip truck-17~20261120T213800.123Z
  tstar trip ehp7aorb5koje040000q3un52stg --json
  tstar trip 01a1fae5-173b-8152-8ed4-88d4aacc8ddd --json --path

Prints nothing and exits 1 if no trip covers the time of the id; the message starts with `gone` if
the device's trips up to a later time were erased (tstar forget). A UUID contains no device id, so
a UUID that is not found may or may not have been erased.";

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
    let row = match store::find_at(store, &args.device, time_ms).await? {
        LookupResult::Trip(row) => row,
        LookupResult::Gone { device_id, forget } => return Err(gone(&device_id, &forget).into()),
        LookupResult::Unknown => {
            let (device, time) = (&args.device, format_time(time_ms));
            let unknown = format!("no trip of device `{device}` covers {time}");
            return Err(NoResult(unknown).into());
        }
    };
    let open = is_open(&row, settings.max_gap_ms, settings.settle_ms, now_ms);
    let extras = Extras { open: Some(open), ..Extras::default() };
    printer.answer(&row, &extras, format, args.path.path)
}

/// The result of a lookup by id.
pub struct FoundTrip {
    pub row: TripRow,
    /// `t_star` of the id, ms.
    pub t_star_ms: i64,
    /// How `t_star_ms` matches the trip.
    pub matched: Match,
}

/// Finds the trip that covers the time of an id of any form.
pub async fn find<S: TripStore>(store: &S, id: &str) -> anyhow::Result<FoundTrip> {
    let parsed = AnyId::parse(id)?;
    let t_star_ms = parsed.t_star_ms();
    match store::find(store, &parsed).await? {
        LookupResult::Trip(row) => {
            Ok(FoundTrip { matched: Match::classify(t_star_ms, &row), row: *row, t_star_ms })
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget).into()),
        LookupResult::Unknown => {
            let time = format_time(t_star_ms);
            let unknown = format!("no trip has the id `{id}`: no trip of its device covers {time}");
            Err(NoResult(unknown).into())
        }
    }
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
    let FoundTrip { row, matched, .. } = find(store, &args.id).await?;
    let extras = Extras {
        open: Some(is_open(&row, settings.max_gap_ms, settings.settle_ms, now_ms)),
        requested_id: Some(args.id.clone()),
        matched: Some(matched),
        merged: Some(matched == Match::Retired),
    };
    printer.answer(&row, &extras, format, args.path.path)
}

/// The error for a time whose trips were erased.
fn gone(device: &str, forget: &Forget) -> NoResult {
    let before = format_time(forget.before_ms);
    NoResult(format!("gone: the trips of {device} before {before} were erased (tstar forget)"))
}
