//! `trips`: lists the trips of a device, or of all devices on a day.

use clap::{Args, ValueEnum};

use super::exit;
use super::flags::{
    Context, FilterFlags, KindFlag, OutputFlags, PathFlag, ServerFlags, SpanFlags, ZoneFlag,
};
use super::print::Printer;
use super::usage::at_least;
use crate::identity::DeviceId;
use crate::model::visible::visible;
use crate::model::zone::Zone;
use crate::ops::lookup::of_store;
use crate::ops::trip_filter::TripFilter;
use crate::ops::trip_list;
use crate::ops::{BadData, InvalidRequest, silence, tags};
use crate::store::skip::{Missing, collecting};
use crate::store::{AnyStore, Kinds, Order, TripRow};
use crate::views::{Extras, PathRule, TagValues, tag_values};

const EXAMPLES: &str = "\
Examples:
  tstar trips truck-17
  tstar trips truck-17 --from 2026-11-20T21:00:00Z --to 2026-11-20T22:00:00Z
  tstar trips truck-17 --prefix 202611 --format csv
  tstar trips truck-17 --order desc --limit 1 --json
  tstar trips truck-17 --day 2026-11-20
  tstar trips --day 2026-11-20 --format geojson
  tstar trips --day 2026-11-20 --tz Europe/Berlin --format csv

--from and --to select trips that overlap the range, both ends inclusive; --prefix selects by the
t_star in the id. --day includes trips that started on the day before and touch it.";

/// Flags of `trips`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("day", |it| it.help("Only trips that touch this day; without a device, of all devices"))
)]
pub(crate) struct TripsArgs {
    /// Device id
    #[arg(required_unless_present = "day")]
    pub device: Option<String>,
    #[command(flatten)]
    pub span: SpanFlags,
    #[command(flatten)]
    pub kind: KindFlag,
    /// Sort by start time
    #[arg(long, value_enum, default_value = "asc")]
    pub order: OrderFlag,
    /// Print at most N trips
    #[arg(long, value_name = "N", value_parser = at_least(1_usize))]
    pub limit: Option<usize>,
    /// Add the time and the way from the trip or stop before, which no sample shows
    #[arg(long, requires = "device")]
    pub silence: bool,
    #[command(flatten)]
    pub filter: FilterFlags,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(flatten)]
    pub path: PathFlag,
    #[command(flatten)]
    pub zone: ZoneFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Order by start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderFlag {
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

/// Prints the selected trips. A device that the store knows may have none.
pub(crate) async fn run(
    args: &TripsArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.zone.0, &args.server.0])?;
    let (store, zone) = (settings.reader().await?, settings.tz);
    let format = printer.format(&args.output);
    args.path.check(format)?;
    let (order, limit) = (args.order.into(), args.limit.unwrap_or(usize::MAX));
    let filter = args.filter.filter();
    let read_limit = if filter == TripFilter::default() { limit } else { usize::MAX };
    let mut missing = Missing::default();
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let rows = match (&device, &args.span.day) {
        (Some(device), _) => {
            let rows = args.of_device(&store, device, read_limit, zone, &mut missing).await?;
            if rows.is_empty() {
                trip_list::check_known(&store, device).await?;
            }
            rows
        }
        (None, Some(day)) => {
            let with_path = args.path.path
                || format.form().is_some_and(|form| form.spec().path == PathRule::Always);
            let day = zone.day(day)?;
            let rows = trip_list::of_day(&store, args.kind.kind, day, order, read_limit, with_path);
            let (rows, skipped) = collecting(rows).await;
            let rows = rows?;
            missing.add(skipped, day.span(), &rows);
            rows
        }
        (None, None) => return Err(InvalidRequest("pass a DEVICE or --day".into()).into()),
    };
    if rows.is_empty() && missing.problem().is_none() {
        args.report_none(&store, device.as_ref(), zone).await?;
    }
    let tags = tags::of_rows(&store, &rows).await?;
    let tagged = rows.into_iter().zip(tags);
    let wanted = tagged.filter(|(row, tags)| filter.accepts(row, tags));
    let extras = |tags| Extras::tagged(tag_values(&tags));
    let mut rows: Vec<_> = wanted.take(limit).map(|(row, tags)| (row, extras(tags))).collect();
    let mut expected = Extras::tagged(TagValues::new());
    if let Some(device) = device.filter(|_| args.silence) {
        let alone: Vec<_> = rows.iter().map(|(row, _)| row).collect();
        let silences = silence::before_each(&of_store(&store), &device, &alone).await?;
        expected.set_silence(None);
        for ((_, extras), silence) in rows.iter_mut().zip(silences) {
            extras.set_silence(silence);
        }
    }
    printer.list(&rows, expected, format, (&args.path, zone))?;
    missing.problem().map_or(Ok(()), |problem| Err(BadData(problem).into()))
}

impl TripsArgs {
    /// The trips of a device that the flags select.
    async fn of_device(
        &self,
        store: &AnyStore,
        device: &DeviceId,
        limit: usize,
        zone: Zone,
        missing: &mut Missing,
    ) -> anyhow::Result<Vec<TripRow>> {
        let wanted = self.span.span(zone)?;
        let rows =
            trip_list::of_device(store, device, self.kind.kind, wanted, self.order.into(), limit);
        let (rows, skipped) = collecting(rows).await;
        let rows = rows?;
        missing.add(skipped, wanted.span(device)?, &rows);
        Ok(rows)
    }

    /// Reports that there are no trips, as the exit code is that of a list with trips, and the days
    /// around that have some.
    async fn report_none(
        &self,
        store: &AnyStore,
        device: Option<&DeviceId>,
        zone: Zone,
    ) -> anyhow::Result<()> {
        let (span, of) = match device {
            Some(device) => {
                let name = visible(device.as_str());
                (self.span.span(zone)?.span(device)?, format!(" of device `{name}`"))
            }
            None => (zone.day(self.span.day.as_deref().unwrap_or_default())?.span(), String::new()),
        };
        let when = match (&self.span.day, &self.span.prefix) {
            (Some(day), _) => format!(" touches {day} ({zone})"),
            (None, Some(prefix)) => format!(" has an id of {prefix}"),
            (None, None) => " overlaps these times".to_owned(),
        };
        let around = trip_list::times_around(store, device, self.kind.kind, span).await?;
        let one = self.kind.kind.noun();
        let what = match self.kind.kind {
            Kinds::Trips => "trips",
            Kinds::Stops => "stops",
            Kinds::All => "trips or stops",
        };
        let around: Vec<_> =
            around.into_iter().flatten().map(|time_ms| zone.day_of(time_ms).to_string()).collect();
        let around = match around.as_slice() {
            [] => String::new(),
            days => format!("; days with {what} around: {}", days.join(" and ")),
        };
        exit::print_status(&format!("no {one}{of}{when}{around}"));
        Ok(())
    }
}
