//! Routes for trips: by time, by id, and in lists.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::App;
use super::body::{Limited, MAX_LOOKUP};
use super::fresh::{Fresh, find, of_store, require};
use super::params::{Moment, Params};
use super::problem::{ParamError, Problem};
use super::trip_response::{
    MAX_LIST, TripAnswer, TripPage, approximate_size, split_format, with_header,
};
use crate::identity::{DeviceId, TripId};
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::{format_time, parse_time};
use crate::store::fresh::{FreshLookup, FreshRow};
use crate::store::{DeviceScope, Forget, LookupResult, Order, StoreError, TripStore as _};
use crate::telemetry::LOOKUP_DURATION;
use crate::timeline::DAY_MS;
use crate::views::{Extras, Form, Match};

/// Maximum pairs of a request.
pub const MAX_PAIRS: usize = 1000;

/// Rows read at once; all of their paths are in memory.
const CHUNK: usize = 50;

/// Devices of a day read at once.
const DEVICES: usize = 100;

type Shared = State<Arc<App>>;

/// A device and a time to look up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    /// Device id.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00]*$", example = "truck-17")]
    device: String,
    /// RFC 3339 with any offset, or ms since 1970.
    #[schema(value_type = Moment)]
    at: serde_json::Value,
}

/// Pairs of device and time to look up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    /// At most 1000.
    #[schema(max_items = 1000)]
    pairs: Vec<Pair>,
}

/// The answer to one pair.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PairAnswer {
    /// The trip that covers the time; null if there is none.
    trip: Option<TripAnswer>,
    /// Why there is no trip: `no_trip` or `gone`; null if there is one.
    code: Option<&'static str>,
}

/// Answers to the pairs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PairAnswers {
    /// In the order of the pairs.
    answers: Vec<PairAnswer>,
}

/// The trip of a device that covers a time.
#[utoipa::path(get, path = "/v1/trips/lookup", tag = "trips", operation_id = "lookup",
    params(
        ("device" = String, Query, min_length = 1, max_length = 256, pattern = r"^[^\x00]*$",
            description = "Device id", example = "truck-17"),
        ("at" = Moment, Query, description = "RFC 3339 with any offset, or ms since 1970",
            example = "2026-11-20T21:38:00Z"),
        ("path" = Option<bool>, Query, description = "Include the samples as `path`"),
        ("simplify" = Option<f64>, Query, exclusive_minimum = 0.0, maximum = 1e6,
            description = "Omit samples of the path within this distance, in metres, of the line through the others"),
        ("min_version" = Option<i64>, Query, minimum = 0,
            description = "The answer has to include this version, `version` of an earlier answer; else 503, `not_yet`"),
    ),
    responses(
        (status = 200, description = "The trip", body = TripAnswer),
        (status = 304, description = "Not modified since the `ETag` in `If-None-Match`"),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No trip covers the time; `previous` and `next` are the nearest trips",
            body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "The trips of that time were erased",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The server is over a limit, the store is unavailable, or the answer may lack `min_version` (`not_yet`); see `Retry-After`",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn lookup(
    State(app): Shared,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (device, at_ms, detail) = (params.device(), params.required_time("at"), params.detail());
    let min_version = params.min_version();
    params.finish()?;
    let device = device.expect("it has no fault");
    let store = app.store()?;
    let store = app.fresh(&store);
    let found = find_at(&store, &device, at_ms).await?;
    require(min_version, |version| found.covers(version))?;
    match found.result {
        LookupResult::Trip(row) => {
            let extras = Extras { fresh: found.is_fresh.then_some(true), ..Extras::default() };
            app.trip_response(row, extras, (Form::Json, detail), &headers).await
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget)),
        LookupResult::Unknown => {
            let at = format_time(at_ms.ms());
            let detail = format!("no trip of device `{device}` covers {at}");
            let (before, after) = store.neighbours(&device, at_ms).await?;
            let item = |found: Option<FreshRow>| {
                found.map(|found| app.list_item(&found.row, found.is_fresh)).transpose()
            };
            Err(Problem::new(StatusCode::NOT_FOUND, "no_trip", detail)
                .with("previous", item(before)?)
                .with("next", item(after)?))
        }
    }
}

/// Looks up a time of a device, and records how long it takes.
async fn find_at(
    store: &Fresh<'_>,
    device: &DeviceId,
    at_ms: DeviceTime,
) -> Result<FreshLookup, StoreError> {
    let began = Instant::now();
    let found = store.find_at(device, at_ms).await;
    let result = match found.as_ref().map(|found| &found.result) {
        Ok(LookupResult::Trip(_)) => "found",
        Ok(LookupResult::Gone { .. }) => "gone",
        Ok(LookupResult::Unknown) => "none",
        Err(_) => "failed",
    };
    metrics::histogram!(LOOKUP_DURATION, "result" => result).record(began.elapsed().as_secs_f64());
    found
}

pub(super) fn gone(device_id: &str, forget: &Forget) -> Problem {
    let before = format_time(forget.before_ms.ms());
    let detail = format!("the trips of device `{device_id}` before {before} were erased");
    Problem::new(StatusCode::GONE, "gone", detail)
}

/// Looks up many pairs of device and time.
#[utoipa::path(post, path = "/v1/trips/lookup", tag = "trips", operation_id = "lookupMany",
    request_body = Pairs,
    responses(
        (status = 200, description = "An answer for each pair, in the order of the pairs", body = PairAnswers),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn lookup_many(
    State(app): Shared,
    params: Params,
    body: Limited<MAX_LOOKUP>,
) -> Result<Response, Problem> {
    params.finish()?;
    let pairs = read_pairs(&body.bytes)?;
    // Frees the body, but holds the permit until the end of the request.
    let _permit = body.permit;
    let store = app.store()?;
    let store = app.fresh(&store);
    let (mut answers, mut bytes) = (Vec::with_capacity(pairs.len()), 0);
    for (device, at_ms) in &pairs {
        let found = find_at(&store, device, *at_ms).await?;
        answers.push(match found.result {
            LookupResult::Trip(row) => {
                bytes += approximate_size(&row);
                if bytes > MAX_LIST {
                    return Err(Problem::large_answer());
                }
                let trip = Some(app.list_item(&row, found.is_fresh)?);
                PairAnswer { trip, code: None }
            }
            LookupResult::Gone { .. } => PairAnswer { trip: None, code: Some("gone") },
            LookupResult::Unknown => PairAnswer { trip: None, code: Some("no_trip") },
        });
    }
    Ok(Json(PairAnswers { answers }).into_response())
}

/// Formats a float without a fractional part as an integer.
fn as_integer(value: &serde_json::Value) -> Option<String> {
    // 2^53: larger floats cannot represent every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|number| value.is_f64() && number.abs() < EXACT)?;
    (number.fract() == 0.0).then(|| format!("{number:.0}"))
}

fn read_pairs(body: &[u8]) -> Result<Vec<(DeviceId, DeviceTime)>, Problem> {
    let parsed: Result<Pairs, _> = serde_json::from_slice(body);
    let Pairs { pairs } =
        parsed.map_err(|error| Problem::faults(vec![ParamError::new("body", error)]))?;
    if pairs.len() > MAX_PAIRS {
        let problem = format!("{} pairs, more than {MAX_PAIRS}", pairs.len());
        return Err(Problem::faults(vec![ParamError::new("pairs", problem)]));
    }
    let (mut parsed, mut faults) = (Vec::with_capacity(pairs.len()), Vec::new());
    for (pair, nth) in pairs.into_iter().zip(0..) {
        let time = match &pair.at {
            serde_json::Value::String(text) => parse_time(text),
            // In JSON, 1 and 1.0 are the same number.
            other => parse_time(&as_integer(other).unwrap_or_else(|| other.to_string())),
        };
        let device = DeviceId::new(pair.device).map_err(|error| {
            faults.push(ParamError::new(format!("pairs[{nth}].device"), error));
        });
        let time = time.map_err(|error| {
            faults.push(ParamError::new(format!("pairs[{nth}].at"), error));
        });
        parsed.extend(device.ok().zip(time.ok().map(DeviceTime)));
    }
    if faults.is_empty() { Ok(parsed) } else { Err(Problem::faults(faults)) }
}

/// The trip with an id, in any id form; retired ids work.
#[utoipa::path(get, path = "/v1/trips/{id}", tag = "trips", operation_id = "trip",
    params(
        ("id" = String, Path,
            description = "Text, key or UUID form",
            example = "truck-17~20261120T213800.123Z"),
        ("path" = Option<bool>, Query, description = "Include the samples as `path`"),
        ("simplify" = Option<f64>, Query, exclusive_minimum = 0.0, maximum = 1e6,
            description = "Omit samples of the path within this distance, in metres, of the line through the others"),
        ("min_version" = Option<i64>, Query, minimum = 0,
            description = "The answer has to include this version, `version` of an earlier answer; else 503, `not_yet`"),
    ),
    responses(
        (status = 200, description = "The trip; `match` is how the id relates to it",
            body = TripAnswer),
        (status = 304, description = "Not modified since the `ETag` in `If-None-Match`"),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No trip has the id (`no_trip`), or it is not a valid id (`bad_id`)",
            body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "The trip was erased",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The server is over a limit, the store is unavailable, or the answer may lack `min_version` (`not_yet`); see `Retry-After`",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn by_id(
    State(app): Shared,
    id: Result<Path<String>, PathRejection>,
    mut params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let segment = path_segment(id)?;
    let (id, form) = split_format(&segment);
    let (detail, min_version) = (params.detail(), params.min_version());
    params.finish()?;
    let found = find(&app, id, min_version).await?;
    let extras = Extras {
        requested_id: Some(id.to_owned()),
        matched: Some(found.matched),
        merged: Some(found.matched == Match::Retired),
        fresh: found.is_fresh.then_some(true),
        open: None,
    };
    let current = TripId::new(found.row.device_id.as_str(), found.row.t_star_ms)?.text()?;
    let url = format!("/v1/trips/{current}{}", &segment[id.len()..]);
    let response = app.trip_response(found.row, extras, (form, detail), &headers).await?;
    Ok(with_header(response, header::CONTENT_LOCATION, &url))
}

/// The variable segment of a URL path.
pub(super) fn path_segment(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    match path {
        Ok(Path(text)) => Ok(text),
        Err(error) => Err(Problem::faults(vec![ParamError::new("path", error)])),
    }
}

/// Trips of a device that overlap a span of time, ordered by start time.
#[utoipa::path(get, path = "/v1/devices/{token}/trips", tag = "trips", operation_id = "tripsOfDevice",
    params(
        ("token" = String, Path,
            description = "The device id; each byte other than A-Z a-z 0-9 . _ - is written as ~hh", example = "truck-17"),
        ("from" = Option<Moment>, Query, description = "Only trips that end at this time or later"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier"),
        ("order" = Option<String>, Query, pattern = "^(asc|desc)$", description = "Order by start time: asc (default) or desc"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum trips per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
        ("min_version" = Option<i64>, Query, minimum = 0,
            description = "The answer has to include this version, `version` of an earlier answer; else 503, `not_yet`"),
    ),
    responses(
        (status = 200, description = "A page; `Link` is the URL of the next", body = TripPage),
        (status = 404, description = "The device token or the cursor is not valid",
            body = Problem, content_type = "application/problem+json"),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The server is over a limit, the store is unavailable, or the answer may lack `min_version` (`not_yet`); see `Retry-After`",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn of_device(
    State(app): Shared,
    token: Result<Path<String>, PathRejection>,
    uri: Uri,
    mut params: Params,
) -> Result<Response, Problem> {
    let device = params.token(&path_segment(token)?);
    let ((mut from_ms, mut to_ms), order) = (params.span(), params.order());
    let (limit, cursor, min_version) = (params.limit(), params.cursor(), params.min_version());
    if let Some(cursor) = cursor {
        if device.as_ref() != Some(&cursor.device_id) {
            params.fault("cursor", "it is of another device");
        }
        // Trips of a device never overlap: those of earlier pages are before the cursor.
        match order {
            Order::Asc => from_ms = from_ms.max(cursor.t_star_ms),
            Order::Desc => to_ms = to_ms.min(cursor.t_star_ms),
        }
    }
    params.finish()?;
    let device = device.expect("it has no fault");
    let store = app.store()?;
    let mut page = Page::new(&app, app.fresh(&store), limit);
    page.fill(&device, (from_ms, to_ms), order).await?;
    require(min_version, |version| page.includes(version))?;
    Ok(page.answer(&uri))
}

/// Trips of all devices that touch a day, ordered by device and start time.
#[utoipa::path(get, path = "/v1/trips", tag = "trips", operation_id = "tripsOfDay",
    params(
        ("day" = String, Query, format = "date", description = "UTC day", example = "2026-11-20"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum trips per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page; `Link` is the URL of the next", body = TripPage),
        (status = 404, description = "The cursor is not valid",
            body = Problem, content_type = "application/problem+json"),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn of_day(State(app): Shared, uri: Uri, mut params: Params) -> Result<Response, Problem> {
    let day = params.day();
    if day.is_none() && !params.has_fault("day") {
        params.fault("day", "required for trips of all devices, such as 2026-11-20");
    }
    let (limit, cursor) = (params.limit(), params.cursor());
    params.finish()?;
    let day = day.unwrap_or_default();
    let span = (day.start_ms(), day.start_ms() + DAY_MS - 1);
    let store = app.store()?;
    let mut page = Page::new(&app, of_store(&store), limit);
    let mut after: Option<String> = None;
    if let Some(cursor) = cursor {
        page.fill(&cursor.device_id, (span.0.max(cursor.t_star_ms), span.1), Order::Asc).await?;
        after = Some(cursor.device_id.into_string());
    }
    while !page.is_full() {
        let devices = store.devices(DeviceScope::OfDay(day), after.as_deref(), DEVICES).await?;
        for device in &devices {
            page.fill(device, span, Order::Asc).await?;
        }
        after = devices.into_iter().next_back();
        if after.is_none() {
            break;
        }
    }
    Ok(page.answer(&uri))
}

/// A page under construction.
struct Page<'a> {
    app: &'a App,
    store: Fresh<'a>,
    limit: usize,
    trips: Vec<TripAnswer>,
    /// The trips include every record of the device before this version, if that is known.
    complete_before: Option<Version>,
    /// Approximate size of the trips in the answer.
    bytes: usize,
    /// Cursor of the next page, set when a trip does not fit on this one.
    next: Option<TripId>,
}

impl<'a> Page<'a> {
    fn new(app: &'a App, store: Fresh<'a>, limit: usize) -> Self {
        let (trips, complete_before) = (Vec::new(), Some(Version::MAX));
        Self { app, store, limit, trips, complete_before, bytes: 0, next: None }
    }

    /// Whether the page includes the record at a version.
    fn includes(&self, version: Version) -> bool {
        let has = |item: &TripAnswer| Version(item.trip.version) >= version;
        self.complete_before.is_some_and(|before| version < before) || self.trips.iter().any(has)
    }

    fn is_full(&self) -> bool {
        self.next.is_some()
    }

    /// Adds the trips of a device that overlap a span, until the page is full.
    async fn fill(
        &mut self,
        device: &str,
        (mut from_ms, mut to_ms): (DeviceTime, DeviceTime),
        order: Order,
    ) -> Result<(), Problem> {
        while !self.is_full() && from_ms <= to_ms {
            let found = self.store.range(device, (from_ms, to_ms), order, CHUNK).await?;
            self.complete_before = self.complete_before.min(found.complete_before);
            let rows = found.rows;
            for FreshRow { row, is_fresh } in &rows {
                if self.trips.len() == self.limit || self.bytes > MAX_LIST {
                    let t_star_ms = if order == Order::Asc { row.start_ms } else { row.end_ms };
                    self.next = Some(TripId { device_id: DeviceId::from_store(device), t_star_ms });
                    return Ok(());
                }
                self.bytes += approximate_size(row);
                self.trips.push(self.app.list_item(row, *is_fresh)?);
            }
            match (rows.last().map(|found| &found.row), order) {
                (Some(last), Order::Asc) if rows.len() == CHUNK => from_ms = last.end_ms + 1,
                (Some(last), Order::Desc) if rows.len() == CHUNK => to_ms = last.start_ms - 1,
                _ => break,
            }
        }
        Ok(())
    }

    fn answer(self, uri: &Uri) -> Response {
        let next = self.next.map(|next| next.key_text());
        let link = next.as_deref().map(|next| next_link(uri, next));
        let response = Json(TripPage { trips: self.trips, next }).into_response();
        match link {
            Some(link) => with_header(response, header::LINK, &link),
            None => response,
        }
    }
}

/// The `Link` header of the next page: the same request with another cursor.
pub(super) fn next_link(uri: &Uri, cursor: &str) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    let others = pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let query: Vec<_> = others.map(str::to_owned).chain([format!("cursor={cursor}")]).collect();
    format!("<{}?{}>; rel=\"next\"", uri.path(), query.join("&"))
}
