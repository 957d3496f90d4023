//! `trips`: lists the trips of a device, or of all devices on a day.

use crate::identity::{check_device_id, date_range, prefix_range};
use crate::model::time::{parse_day, parse_time};
use crate::ops::InvalidRequest;
use crate::store::{DeviceScope, Order, TripRow, TripStore};
use crate::timeline::DAY_MS;
use clap::{Args, ValueEnum};

use super::devices::PAGE;
use super::flags::{Format, OutputFlags, PathFlag, ServerFlags};
use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar trips truck-17
  tstar trips truck-17 --from 2026-11-20T21:00:00Z --to 2026-11-20T22:00:00Z
  tstar trips truck-17 --prefix 202611 --format csv
  tstar trips truck-17 --order desc --limit 1 --json
  tstar trips --day 2026-11-20 --format geojson

--from and --to select trips that overlap the range, both ends inclusive; --prefix selects by the
t_star in the id. --day includes trips that started on the day before and touch it.";

/// Flags of `trips`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TripsArgs {
    /// Device id
    #[arg(required_unless_present = "day", conflicts_with = "day")]
    pub device: Option<String>,
    /// Trips of all devices that touch this UTC day
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub day: Option<String>,
    /// Only trips that end at this time or later
    #[arg(long, value_name = "TIME", conflicts_with = "day", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Only trips that start at this time or before
    #[arg(long, value_name = "TIME", conflicts_with = "day", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Only trips whose id has this year, month, day or hour
    #[arg(long, value_name = "DATE", conflicts_with_all = ["day", "from", "to"])]
    pub prefix: Option<String>,
    /// Sort by start time
    #[arg(long, value_enum, default_value = "asc")]
    pub order: OrderFlag,
    /// Print at most N trips
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Order by start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderFlag {
    /// Earliest first
    Asc,
    /// Latest first
    Desc,
}

impl From<OrderFlag> for Order {
    fn from(flag: OrderFlag) -> Self {
        match flag {
            OrderFlag::Asc => Self::Asc,
            OrderFlag::Desc => Self::Desc,
        }
    }
}

/// Prints the selected trips. No trip is an empty list, not an error.
pub async fn run<S: TripStore>(
    store: &S,
    args: &TripsArgs,
    printer: &mut Printer<'_>,
) -> anyhow::Result<()> {
    let format = printer.format(&args.output);
    args.path.check(format)?;
    let rows = match (&args.device, &args.day) {
        (Some(device), _) => {
            check_device_id(device)?;
            trips_of_device(store, device, args).await?
        }
        (None, Some(day)) => {
            let with_path = args.path.path || matches!(format, Format::Geojson | Format::Gpx);
            trips_of_day(store, parse_day(day)?, args, with_path).await?
        }
        (None, None) => return Err(InvalidRequest("pass a DEVICE or --day".into()).into()),
    };
    printer.list(&rows, format, args.path.path)
}

async fn trips_of_device<S: TripStore>(
    store: &S,
    device: &str,
    args: &TripsArgs,
) -> anyhow::Result<Vec<TripRow>> {
    let limit = args.limit.unwrap_or(usize::MAX);
    let order = args.order.into();
    let Some(prefix) = &args.prefix else {
        let from_ms = args.from.as_deref().map(parse_time).transpose()?.unwrap_or(i64::MIN);
        let upto_ms = args.to.as_deref().map(parse_time).transpose()?.unwrap_or(i64::MAX);
        if upto_ms < from_ms {
            return Err(InvalidRequest("--from is later than --to; swap them".into()).into());
        }
        return Ok(store.range(device, from_ms, upto_ms, order, limit).await?);
    };
    let (from_ms, upto_ms) = prefix_times(device, prefix)?;
    // A trip contains its t_star, so every selected trip overlaps the time of the prefix.
    let mut rows = store.range(device, from_ms, upto_ms, order, usize::MAX).await?;
    rows.retain(|row| (from_ms..=upto_ms).contains(&row.t_star_ms));
    rows.truncate(limit);
    Ok(rows)
}

/// The range of times, both ends inclusive, of a date or of an id prefix as `tstar id prefix`
/// prints it.
fn prefix_times(device: &str, prefix: &str) -> anyhow::Result<(i64, i64)> {
    if !prefix.contains('~') {
        return Ok(date_range(prefix)?);
    }
    let (owner, from_ms, upto_ms) = prefix_range(prefix)?;
    if owner != device {
        let problem = format!("prefix `{prefix}` belongs to device `{owner}`, not to `{device}`");
        return Err(InvalidRequest(problem).into());
    }
    Ok((from_ms, upto_ms))
}

/// Trips of all devices that touch a day, sorted together. Paths are dropped unless they are
/// printed, because all rows stay in memory until the last device is read.
async fn trips_of_day<S: TripStore>(
    store: &S,
    day: i64,
    args: &TripsArgs,
    with_path: bool,
) -> anyhow::Result<Vec<TripRow>> {
    let limit = args.limit.unwrap_or(usize::MAX);
    let order = args.order.into();
    let (from_ms, upto_ms) = (day * DAY_MS, day * DAY_MS + DAY_MS - 1);
    let mut found: Vec<TripRow> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let devices = store.devices(DeviceScope::OfDay(day), after.as_deref(), PAGE).await?;
        for device in &devices {
            let mut rows = store.range(device, from_ms, upto_ms, order, limit).await?;
            if !with_path {
                rows.iter_mut().for_each(|row| row.path = Vec::new());
            }
            found.append(&mut rows);
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            break;
        }
    }
    // The sort is stable: trips with the same start stay in device order.
    match order {
        Order::Asc => found.sort_by_key(|row| row.start_ms),
        Order::Desc => found.sort_by_key(|row| std::cmp::Reverse(row.start_ms)),
    }
    found.truncate(limit);
    Ok(found)
}
