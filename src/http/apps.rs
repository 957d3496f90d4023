//! Routes for apps and services that send samples in a format of their own: a preset reads them.
//!
//! An app cannot mend a body that cannot be read, and would send it again and again. So it gets the
//! answer of success, and the body becomes a dead letter. Answers with an error are for what passes
//! (an overload, a store or log that cannot be written), and for what its owner has to change.

use axum::Json;
use axum::extract::{FromRequest, Query, Request};
use axum::http::Uri;
use serde_json::{Map, Value, json};

use super::body::{Limited, MAX_SAMPLES};
use super::call::Call;
use super::problem::Problem;
use super::samples::count;
use crate::log::append::Records;
use crate::model::preset::{OSMAND, Preset};

/// Memory that decoding takes, as a multiple of the size of a body.
const DECODING: usize = 2;

/// The route of Traccar Client.
const TRACCAR_CLIENT: &str = "/v1/in/traccar-client";

/// Receives the body of a request.
async fn receive(call: &Call, request: Request) -> Result<Limited<MAX_SAMPLES>, Problem> {
    // A server that takes no samples reads none.
    call.app.sink()?;
    Limited::from_request(request, &call.app).await
}

/// Ingests the samples of a body.
async fn ingest(
    call: &Call,
    route: &'static str,
    body: Limited<MAX_SAMPLES>,
    preset: &'static Preset,
) -> Result<(), Problem> {
    let Limited { bytes, mut share, permit } = body;
    let _permit = permit;
    share.grow(DECODING * bytes.len())?;
    let records = Records::of_preset(bytes, preset);
    let records = records.map_err(|error| Problem::fault("body", error))?;
    let records = call.sent(records).guarded(share);
    if !records.is_empty() {
        let results = call.app.sink()?.ingest(records).await?;
        count(route, &results);
    }
    Ok(())
}

fn preset(name: &str) -> &'static Preset {
    Preset::by_name(name).expect("the preset exists")
}

/// The parameters of a query that have a value, as a JSON object; empty without any.
fn parameters(uri: &Uri) -> Vec<u8> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map(|Query(pairs)| pairs).unwrap_or_default();
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let object: Map<_, _> = pairs.map(|(name, value)| (name, Value::String(value))).collect();
    if object.is_empty() { Vec::new() } else { Value::Object(object).to_string().into_bytes() }
}

/// Routes that ingest a body as the preset of their name reads it.
macro_rules! routes {
    ($($(#[doc = $doc:tt])* $handler:ident, $id:tt: $body:tt => $done:tt, $type:ty = $answer:tt,
        params $params:tt;)+) => {$(
        $(#[doc = $doc])*
        #[utoipa::path(post, path = concat!("/v1/in/", stringify!($handler)), tag = "samples",
            operation_id = $id, security(("token" = []), ("password" = [])),
            params $params,
            request_body(description = $body, content((Value = "application/json"))),
            responses((status = 200, description = $done, body = $type, example = json!($answer))))]
        pub(crate) async fn $handler(call: Call, request: Request) -> Result<Json<Value>, Problem> {
            let body = receive(&call, request).await?;
            let name = stringify!($handler);
            ingest(&call, concat!("/v1/in/", stringify!($handler)), body, preset(name)).await?;
            Ok(Json(json!($answer)))
        }
    )+};
}

routes! {
    /// Ingests a message of OwnTracks.
    ///
    /// The device is that of the header `X-Limit-D`, or else of the topic, or else the tracker id.
    /// Messages other than locations are skipped.
    owntracks, "inOwntracks": "A message of OwnTracks"
        => "The message is durable: an empty list of commands", Vec<Value> = [],
        params (
            ("x-limit-u" = Option<String>, Header, description = "User; it is not used"),
            ("x-limit-d" = Option<String>, Header, description = "Device id"),
        );
    /// Ingests a batch of Overland.
    overland, "inOverland": "A batch of Overland"
        => "The batch is durable: `result` is `ok`", Value = {"result": "ok"}, params ();
    /// Ingests a position that a Traccar server forwards.
    traccar, "inTraccar": "A position with its device; an event is skipped"
        => "The position is durable", Value = {}, params ();
    /// Ingests the messages of a stream of flespi.
    flespi, "inFlespi": "A list of messages; those without a position are skipped"
        => "The messages are durable", Value = {}, params ();
}

/// Ingests a location of Traccar Client.
///
/// Versions before 9 send the parameters of the OsmAnd protocol, and no body.
#[utoipa::path(post, path = TRACCAR_CLIENT, tag = "samples",
    operation_id = "inTraccarClient", security(("token" = []), ("password" = [])),
    request_body(description = "A location", content((Value = "application/json"))),
    responses((status = 200, description = "The location is durable", body = Value, example = json!({}))))]
pub(crate) async fn traccar_client(call: Call, request: Request) -> Result<Json<Value>, Problem> {
    let mut body = receive(&call, request).await?;
    let query = parameters(&call.uri);
    let preset = match body.bytes.trim_ascii().is_empty() && !query.is_empty() {
        true => {
            body.bytes = query;
            &OSMAND
        }
        false => preset("traccar-client"),
    };
    ingest(&call, TRACCAR_CLIENT, body, preset).await?;
    Ok(Json(json!({})))
}

/// Ingests a location of the OsmAnd protocol.
///
/// Times are seconds, speeds are knots.
#[utoipa::path(get, path = TRACCAR_CLIENT, tag = "samples", operation_id = "inOsmand",
    security(("token" = []), ("password" = [])),
    params(
        ("id" = Option<String>, Query, description = "Device id"),
        ("timestamp" = Option<String>, Query, description = "Seconds since 1970, or RFC 3339"),
        ("lat" = Option<String>, Query, description = "Latitude, degrees"),
        ("lon" = Option<String>, Query, description = "Longitude, degrees"),
        ("speed" = Option<String>, Query, description = "Speed, knots"),
        ("bearing" = Option<String>, Query, description = "Heading, degrees"),
        ("altitude" = Option<String>, Query, description = "Altitude, m"),
        ("accuracy" = Option<String>, Query, description = "Accuracy, m"),
    ),
    responses((status = 200, description = "The location is durable", body = Value, example = json!({}))))]
pub(crate) async fn osmand(call: Call) -> Result<Json<Value>, Problem> {
    // The request counts already, as it has no body.
    let (bytes, share) = (parameters(&call.uri), call.app.bodies.share());
    ingest(&call, TRACCAR_CLIENT, Limited { bytes, share, permit: None }, &OSMAND).await?;
    Ok(Json(json!({})))
}
