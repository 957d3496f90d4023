//! Route that ingests samples, for devices and tools without Kafka.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use utoipa::ToSchema;

use super::app::App;
use super::body::{Limited, MAX_SAMPLES, require_json};
use super::call::Call;
use super::examples::{DEVICE, time};
use super::params::Moment;
use super::problem::Problem;
use crate::log::append::{IngestError, Records, SampleResult, SampleSink};
use crate::model::visible::with_causes;
use crate::store::StoreError;

/// Memory per sample in addition to its text, until it is answered, in bytes.
const SAMPLE_OVERHEAD: usize = 128;

/// A sample by the standard names. The rules of a store may have other names and units (`--map`,
/// `--preset`, `--speed-unit`, `--time-unit`). Other members are ignored.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
pub(crate) struct SampleBody {
    /// Device id, at most 256 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 256, pattern = r"^[^\x00]*$", example = "truck-17")]
    device_id: String,
    /// Device time: RFC 3339 with any offset, or a number since 1970 in the unit of the store (ms).
    #[schema(value_type = Moment)]
    time: String,
    /// Latitude, degrees north.
    #[schema(minimum = -90.0, maximum = 90.0)]
    lat: f64,
    /// Longitude, degrees east.
    #[schema(minimum = -180.0, maximum = 180.0)]
    lon: f64,
    /// Speed in the unit of the store (m/s); -1 if it is unknown.
    speed: Option<f64>,
    /// Heading, degrees clockwise from north, 0 to 360; -1 if it is unknown.
    #[schema(minimum = -1.0, maximum = 360.0)]
    heading: Option<f64>,
    /// Altitude, m.
    #[schema(minimum = -12000.0, maximum = 100000.0)]
    altitude: Option<f64>,
    /// Accuracy of the position, m; -1 if it is unknown.
    #[schema(minimum = -1.0, maximum = 100000000.0)]
    accuracy: Option<f64>,
    /// Driver, at most 256 bytes of UTF-8.
    #[schema(max_length = 256)]
    driver: Option<String>,
    /// Whether the ignition is on.
    ignition: Option<bool>,
}

impl SampleBody {
    fn example() -> Self {
        Self {
            device_id: DEVICE.to_owned(),
            time: time(0),
            lat: 52.52,
            lon: 13.41,
            speed: Some(13.9),
            heading: Some(87.0),
            altitude: None,
            accuracy: Some(4.0),
            driver: Some("Ada".to_owned()),
            ignition: Some(true),
        }
    }
}

/// Results of the samples, in order.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
pub(crate) struct Results {
    /// Number of samples accepted, including duplicates.
    taken: usize,
    /// Number of samples that could not be used.
    refused: usize,
    /// Result of each sample.
    results: Vec<SampleResult>,
}

/// Ingests samples: JSON objects, one per line, or an array of them.
///
/// Requires a server with a token. The answer is sent when the samples are durable: in the file of
/// the store, or acknowledged by the brokers of its topic.
#[utoipa::path(post, path = "/v1/samples", tag = "samples", operation_id = "samples",
    request_body(description = "NDJSON or a JSON array of samples; gzip with `Content-Encoding: gzip`",
        content((Vec<SampleBody> = "application/json", example = json!([SampleBody::example()])), (String = "application/x-ndjson"))),
    responses(
        (status = 200, description = "The result of each sample, in order", body = Results,
            example = json!({"taken": 1, "refused": 1, "results": [
                {"status": "end", "reason": null, "message": null},
                {"status": "dead", "reason": "missing_field", "message": "lat is absent"},
            ]})),
        (status = 400, description = "The body holds no samples"),
        (status = 403, description = "The server does not accept samples (`takes_no_samples`), or the token does not have the right `write` (`forbidden`)",
            body = Problem, example = json!(takes_no_samples())),
        (status = 503, description = "The store or its topic cannot be written now"),
        (status = 507, description = "There is no place for the samples that cannot be used (`letters_full`)"),
    ))]
pub(crate) async fn post_samples(
    mut call: Call,
    request: Request,
) -> Result<Json<Results>, Problem> {
    call.params.finish()?;
    let app = &call.app;
    let sink = app.sink()?;
    require_json(&call.headers)?;
    let mut body = Limited::<MAX_SAMPLES>::from_request(request, app).await?;
    let _permit = body.permit.take();
    let records = app.run_blocking(move || split(body)).await?;
    let results = sink.ingest(call.sent(records)).await?;
    count("/v1/samples", &results);
    let refused = results.iter().filter(|result| !result.is_taken()).count();
    let taken = results.len() - refused;
    Ok(Json(Results { taken, refused, results }))
}

impl App {
    /// Where samples go.
    ///
    /// # Errors
    /// 403 if the server does not accept samples, 503 until it is known where they go.
    pub(super) fn sink(&self) -> Result<Arc<SampleSink>, Problem> {
        if self.options.tokens.is_none() {
            return Err(takes_no_samples());
        }
        self.opened()?.sink.ok_or_else(|| {
            let detail = "the log is not connected yet; see /readyz?verbose";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "log_unavailable", detail)
        })
    }
}

impl Call {
    /// Records with what the request says of them.
    pub(super) fn sent(&self, records: Records) -> Records {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        records.with_headers(headers).sent_by(self.token_name().unwrap_or_default())
    }
}

pub(super) fn takes_no_samples() -> Problem {
    let detail = "this server does not accept samples; start it with --token-file";
    Problem::new(StatusCode::FORBIDDEN, "takes_no_samples", detail)
}

/// Counts samples that came by a route, by result.
pub(super) fn count(route: &'static str, results: &[SampleResult]) {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for result in results {
        *counts.entry(result.status()).or_default() += 1;
    }
    for (result, samples) in counts {
        crate::telemetry::http_samples(route, result, samples);
    }
}

/// Splits a body into records, which hold its memory share until the last one is dropped.
fn split(body: Limited<MAX_SAMPLES>) -> Result<Records, Problem> {
    let Limited { bytes, mut share, .. } = body;
    let records = Records::from_body(bytes).map_err(|error| Problem::fault("body", error))?;
    share.grow(records.len() * SAMPLE_OVERHEAD)?;
    Ok(records.guarded(share))
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Store(StoreError::LettersFull { .. }) => {
                crate::telemetry::rejected("dead_letters");
                let detail = "the samples that cannot be used have no place: this token has used up \
                    its share of the dead letters, or the store is full of them; its operator \
                    lists and removes them with `tstar dlq`";
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "letters_full", detail)
            }
            IngestError::Store(error) => error.into(),
            IngestError::TooMany => Self::fault("body", error),
            error @ IngestError::NotExpressible { .. } => {
                Self::new(StatusCode::CONFLICT, "not_expressible", error)
            }
            error @ IngestError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error)
            }
            IngestError::Busy => Self::busy("store", "another process is writing to the store"),
            error => {
                tracing::warn!(error = %with_causes(&error), "cannot ingest samples");
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "log_unavailable", "the topic cannot be written now")
            }
        }
    }
}
