//! Examples in the OpenAPI document: one for each answer with a JSON body. Trips are written by the
//! code that answers requests, so that an example has the fields of an answer.

use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr};

use super::access::forbidden;
use super::devices::Device;
use super::page::PageSettings;
use super::problem::{ParamError, Problem};
use super::samples::SampleBody;
use super::token::Right;
use super::trip_response::TripAnswer;
use crate::codec::trip_row::TripRow;
use crate::identity::AnyId;
use crate::model::change::{Change, ChangeKind};
use crate::model::scalar::{DeviceTime, Version};
use crate::model::time::format_time;
use crate::timeline::{LegFilter, Limits, RawSample, Sample, Timeline};
use crate::views::{Explanation, Extras, Form, Match, TripJson, TripWriter, event, text_id};

/// 2026-11-20T21:00:00Z, ms since 1970.
const START_MS: i64 = 1_795_208_400_000;

/// Device of the examples.
const DEVICE: &str = "truck-17";

/// The time of minutes after the start.
fn at(minutes: i64) -> DeviceTime {
    DeviceTime(START_MS + minutes * 60_000)
}

/// The trip of the worked example in `docs/concepts.md`: minute 6 arrives last, and merges two.
fn row() -> TripRow {
    let mut timeline = Timeline::default();
    for (record, minutes) in (0..).zip([10_i32, 12, 0, 2, 6]) {
        let moved = f64::from(minutes) * 1e-4;
        let (time_ms, lat, lon) = (at(minutes.into()), 52.52 + moved, 13.41 + moved);
        let raw = RawSample { time_ms, lat, lon, ..RawSample::default() };
        let sample = Sample::quantised(&raw).expect("its values are in range");
        timeline.absorb(&Limits::default(), Version(2 * record), sample, None);
    }
    let trip = timeline.trips().next().expect("samples make a trip");
    TripRow::from_trip(DEVICE, trip, LegFilter::default())
}

fn id(minutes: i64) -> String {
    text_id(DEVICE, at(minutes)).expect("the id has a text form")
}

fn value(plain: impl Serialize) -> Value {
    serde_json::to_value(plain).expect("an example is plain data")
}

fn trip(extras: Extras) -> Value {
    let trip = TripJson::from_row(&row()).expect("the id has a text form");
    let tags = Some([("purpose".to_owned(), "business".to_owned())].into());
    value(TripAnswer { trip, extras: Extras { tags, open: Some(false), ..extras } })
}

/// The trip as the answer to a lookup of its retired id.
fn retired() -> Value {
    trip(Extras {
        requested_id: Some(id(10)),
        matched: Some(Match::Retired),
        merged: Some(true),
        ..Extras::default()
    })
}

fn geojson() -> Value {
    let mut text = Vec::new();
    let writer = TripWriter::new(&mut text, Form::GeoJson, true);
    let written = writer.and_then(|mut writer| {
        writer.write(&row(), &Extras::default())?;
        writer.finish()
    });
    written.expect("a buffer can be written");
    serde_json::from_slice(&text).expect("it is JSON")
}

fn merged() -> Value {
    let change = Change { kind: ChangeKind::Merged, retired: vec![at(10)], row: 0 };
    let text = event::event(&change, &row()).expect("the ids have text forms");
    serde_json::from_str(&text).expect("it is JSON")
}

fn page() -> Value {
    value(PageSettings {
        tiles: None,
        tiles_attribution: None,
        stream: true,
        version: env!("CARGO_PKG_VERSION"),
        max_gap_ms: Limits::default().max_gap_ms,
        now: format_time(at(20).ms()),
        logged_in: false,
    })
}

fn sums() -> Value {
    json!({"trips": 1, "distance_m": 156.9, "duration_s": 720.0, "moving_s": 720.0})
}

/// A tag that was set at the retired id, and the one that it supersedes.
fn tag() -> Value {
    let set = |value: &str, minutes: i64, revision: &str| {
        json!({
            "value": value,
            "id": id(minutes),
            "time": format_time(at(60 + minutes).ms()),
            "revision": revision,
        })
    };
    let mut tag = set("business", 10, "9f86d081884c7d65");
    tag["key"] = "purpose".into();
    tag["superseded"] = json!([set("private", 0, "2c26b46b68ffc68f")]);
    tag
}

/// The answer to a request that sets a tag.
fn put_tag() -> Value {
    let mut answer = tag();
    answer["replaced"] = answer["superseded"][0].clone();
    answer
}

/// A row of a summary by day.
fn sums_of_day() -> Value {
    let mut sums = sums();
    sums["key"] = "2026-11-20".into();
    sums
}

/// The body of an answer of an operation that is not a problem.
fn answer(status: StatusCode, operation: &str) -> Option<Value> {
    Some(match operation {
        "changes" => json!({"changes": [{"seq": 5, "event": merged()}], "next": 5}),
        "devices" => {
            json!({"devices": [Device::example(DEVICE, at(12), id(0))], "next": null})
        }
        "explain" => value(Explanation::from_row(&row(), &id(10), at(10), &[]).ok()?),
        "inFlespi" | "inOsmand" | "inTraccar" | "inTraccarClient" => json!({}),
        "inOverland" => json!({"result": "ok"}),
        "inOwntracks" => json!([]),
        "lookup" => trip(Extras::default()),
        "lookupMany" => json!({"answers": [
            {"trip": trip(Extras::default()), "code": null},
            {"trip": null, "code": "no_trip"},
        ]}),
        "page" => page(),
        "putTag" => put_tag(),
        "readyz" => json!({"ready": status.is_success()}),
        "samples" => json!({"taken": 1, "refused": 1, "results": [
            {"status": "end", "reason": null, "message": null},
            {"status": "dead", "reason": "missing_field", "message": "lat is absent"},
        ]}),
        "summary" => json!({"rows": [sums_of_day()], "total": sums(), "skipped": 0}),
        "tags" => json!({"tags": [tag()]}),
        "trip" => retired(),
        "trips" | "tripsOfDevice" => {
            json!({"trips": [trip(Extras::default())], "next": null, "changes": 5, "skipped": 0})
        }
        "version" => json!({"version": env!("CARGO_PKG_VERSION"), "commit": "50074b4c6b5b"}),
        _ => return None,
    })
}

/// A problem that an operation answers with a status.
fn problem(status: StatusCode, operation: &Operation) -> Option<Value> {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    let takes_samples = operation.tags.iter().flatten().any(|tag| tag == "samples");
    let (code, detail) = match status {
        StatusCode::BAD_REQUEST => return Some(value(bad_request(id, operation))),
        StatusCode::UNAUTHORIZED => ("unauthorized", "this server requires a token"),
        StatusCode::FORBIDDEN if takes_samples => {
            ("takes_no_samples", "this server does not accept samples; start it with --token-file")
        }
        StatusCode::FORBIDDEN if ["login", "logout"].contains(&id) => {
            ("foreign_origin", "the request is from a page of another origin")
        }
        StatusCode::FORBIDDEN => {
            let sets_tag = ["putTag", "deleteTag"].contains(&id);
            let (token, right) =
                if sets_tag { ("maps", Right::Write) } else { ("gateway", Right::Read) };
            return Some(value(forbidden(token, right)));
        }
        StatusCode::NOT_FOUND => return not_found(id).map(value),
        StatusCode::REQUEST_TIMEOUT => ("too_slow", "no data of the body for 10 s"),
        StatusCode::CONFLICT if id == "putTag" => {
            ("too_many_tags", "the trip has tags of 64 keys already; remove one first")
        }
        StatusCode::PRECONDITION_FAILED => {
            let detail = "the tag was changed: its revision is now 9f86d081884c7d65; read it again";
            return Some(value(Problem::new(status, "changed", detail).with("tag", tag())));
        }
        StatusCode::CONFLICT => {
            ("not_expressible", "the field map of the store cannot express samples of overland")
        }
        StatusCode::GONE if id.starts_with("changes") => {
            let detail = "events up to 41 are no longer retained";
            return Some(value(Problem::new(status, "changes_gone", detail).with("oldest", 42)));
        }
        StatusCode::GONE => {
            ("gone", "the trips of device `truck-17` before 2026-11-21T00:00:00.000Z were erased")
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            ("too_large", "the body is larger than 1048576 bytes; send it in parts")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            ("unsupported_type", "content-type `text/html` is not JSON; send application/json")
        }
        StatusCode::MISDIRECTED_REQUEST => {
            ("foreign_name", "the request has two `Host` headers; send one")
        }
        StatusCode::INTERNAL_SERVER_ERROR => {
            let what =
                "stored trip is malformed: device=`truck-17` bucket=2026-11-20T00:00:00.000Z";
            return Some(value(Problem::malformed_trip(what)));
        }
        StatusCode::NOT_IMPLEMENTED => ("no_changes", "the store has no change feed"),
        StatusCode::SERVICE_UNAVAILABLE => {
            ("store_unavailable", "the store is not connected yet; see /readyz?verbose")
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            ("letters_full", "the samples that cannot be used have no place")
        }
        _ => return None,
    };
    Some(value(Problem::new(status, code, detail)))
}

/// An invalid id, a fault of the first parameter, or one of the body.
fn bad_request(id: &str, operation: &Operation) -> Problem {
    let takes_id = ["explain", "trip", "trip_geojson", "trip_gpx", "tags", "putTag", "deleteTag"];
    if let (true, Err(error)) = (takes_id.contains(&id), AnyId::parse(DEVICE)) {
        return Problem::new(StatusCode::BAD_REQUEST, "bad_id", error);
    }
    let parameter = operation.parameters.iter().flatten().find_map(|parameter| match parameter {
        RefOr::T(parameter) => Some(parameter.name.as_str()),
        RefOr::Ref(_) => None,
    });
    Problem::faults(vec![match (&operation.request_body, parameter) {
        (None, Some(name)) => ParamError::new(name, "given more than once"),
        _ => ParamError::new("body", "it is incomplete"),
    }])
}

fn not_found(operation: &str) -> Option<Problem> {
    let problem = |code, detail: &str| Problem::new(StatusCode::NOT_FOUND, code, detail);
    Some(match operation {
        "changes" => problem("no_change", "event 7 does not exist; the newest is 5"),
        "lookup" => {
            let detail = "no trip of device `truck-17` covers 2026-11-20T21:38:00.000Z";
            let before = problem("no_trip", detail).with("previous", trip(Extras::default()));
            before.with("next", Value::Null).with("skipped", 0)
        }
        id if id.starts_with("tripsOfDevice") => {
            problem("no_device", "no sample of device `truck-17` is stored; see /v1/devices")
        }
        "deleteTag" => problem("no_tag", "the trip has no tag `purpose`"),
        "explain" | "trip" | "trip_geojson" | "trip_gpx" | "tags" | "putTag" => {
            let id = id(0);
            let detail = format!("no trip has the id `{id}`");
            problem("no_trip", &detail)
        }
        _ => return None,
    })
}

/// The body of a request.
fn request(operation: &str) -> Option<Value> {
    Some(match operation {
        "login" => json!({"token": "correct-horse-battery"}),
        "putTag" => json!({"value": "business"}),
        "lookupMany" => json!({"pairs": [{"device": DEVICE, "at": format_time(at(5).ms())}]}),
        "samples" => value([SampleBody::example(at(0))]),
        _ => return None,
    })
}

/// Adds examples to the answers of all operations, and to the requests of some.
pub(super) fn add_examples(api: &mut OpenApi) {
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        operations.into_iter().flatten().for_each(add_to);
    }
}

fn add_to(operation: &mut Operation) {
    let id = operation.operation_id.clone().unwrap_or_default();
    let mut responses = std::mem::take(&mut operation.responses.responses);
    for (status, response) in &mut responses {
        let RefOr::T(response) = response else { continue };
        let Ok(status) = status.parse::<StatusCode>() else { continue };
        for (media_type, content) in &mut response.content {
            let RefOr::T(content) = content else { continue };
            content.example = match media_type.as_str() {
                "application/json" => answer(status, &id),
                "application/geo+json" => Some(geojson()),
                "application/problem+json" => problem(status, operation),
                _ => None,
            };
        }
    }
    operation.responses.responses = responses;
    if let Some(RefOr::T(body)) = &mut operation.request_body
        && let Some(RefOr::T(content)) = body.content.get_mut("application/json")
    {
        content.example = request(&id);
    }
}
