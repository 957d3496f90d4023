//! Route of sums over trips.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Call;
use super::descriptions::ZoneParam;
use super::params::Moment;
use super::problem::Problem;
use crate::identity::DeviceId;
use crate::ops::summary::{SummaryError, SummaryKey, SummaryRequest, Sums, sum_up};

/// Sums over trips.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct SumsJson {
    /// Number of trips.
    trips: u64,
    /// Distance, m, to 0.1.
    distance_m: f64,
    /// Duration, s.
    duration_s: f64,
    /// How long they move, s: those of which a sample has a speed.
    moving_s: f64,
    /// How long these stand and the ignition is not off, s.
    idle_s: f64,
}

/// The sums of a device, driver or day.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct SummaryRow {
    /// Device id, driver, or day; null: trips without a driver.
    key: Option<String>,
    /// The sums.
    #[serde(flatten)]
    sums: SumsJson,
}

/// A summary of trips.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct SummaryAnswer {
    /// A row for each key, ordered by it.
    rows: Vec<SummaryRow>,
    /// All trips together.
    total: SumsJson,
    /// Number of trips of the span that the sums lack, as their rows are malformed.
    skipped: u64,
}

impl SumsJson {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn new(sums: &Sums) -> Self {
        Self {
            trips: sums.trips,
            distance_m: sums.distance_dm as f64 / 10.0,
            duration_s: sums.duration_ms as f64 / 1e3,
            moving_s: sums.moving_ms as f64 / 1e3,
            idle_s: sums.idle_ms as f64 / 1e3,
        }
    }
}

impl From<SummaryError> for Problem {
    fn from(error: SummaryError) -> Self {
        match error {
            SummaryError::Store(error) => error.into(),
            SummaryError::TooManyTrips | SummaryError::TooManyRows => Self::fault("to", error),
        }
    }
}

/// Sums over the trips that start in a span: by device, driver or day.
#[utoipa::path(get, path = "/v1/summary", tag = "trips", operation_id = "summary",
    params(
        ("by" = Option<String>, Query, pattern = "^(device|driver|day)$", description = "Rows: device, driver or day (default)"),
        ("from" = Option<Moment>, Query, description = "Only trips that start at this time or later; with `to`"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier, at most 31 days after `from`"),
        ("day" = Option<String>, Query, format = "date", description = "Day, instead of `from` and `to`", example = "2026-11-20"),
        ("device" = Option<String>, Query, min_length = 1, max_length = 256, pattern = r"^[^\x00]*$",
            description = "Only trips of this device", example = "truck-17"),
        ZoneParam,
    ),
    responses(
        (status = 200, description = "The sums", body = SummaryAnswer, example = json!(example())),
        (status = 400, description = "The request is not valid, or there are more than 100,000 trips or 10,000 rows; `faults` lists every fault"),
    ))]
pub(crate) async fn summary(mut call: Call) -> Result<Json<SummaryAnswer>, Problem> {
    let params = &mut call.params;
    let zone = params.zone();
    let span = params.fleet_span(zone);
    let by = params.read("by", |text| match text {
        "device" => Ok(SummaryKey::Device),
        "driver" => Ok(SummaryKey::Driver),
        "day" => Ok(SummaryKey::Day),
        other => Err(format!("`{other}` is not device, driver or day")),
    });
    let device = params.read("device", |text| DeviceId::new(text)).map(DeviceId::into_string);
    params.finish()?;
    let span = span.expect("it has no fault");
    let request = SummaryRequest { span, device, by: by.unwrap_or(SummaryKey::Day), zone };
    let found = sum_up(&*call.app.store()?, &request).await?;
    let row = |(key, sums): (&Option<String>, &Sums)| SummaryRow {
        key: key.clone(),
        sums: SumsJson::new(sums),
    };
    let rows = found.rows.iter().map(row).collect();
    let (total, skipped) = (SumsJson::new(&found.total), found.missing.trips);
    Ok(Json(SummaryAnswer { rows, total, skipped }))
}

/// An example of sums by day.
fn example() -> SummaryAnswer {
    let (duration_ms, moving_ms, idle_ms) = (720_000, 690_000, 30_000);
    let sums = Sums { trips: 1, distance_dm: 1569, duration_ms, moving_ms, idle_ms };
    let total = SumsJson::new(&sums);
    let row = SummaryRow { key: Some("2026-11-20".to_owned()), sums: total.clone() };
    SummaryAnswer { rows: vec![row], total, skipped: 0 }
}
