//! `summary`: sums over the trips and stops of a span.

use clap::Args;

use super::flags::{Context, Format, ListOutputFlags, ServerFlags, ZoneFlag};
use super::print::{ListPrinter, Printer};
use super::table;
use super::times::parse_range;
use crate::identity::DeviceId;
use crate::model::scalar::{DAY_MS, DeviceTime};
use crate::model::zone::{CLOCKS_BACK_MS, Zone};
use crate::ops::summary::{
    SUMMARY_COLUMNS, SummaryError, SummaryKey, SummaryRequest, SummaryRow, SumsJson, sum_up,
};
use crate::ops::{BadData, InvalidRequest, trip_list};

const EXAMPLES: &str = "\
Examples:
  tstar summary --day 2026-11-20
  tstar summary --by driver --from 2026-11-01 --to 2026-12-01 --tz Europe/Berlin --format csv
  tstar summary --device truck-17 --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z

A trip or stop counts with the part of it that lies in the span, and in each day with its part: so
sums of days are those of trips. A trip is counted on the day on which it starts. A table has the
total in its last line.";

/// Maximum number of days of a span.
const MAX_DAYS: i64 = 366;

/// Flags of `summary`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SummaryArgs {
    /// One row for each day, device or driver
    #[arg(long, value_name = "KEY", default_value = "day", value_parser = SummaryKey::from_name)]
    pub by: SummaryKey,
    /// This day
    #[arg(long, value_name = "YYYY-MM-DD", required_unless_present_any = ["from", "to"])]
    pub day: Option<String>,
    /// From this time on
    #[arg(long, value_name = "TIME", conflicts_with = "day", requires = "to")]
    pub from: Option<String>,
    /// Up to this time, of a date its first moment, at most 366 days after --from
    #[arg(long, value_name = "TIME", conflicts_with = "day", requires = "from")]
    pub to: Option<String>,
    /// Only trips and stops of this device
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    #[command(flatten)]
    pub output: ListOutputFlags,
    #[command(flatten)]
    pub zone: ZoneFlag,
    #[command(flatten)]
    pub server: ServerFlags,
}

impl SummaryArgs {
    /// The span, both ends inclusive.
    fn span(&self, zone: Zone) -> anyhow::Result<(DeviceTime, DeviceTime)> {
        if let Some(day) = &self.day {
            return Ok(zone.day(day)?.span());
        }
        let span = match parse_range(self.from.as_deref(), self.to.as_deref(), zone)? {
            (Some(from_ms), Some(to_ms)) => {
                (DeviceTime(from_ms), DeviceTime(to_ms).saturating_sub(1))
            }
            _ => return Err(InvalidRequest("pass --day, or --from and --to".into()).into()),
        };
        if span.1.ms().saturating_sub(span.0.ms()) > MAX_DAYS * DAY_MS + CLOCKS_BACK_MS {
            let problem = format!("--to is more than {MAX_DAYS} days after --from");
            return Err(InvalidRequest(problem).into());
        }
        Ok(span)
    }
}

/// Prints the sums of a span.
pub(crate) async fn run(
    args: &SummaryArgs,
    context: &Context,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let settings = context.settings(&[&args.zone.0, &args.server.0])?;
    let zone = settings.tz;
    let device = args.device.as_deref().map(DeviceId::new).transpose()?;
    let span = args.span(zone)?;
    let store = settings.reader().await?;
    if let Some(device) = &device {
        trip_list::check_known(&store, device).await?;
    }
    let device = device.map(DeviceId::into_string);
    let request = SummaryRequest { span, device, by: args.by, zone };
    let found = sum_up(&store, &request).await.map_err(|error| match error {
        SummaryError::Store(error) => anyhow::Error::from(error),
        too_many => InvalidRequest(too_many.to_string()).into(),
    })?;
    let mut rows = found.json();
    let format = printer.format(&args.output);
    if format == Format::Table {
        rows.push(SummaryRow { key: Some("total".into()), sums: SumsJson::new(&found.total) });
        let cells: Vec<_> = rows.iter().map(SummaryRow::cells).collect();
        let numbers: Vec<_> = (1..SUMMARY_COLUMNS.len()).collect();
        printer.line(&table::rows(SUMMARY_COLUMNS, &numbers, &cells))?;
    } else {
        let mut list = ListPrinter::new(format, SUMMARY_COLUMNS);
        for row in rows {
            list.print::<SummaryRow, _>(row, SummaryRow::cells, printer)?;
        }
        list.print_header(printer)?;
        list.finish(printer)?;
    }
    found.missing.problem().map_or(Ok(()), |problem| Err(BadData(problem).into()))
}
