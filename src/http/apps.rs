//! Routes for apps and services that send samples in a format of their own: a preset reads them.
//!
//! An app cannot mend a body that cannot be read, and would send it again and again. So it gets the
//! answer of success, and the body becomes a dead letter. Answers with an error are for what passes
//! (an overload, a store or log that cannot be written), and for what its owner has to change.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Query, Request, State};
use axum::http::{HeaderMap, Uri};
use serde_json::{Map, Value, json};

use super::access::Access;
use super::app::App;
use super::body::{Limited, MAX_SAMPLES};
use super::problem::{ParamError, Problem};
use super::samples::count;
use crate::log::append::Records;
use crate::model::preset::{OSMAND, Preset};

/// Memory that decoding takes, as a multiple of the size of a body.
const DECODING: usize = 2;

/// The route of Traccar Client.
const TRACCAR_CLIENT: &str = "/v1/in/traccar-client";

/// A request to one of these routes.
struct Upload {
    route: &'static str,
    headers: HeaderMap,
    /// Name of the token.
    token: String,
    /// Parameters of the query, as a JSON object; empty without any.
    query: Vec<u8>,
    body: Limited<MAX_SAMPLES>,
}

impl Upload {
    /// Receives the body of a request.
    async fn receive(
        route: &'static str,
        app: &Arc<App>,
        request: Request,
    ) -> Result<Self, Problem> {
        // A server that takes no samples reads none.
        app.sink()?;
        let (headers, query) = (request.headers().clone(), parameters(request.uri()));
        let token = Access::token_name(request.extensions());
        let body = Limited::from_request(request, app).await?;
        Ok(Self { route, headers, token, query, body })
    }

    /// Whether there is no body, but a query.
    fn is_query(&self) -> bool {
        self.body.bytes.trim_ascii().is_empty() && !self.query.is_empty()
    }

    /// Ingests the samples of the body.
    async fn ingest(self, app: &App, preset: &'static Preset) -> Result<(), Problem> {
        let Limited { bytes, mut share, permit } = self.body;
        let _permit = permit;
        share.grow(DECODING * bytes.len())?;
        let records = Records::of_preset(bytes, preset)
            .map_err(|error| Problem::faults(vec![ParamError::new("body", error)]))?;
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let records = records.with_headers(headers).sent_by(&self.token).guarded(share);
        if records.is_empty() {
            return Ok(());
        }
        let results = app.sink()?.ingest(records).await?;
        count(self.route, &results);
        Ok(())
    }
}

/// Ingests the body of a request as the preset with this name reads it.
async fn ingest(
    app: &Arc<App>,
    request: Request,
    (route, preset): (&'static str, &'static str),
) -> Result<(), Problem> {
    let preset = Preset::by_name(preset).expect("the preset exists");
    Upload::receive(route, app, request).await?.ingest(app, preset).await
}

/// The parameters of a query that have a value, as a JSON object; empty without any.
fn parameters(uri: &Uri) -> Vec<u8> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let pairs = pairs.map(|Query(pairs)| pairs).unwrap_or_default();
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    let object: Map<_, _> = pairs.map(|(name, value)| (name, Value::String(value))).collect();
    if object.is_empty() { Vec::new() } else { Value::Object(object).to_string().into_bytes() }
}

/// Ingests a message of OwnTracks.
///
/// The device is that of the header `X-Limit-D`, or else of the topic, or else the tracker id.
/// Messages other than locations are skipped.
#[utoipa::path(post, path = "/v1/in/owntracks", tag = "samples", operation_id = "inOwntracks",
    security(("token" = []), ("password" = [])),
    params(
        ("x-limit-u" = Option<String>, Header, description = "User; it is not used"),
        ("x-limit-d" = Option<String>, Header, description = "Device id"),
    ),
    request_body(description = "A message of OwnTracks", content((Value = "application/json"))),
    responses((status = 200, description = "The message is durable: an empty list of commands",
        body = Vec<Value>)))]
pub async fn owntracks(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    ingest(&app, request, ("/v1/in/owntracks", "owntracks")).await?;
    Ok(Json(json!([])))
}

/// Ingests a batch of Overland.
#[utoipa::path(post, path = "/v1/in/overland", tag = "samples", operation_id = "inOverland",
    security(("token" = []), ("password" = [])),
    request_body(description = "A batch of Overland", content((Value = "application/json"))),
    responses((status = 200, description = "The batch is durable: `result` is `ok`",
        body = Value)))]
pub async fn overland(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    ingest(&app, request, ("/v1/in/overland", "overland")).await?;
    Ok(Json(json!({"result": "ok"})))
}

/// Ingests a position that a Traccar server forwards.
#[utoipa::path(post, path = "/v1/in/traccar", tag = "samples", operation_id = "inTraccar",
    security(("token" = []), ("password" = [])),
    request_body(description = "A position with its device; an event is skipped",
        content((Value = "application/json"))),
    responses((status = 200, description = "The position is durable", body = Value)))]
pub async fn traccar(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    ingest(&app, request, ("/v1/in/traccar", "traccar")).await?;
    Ok(Json(json!({})))
}

/// Ingests a location of Traccar Client.
///
/// Versions before 9 send the parameters of the OsmAnd protocol, and no body.
#[utoipa::path(post, path = "/v1/in/traccar-client", tag = "samples",
    operation_id = "inTraccarClient", security(("token" = []), ("password" = [])),
    request_body(description = "A location", content((Value = "application/json"))),
    responses((status = 200, description = "The location is durable", body = Value)))]
pub async fn traccar_client(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    let mut upload = Upload::receive(TRACCAR_CLIENT, &app, request).await?;
    let preset = match upload.is_query() {
        true => {
            upload.body.bytes = std::mem::take(&mut upload.query);
            &OSMAND
        }
        false => Preset::by_name("traccar-client").expect("the preset exists"),
    };
    upload.ingest(&app, preset).await?;
    Ok(Json(json!({})))
}

/// Ingests a location of the OsmAnd protocol.
///
/// Times are seconds, speeds are knots.
#[utoipa::path(get, path = "/v1/in/traccar-client", tag = "samples", operation_id = "inOsmand",
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
    responses((status = 200, description = "The location is durable", body = Value)))]
pub async fn osmand(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, Problem> {
    let (headers, token) = (request.headers().clone(), Access::token_name(request.extensions()));
    // The request counts already, as it has no body.
    let bytes = parameters(request.uri());
    let body = Limited { bytes, share: app.bodies.share(), permit: None };
    let upload = Upload { route: TRACCAR_CLIENT, headers, token, query: Vec::new(), body };
    upload.ingest(&app, &OSMAND).await?;
    Ok(Json(json!({})))
}

/// Ingests the messages of a stream of flespi.
#[utoipa::path(post, path = "/v1/in/flespi", tag = "samples", operation_id = "inFlespi",
    security(("token" = []), ("password" = [])),
    request_body(description = "A list of messages; those without a position are skipped",
        content((Value = "application/json"))),
    responses((status = 200, description = "The messages are durable", body = Value)))]
pub async fn flespi(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, Problem> {
    ingest(&app, request, ("/v1/in/flespi", "flespi")).await?;
    Ok(Json(json!({})))
}
