//! Route of sums over trips.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Call;
use super::descriptions::ZoneParam;
use super::examples::DEVICE;
use super::params::Moment;
use super::problem::Problem;
use super::trips::no_device;
use crate::identity::DeviceId;
use crate::ops::lookup::of_store;
use crate::ops::summary::{
    SummaryError, SummaryKey, SummaryRequest, SummaryRow, Sums, SumsJson, sum_up,
};
use crate::ops::trip_list;

/// A summary of trips and stops.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct SummaryAnswer {
    /// A row for each key, ordered by it.
    rows: Vec<SummaryRow>,
    /// All trips and stops together.
    total: SumsJson,
    /// Number of trips and stops of the span that the sums lack, as their rows are malformed.
    skipped: u64,
}

impl From<SummaryError> for Problem {
    fn from(error: SummaryError) -> Self {
        match error {
            SummaryError::Store(error) => error.into(),
            SummaryError::TooManySegments | SummaryError::TooManyRows => Self::fault("to", error),
        }
    }
}

/// Sums over the trips and stops of a span: by device, driver or day. One counts with the part of
/// it that lies in the span, and in each day with its part.
#[utoipa::path(get, path = "/v1/summary", tag = "trips", operation_id = "summary",
    params(
        ("by" = Option<String>, Query, pattern = "^(device|driver|day)$", description = "Rows: device, driver or day (default)"),
        ("from" = Option<Moment>, Query, description = "Start of the span; with `to`"),
        ("to" = Option<Moment>, Query, description = "End of the span, at most 31 days after `from`"),
        ("day" = Option<String>, Query, format = "date", description = "Day, instead of `from` and `to`", example = "2026-11-20"),
        ("device" = Option<String>, Query, min_length = 1, max_length = 256, pattern = r"^[^\x00]*$",
            description = "Only trips and stops of this device", example = "truck-17"),
        ZoneParam,
    ),
    responses(
        (status = 200, description = "The sums", body = SummaryAnswer, example = json!(example())),
        (status = 400, description = "The request is not valid, or there are more than 200,000 trips and stops, or 10,000 rows or 1 MiB of keys; `faults` lists every fault"),
        (status = 404, description = "The device is not known (`no_device`)", body = Problem, example = json!(no_device(DEVICE))),
        (status = 503, description = "The server is computing four other summaries (`busy`)"),
    ))]
pub(crate) async fn summary(mut call: Call) -> Result<Json<SummaryAnswer>, Problem> {
    let params = &mut call.params;
    let zone = params.zone();
    let span = params.fleet_span(zone);
    let by = params.read("by", SummaryKey::from_name);
    let device = params.read("device", |text| DeviceId::new(text));
    params.finish()?;
    let span = span.expect("it has no fault").ends_of_sums();
    let Ok(_turn) = call.app.summaries.try_acquire() else {
        let detail = "the server is computing other summaries; retry after them";
        return Err(Problem::busy("summaries", detail));
    };
    let store = call.app.store()?;
    if let Some(device) = &device
        && !trip_list::is_known(&of_store(&store), device).await?
    {
        return Err(no_device(device));
    }
    let device = device.map(DeviceId::into_string);
    let request = SummaryRequest { span, device, by: by.unwrap_or(SummaryKey::Day), zone };
    let found = sum_up(&store, &request).await?;
    let (total, skipped) = (SumsJson::new(&found.total), found.missing.trips);
    Ok(Json(SummaryAnswer { rows: found.json(), total, skipped }))
}

/// An example of sums by day.
fn example() -> SummaryAnswer {
    let (duration_ms, moving_ms, idle_ms) = (720_000, 690_000, 30_000);
    let (standing_ms, parked_ms) = (600_000, 3_000_000);
    let (trips, distance_dm) = (1, 1569);
    let sums = Sums { trips, distance_dm, duration_ms, moving_ms, idle_ms, standing_ms, parked_ms };
    let total = SumsJson::new(&sums);
    let row = SummaryRow { key: Some("2026-11-20".to_owned()), sums: total.clone() };
    SummaryAnswer { rows: vec![row], total, skipped: 0 }
}
