//! Routes for single trips: by time, by id, and explained.

use std::time::Instant;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Access;
use super::app::App;
use super::body::{Limited, MAX_LOOKUP, require_json};
use super::call::{Call, Segments};
use super::clients::{ClientKey, ClientSlot, Peer};
use super::descriptions::{DetailParams, MIN_VERSION, NOT_YET, TRIP_ID, ZoneParam};
use super::examples::{DEVICE, explanation, retired_trip, time, trip};
use super::fresh::{IdLookup, find, gone, require};
use super::params::Moment;
use super::problem::{ParamError, Problem};
use super::trip_response::{LARGE, MAX_LIST, TripAnswer, split_format, with_header};
use crate::identity::DeviceId;
use crate::model::scalar::DeviceTime;
use crate::model::time::{format_time, parse_time};
use crate::ops::lookup::{Fresh, Neighbours};
use crate::ops::tags;
use crate::ops::trip_page::approximate_size;
use crate::store::fresh::{FreshLookup, FreshRow};
use crate::store::{LookupResult, SideTables as _, StoreError};
use crate::telemetry::LOOKUP_DURATION;
use crate::views::{Explanation, Extras, Form, Match, TagValues, text_id};

/// Maximum pairs of a request.
pub(crate) const MAX_PAIRS: usize = 1000;

/// A device and a time to look up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
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
pub(crate) struct Pairs {
    /// At most 1000.
    #[schema(max_items = 1000)]
    pairs: Vec<Pair>,
}

/// The answer to one pair.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PairAnswer {
    /// The trip that covers the time; null if there is none.
    trip: Option<TripAnswer>,
    /// Why there is no trip: `no_trip` (perhaps as there is no such device), `gone` or
    /// `malformed_trip`; null if there is one.
    code: Option<&'static str>,
    /// The stop that covers the time; null if none does.
    stop: Option<TripAnswer>,
}

/// Answers to the pairs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PairAnswers {
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
        ZoneParam,
        DetailParams,
        ("min_version" = Option<i64>, Query, minimum = 0, description = MIN_VERSION),
    ),
    responses(
        (status = 200, description = "The trip", body = TripAnswer, example = json!(trip())),
        (status = 304, description = "Not modified since the `ETag` in `If-None-Match`"),
        (status = 404, description = "The device is not known (`no_device`), or no trip of it covers the time (`no_trip`; `stop` is the stop that does, `previous` and `next` are the nearest trips, but for `skipped` malformed ones)",
            body = Problem, example = json!(no_trip_at("truck-17", "2026-11-20T21:38:00.000Z", [Some(trip()), None, None], 0))),
        (status = 410, description = "The trips of that time were erased"),
        (status = 503, description = NOT_YET),
    ))]
pub(crate) async fn lookup(mut call: Call) -> Result<Response, Problem> {
    let (app, params) = (&call.app, &mut call.params);
    let device = params.required("device", |text| DeviceId::new(text));
    let zone = params.zone();
    let at_ms = params.required("at", |text| zone.parse_time(text));
    let (detail, min_version) = (params.detail(), params.min_version());
    params.finish()?;
    let (device, at_ms) = device.zip(at_ms).expect("they have no fault");
    let store = app.store()?;
    let owner = app.other_owner(&store, &device).await;
    let store = app.fresh(&store);
    let found = find_at(&store, &device, at_ms).await?;
    require(min_version, owner.as_ref(), |version| found.covers(version))?;
    match found.result {
        LookupResult::Trip(row) => {
            let tags = Some(tags::values(store.store(), &row).await?);
            let fresh = app.freshness(found.is_fresh);
            let extras = Extras { tags, fresh, owner, ..Extras::default() };
            app.trip_response(row, extras, (Form::Json, detail), &call.headers).await
        }
        LookupResult::Gone { device_id, forget } => Err(gone(&device_id, &forget)),
        LookupResult::Stop(stop) => {
            let stop = FreshRow { row: *stop, is_fresh: found.is_fresh };
            let miss = miss(app, &store, &device, at_ms, Some(stop)).await?;
            Err(miss.with_owner(owner.as_ref()))
        }
        LookupResult::Unknown => {
            Err(miss(app, &store, &device, at_ms, None).await?.with_owner(owner.as_ref()))
        }
    }
}

/// The answer if no trip of a device covers a time; perhaps a stop does.
async fn miss(
    app: &App,
    store: &Fresh<'_>,
    device: &DeviceId,
    at_ms: DeviceTime,
    stop: Option<FreshRow>,
) -> Result<Problem, Problem> {
    let Some(around) = Neighbours::find(store, device, at_ms).await? else {
        return Ok(no_device(device));
    };
    let Neighbours { previous, next, missing, .. } = around;
    let mut around = [None, None, None];
    for (found, answer) in [previous, stop, next].into_iter().zip(&mut around) {
        if let Some(found) = found {
            *answer = Some(app.answer_for(found).await?);
        }
    }
    Ok(no_trip_at(device, &format_time(at_ms.ms()), around, missing.trips))
}

/// The answer if no trip covers a time: with the trip before, the stop that covers it and the trip
/// after, but for `skipped` malformed ones.
fn no_trip_at(device: &str, at: &str, around: [Option<TripAnswer>; 3], skipped: u64) -> Problem {
    let [previous, stop, next] = around;
    let stands = if stop.is_some() { ": it stands" } else { "" };
    let detail = format!("no trip of device `{device}` covers {at}{stands}");
    let problem = Problem::new(StatusCode::NOT_FOUND, "no_trip", detail);
    let problem = problem.with("previous", previous).with("stop", stop);
    problem.with("next", next).with("skipped", skipped)
}

/// The answer for a device that neither store nor memory has.
pub(super) fn no_device(device: &str) -> Problem {
    let detail = format!("no sample of device `{device}` is stored; see /v1/devices");
    Problem::new(StatusCode::NOT_FOUND, "no_device", detail)
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
        Ok(LookupResult::Stop(_)) => "stop",
        Ok(LookupResult::Gone { .. }) => "gone",
        Ok(LookupResult::Unknown) => "none",
        Err(_) => "failed",
    };
    metrics::histogram!(LOOKUP_DURATION, "result" => result).record(began.elapsed().as_secs_f64());
    found
}

/// Looks up many pairs of device and time.
#[utoipa::path(post, path = "/v1/trips/lookup", tag = "trips", operation_id = "lookupMany",
    request_body(content = Pairs, example = json!({"pairs": [{"device": DEVICE, "at": time(5)}]})),
    responses(
        (status = 200, description = "An answer for each pair, in the order of the pairs", body = PairAnswers,
            example = json!({"answers": [{"trip": trip(), "code": null, "stop": null}, {"trip": null, "code": "no_trip", "stop": null}]})),
    ))]
pub(crate) async fn lookup_many(
    mut call: Call,
    body: Limited<MAX_LOOKUP>,
) -> Result<Response, Problem> {
    let app = &call.app;
    call.params.finish()?;
    require_json(&call.headers)?;
    let _slot = app.acquire_bulk_lookup(&call.access, call.peer)?;
    let pairs = read_pairs(&body.bytes)?;
    // Frees the body, but holds the permit until the end of the request.
    let _permit = body.permit;
    let _turn = app.bulk_lookups.acquire().await.expect("it is never closed");
    let store = app.store()?;
    let has_tags = store.has_tags().await?;
    let store = app.fresh(&store);
    let (mut answers, mut bytes) = (Vec::with_capacity(pairs.len()), 0);
    for (device, at_ms) in &pairs {
        let found = match find_at(&store, device, *at_ms).await {
            Err(error @ StoreError::Malformed(_)) => {
                let code = Some(Problem::from(error).code());
                answers.push(PairAnswer { trip: None, code, stop: None });
                continue;
            }
            found => found?,
        };
        let none = |code| PairAnswer { trip: None, code: Some(code), stop: None };
        answers.push(match found.result {
            LookupResult::Stop(row) => {
                bytes += approximate_size(&row);
                let stop = app.list_item(*row, found.is_fresh, TagValues::new()).await?;
                PairAnswer { stop: Some(stop), ..none("no_trip") }
            }
            LookupResult::Trip(row) => {
                bytes += approximate_size(&row);
                if bytes > MAX_LIST {
                    return Err(Problem::large_answer());
                }
                let tags = if has_tags {
                    tags::values(store.store(), &row).await?
                } else {
                    TagValues::new()
                };
                let trip = Some(app.list_item(*row, found.is_fresh, tags).await?);
                PairAnswer { trip, code: None, stop: None }
            }
            LookupResult::Gone { .. } => none("gone"),
            LookupResult::Unknown => none("no_trip"),
        });
    }
    Ok(app.run_if(bytes > LARGE, || Json(PairAnswers { answers }).into_response()).await)
}

/// The part of all requests that may be lookups of many pairs of one client: an eighth.
const BULK_SHARE: usize = 8;

impl App {
    /// Counts a lookup of many pairs of a client: of a token, or of an address without one.
    fn acquire_bulk_lookup(
        &self,
        access: &Access,
        peer: Peer,
    ) -> Result<ClientSlot<ClientKey>, Problem> {
        let all = self.options.settings.http.requests;
        let (client, limit) = match access.token() {
            Some(token) => (ClientKey::Token(token.key()), (all / BULK_SHARE).max(1)),
            None => (ClientKey::Network(peer.network()), peer.limit(0, all)),
        };
        let slot = self.client_lookups.acquire(client, limit);
        let detail = "this client has too many lookups of many pairs at once";
        slot.ok_or_else(|| Problem::busy("client_requests", detail))
    }
}

/// Formats a float without a fractional part as an integer.
fn as_integer(value: &serde_json::Value) -> Option<String> {
    // 2^53: larger floats cannot represent every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = value.as_f64().filter(|number| value.is_f64() && number.abs() < EXACT)?;
    (number.fract() == 0.0).then(|| format!("{number:.0}"))
}

/// What is wrong with a body of pairs, and what it has to be.
fn shape(error: &serde_json::Error) -> String {
    let example = r#"{"pairs": [{"device": "truck-17", "at": "2026-11-20T21:38:00Z"}]}"#;
    format!("{error}; send {example}")
}

fn read_pairs(body: &[u8]) -> Result<Vec<(DeviceId, DeviceTime)>, Problem> {
    let parsed: Result<Pairs, _> = serde_json::from_slice(body);
    let Pairs { pairs } = parsed.map_err(|error| Problem::fault("body", shape(&error)))?;
    if pairs.len() > MAX_PAIRS {
        let problem = format!("{} pairs, more than {MAX_PAIRS}", pairs.len());
        return Err(Problem::fault("pairs", problem));
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
        ("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z"),
        DetailParams,
        ("min_version" = Option<i64>, Query, minimum = 0, description = MIN_VERSION),
    ),
    responses(
        (status = 200, description = "The trip; `match` is how the id relates to it",
            body = TripAnswer, example = json!(retired_trip())),
        (status = 304, description = "Not modified since the `ETag` in `If-None-Match`"),
        (status = 503, description = NOT_YET),
    ))]
pub(crate) async fn by_id(
    mut call: Call,
    Segments(segment): Segments<String>,
) -> Result<Response, Problem> {
    let (app, params) = (&call.app, &mut call.params);
    let (id, form) = split_format(&segment);
    let (detail, min_version) = (params.detail(), params.min_version());
    params.finish()?;
    let IdLookup { found, owner, .. } = find(app, id, min_version).await?;
    let extras = Extras {
        tags: Some(tags::values(&*app.store()?, &found.row).await?),
        requested_id: Some(id.to_owned()),
        matched: Some(found.matched),
        merged: Some(found.matched == Match::Retired),
        fresh: app.freshness(found.is_fresh),
        owner,
        ..Extras::default()
    };
    let current = text_id(&found.row.device_id, found.row.t_star_ms)?;
    let url = format!("/v1/trips/{current}{}", &segment[id.len()..]);
    let response = app.trip_response(found.row, extras, (form, detail), &call.headers).await?;
    Ok(with_header(response, header::CONTENT_LOCATION, &url))
}

/// History of a trip: the log positions of the samples that minted it, merged others into it and
/// changed it last.
#[utoipa::path(get, path = "/v1/trips/{id}/explain", tag = "trips", operation_id = "explain",
    params(("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "The history in the trip's row; `tstar explain` also reads the log",
            body = Explanation, example = json!(explanation())),
    ))]
pub(crate) async fn explain(
    mut call: Call,
    Segments(id): Segments<String>,
) -> Result<Json<Explanation>, Problem> {
    call.params.finish()?;
    let IdLookup { found, .. } = find(&call.app, &id, None).await?;
    let is_large = approximate_size(&found.row) > LARGE;
    let epochs = call.app.store()?.epochs().await?;
    let work = move || Explanation::from_row(&found.row, &id, found.t_star_ms, &epochs).map(Json);
    Ok(call.app.run_if(is_large, work).await?)
}
