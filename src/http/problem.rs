//! What went wrong, as RFC 9457 tells it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::identity::IdError;
use crate::store::StoreError;
use crate::views::SurfaceError;

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ParamError {
    /// Which parameter, or where in the body.
    #[schema(example = "at")]
    #[serde(rename = "where")]
    pub place: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl ParamError {
    /// A fault of a parameter, or of a place in the body.
    pub fn new(place: impl Into<String>, problem: impl ToString) -> Self {
        Self { place: place.into(), problem: problem.to_string() }
    }
}

/// An answer that is none: `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the title says what the status says.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What happened here, for a person.
    detail: String,
    /// What happened, for a program.
    #[schema(example = "bad_request")]
    code: &'static str,
    /// What only some problems tell.
    #[serde(flatten)]
    more: Box<More>,
}

/// What only some problems tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
struct More {
    /// Everything that is wrong with the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    faults: Vec<ParamError>,
    /// By code, as `previous` and `next` of a time that no trip covers.
    #[serde(flatten)]
    #[schema(value_type = Object, additional_properties)]
    named: Map<String, Value>,
}

impl Problem {
    /// A problem of a status and a code.
    pub fn new(status: StatusCode, code: &'static str, detail: impl ToString) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            detail: detail.to_string(),
            code,
            more: Box::default(),
        }
    }

    /// Everything that is wrong with a request.
    pub fn faults(faults: Vec<ParamError>) -> Self {
        let all: Vec<_> =
            faults.iter().map(|fault| format!("{}: {}", fault.place, fault.problem)).collect();
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "bad_request", all.join("; "));
        problem.more.faults = faults;
        problem
    }

    /// What happened here, for a person.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What happened, for a program.
    #[cfg(test)]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The same, and what else is to be told.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).expect("an answer is plain data");
        self.more.named.insert(name.to_owned(), value);
        self
    }

    /// Rejects a request for lack of capacity; counted by `reason`.
    pub fn busy(reason: &'static str, detail: &str) -> Self {
        crate::telemetry::rejected(reason);
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    /// Rejects a request whose answer would be too large.
    pub fn large_answer() -> Self {
        let detail = "the answer is too large: ask for less, as with `simplify` for a path or \
            with fewer pairs";
        Self::new(StatusCode::BAD_REQUEST, "answer_too_large", detail)
    }

    /// Ends a request that takes too long; counted by `reason`.
    pub fn cut_off(status: StatusCode, reason: &'static str, detail: impl ToString) -> Self {
        crate::telemetry::rejected(reason);
        Self::new(status, "too_slow", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("it was made from one");
        let mut response = (status, Json(self)).into_response();
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, kind);
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => (),
        }
        response
    }
}

/// A store that fails is told as one that is away: the next try may find it. What it said goes to
/// the log, as it names places that are no business of a client.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        crate::telemetry::failed(error.kind());
        tracing::warn!(error = %chain(&error), "the store did not answer a request");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the store did not answer; the log of the server says why. Try again",
        )
    }
}

impl From<SurfaceError> for Problem {
    fn from(error: SurfaceError) -> Self {
        tracing::error!(error = %chain(&error), "a trip cannot be shown");
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "malformed_trip",
            "the stored trip cannot be shown: see `tstar verify`",
        )
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        Self::faults(vec![ParamError::new("id", error)])
    }
}

/// An error with its causes, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
