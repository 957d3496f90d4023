//! Samples in: for devices, and tools, that speak HTTP rather than Kafka.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use utoipa::ToSchema;

use super::app::{App, ServableStore};
use super::body::{Limited, MAX_BROUGHT};
use super::params::Params;
use super::problem::{ParamError, Problem};
use crate::ops::ingest_request::{IngestError, Records, SampleResult};

/// Bytes that a sample takes until it is answered, beside its own.
const RESULT: usize = 128;

/// What became of each sample, in order.
#[derive(Clone, Debug, serde::Serialize, ToSchema)]
pub struct Results {
    /// Samples that were taken, as new ones or as duplicates.
    taken: usize,
    /// Samples that could not be used.
    refused: usize,
    /// One each.
    results: Vec<SampleResult>,
}

/// Takes samples: JSON objects, one a line, or an array of them.
///
/// Off unless the server has a token. The answer comes once the samples are durable: in the file of
/// the store, or acknowledged by the brokers of its topic.
#[utoipa::path(post, path = "/v1/samples", tag = "samples", operation_id = "samples",
    request_body(description = "NDJSON, or a JSON array of samples; gzip by Content-Encoding",
        content((String = "application/x-ndjson"), (serde_json::Value = "application/json"))),
    responses(
        (status = 200, description = "What became of each sample, in order", body = Results),
        (status = 400, description = "The body holds no samples",
            body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The server takes no samples",
            body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The body is too large",
            body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "The body is packed otherwise than by gzip",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The store or its topic takes nothing now",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn post_samples<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    ask: Params,
    request: Request,
) -> Result<Response, Problem> {
    ask.finish()?;
    let intake = app.intake().ok_or_else(|| {
        Problem::new(
            StatusCode::FORBIDDEN,
            "takes_no_samples",
            "this server takes no samples: start it with --token-file",
        )
    })?;
    let mut body = Limited::<MAX_BROUGHT>::from_request(request, &app).await?;
    let _permit = body.permit.take();
    let records = app.off_runtime(move || split(body)).await?;
    let results = intake.ingest(records).await?;
    let refused = results.iter().filter(|verdict| !verdict.is_taken()).count();
    let taken = results.len() - refused;
    Ok(Json(Results { taken, refused, results }).into_response())
}

/// The records of a body, which count until the last of them is done with.
fn split(body: Limited<MAX_BROUGHT>) -> Result<Records, Problem> {
    let Limited { bytes, mut share, .. } = body;
    let records = Records::from_body(bytes)
        .map_err(|error| Problem::faults(vec![ParamError::new("body", error)]))?;
    share.grow(records.len() * RESULT)?;
    Ok(records.guarded(share))
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Store(error) => error.into(),
            IngestError::Busy => {
                Self::busy("store", "the store is being written to by somebody else")
            }
            error => {
                tracing::warn!(error = %super::problem::chain(&error), "samples were not taken");
                let status = StatusCode::SERVICE_UNAVAILABLE;
                Self::new(status, "log_unavailable", "the topic does not take records now")
            }
        }
    }
}
