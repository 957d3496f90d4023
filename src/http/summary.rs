//! Route of sums over trips.

use axum::Json;
use serde::Serialize;
use tokio::sync::SemaphorePermit;
use utoipa::ToSchema;

use super::access::Access;
use super::app::{App, MAX_SUMMARIES};
use super::call::Call;
use super::clients::{ClientKey, ClientSlot, Peer};
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
        (status = 503, description = "The server is computing four other summaries, or two of this client (`busy`)"),
    ))]
pub(crate) async fn summary(mut call: Call) -> Result<Json<SummaryAnswer>, Problem> {
    let params = &mut call.params;
    let zone = params.zone();
    let span = params.fleet_span(zone);
    let by = params.read("by", SummaryKey::from_name);
    let device = params.read("device", |text| DeviceId::new(text));
    params.finish()?;
    let span = span.expect("it has no fault").ends_of_sums();
    let _turn = call.app.summary_turn(&call.access, call.peer)?;
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

impl App {
    /// Counts a summary of a client: of a token, or of an address without one. A client leaves half
    /// of them to others.
    fn summary_turn(&self, access: &Access, peer: Peer) -> Result<Turn<'_>, Problem> {
        const HALF: usize = MAX_SUMMARIES / 2;
        let (client, limit) = match access.token() {
            Some(token) => (ClientKey::Token(token.key()), HALF),
            None => (ClientKey::Network(peer.network()), peer.limit(0, MAX_SUMMARIES).max(HALF)),
        };
        let busy = || {
            let detail = "the server is computing other summaries; retry after them";
            Problem::busy("summaries", detail)
        };
        let slot = self.client_summaries.acquire(client, limit).ok_or_else(busy)?;
        Ok((slot, self.summaries.try_acquire().map_err(|_| busy())?))
    }
}

/// What a summary that is being computed holds: the place of its client, and that of all.
type Turn<'a> = (ClientSlot<ClientKey>, SemaphorePermit<'a>);

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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::http::app::Options;
    use crate::settings::Settings;

    #[test]
    fn summaries_are_few_and_a_client_leaves_half_to_others() {
        let settings = Settings::default();
        let options = Options { tokens: None, tls: None, basemap: None, settings };
        let app = App::new(options, || 0);
        let turn = |address: [u8; 4]| {
            app.summary_turn(&Access::Open, Peer(IpAddr::from(address))).map_err(|it| it.code())
        };
        let first = [turn([192, 0, 2, 7]), turn([192, 0, 2, 7])];
        assert!(first.iter().all(Result::is_ok));
        assert_eq!(turn([192, 0, 2, 7]).err(), Some("busy"));
        let others = [turn([192, 0, 2, 8]), turn([192, 0, 2, 9])];
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(turn([192, 0, 2, 10]).err(), Some("busy"), "of all clients");
        drop(others);
        // A proxy on this machine has many clients.
        let proxy = [turn([127, 0, 0, 1]), turn([127, 0, 0, 1])];
        assert!(proxy.iter().all(Result::is_ok));
        drop((first, proxy));
        let proxy = [0; MAX_SUMMARIES].map(|_| turn([127, 0, 0, 1]));
        assert!(proxy.iter().all(Result::is_ok));
    }
}
