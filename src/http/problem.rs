//! Error responses as problem details (RFC 9457).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::identity::IdError;
use crate::model::visible::with_causes;
use crate::store::StoreError;
use crate::store::skip::REPAIR;
use crate::views::ViewError;

/// A fault of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ParamError {
    /// Parameter, or location in the body.
    #[schema(example = "at")]
    #[serde(rename = "where")]
    pub location: String,
    /// What is wrong, and what is valid.
    pub problem: String,
}

impl ParamError {
    /// A fault of a parameter, or of a location in the body.
    pub(crate) fn new(location: impl Into<String>, problem: impl ToString) -> Self {
        Self { location: location.into(), problem: problem.to_string() }
    }
}

/// An error response: `application/problem+json`.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Always `about:blank`: the title is that of the status.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    kind: &'static str,
    /// Title of the status.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// Message for people.
    detail: String,
    /// Code for programs.
    #[schema(example = "bad_request")]
    code: &'static str,
    /// Fields of some problems.
    #[serde(flatten)]
    more: Box<More>,
}

/// Fields of some problems.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
struct More {
    /// All faults of the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    faults: Vec<ParamError>,
    /// Further fields, by code: for example `previous` and `next` with `no_trip`.
    #[serde(flatten)]
    #[schema(value_type = Object, additional_properties)]
    named: Map<String, Value>,
}

impl Problem {
    /// A problem with a status and a code.
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl ToString) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            detail: detail.to_string(),
            code,
            more: Box::default(),
        }
    }

    /// A `bad_request` with the only fault of the request.
    pub(crate) fn fault(location: &str, problem: impl ToString) -> Self {
        Self::faults(vec![ParamError::new(location, problem)])
    }

    /// A `bad_request` with all faults of the request.
    pub(crate) fn faults(faults: Vec<ParamError>) -> Self {
        let all: Vec<_> =
            faults.iter().map(|fault| format!("{}: {}", fault.location, fault.problem)).collect();
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "bad_request", all.join("; "));
        problem.more.faults = faults;
        problem
    }

    /// HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Message for people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Code for programs.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// Adds a field.
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).expect("an answer is plain data");
        self.more.named.insert(name.to_owned(), value);
        self
    }

    /// Adds the name of the other instance that owns the device, if it is known.
    pub(crate) fn with_owner(self, owner: Option<&String>) -> Self {
        match owner {
            Some(owner) => self.with("owner", owner),
            None => self,
        }
    }

    /// Rejects a request over a limit with 503. Counted by `reason`.
    pub(crate) fn busy(reason: &'static str, detail: &str) -> Self {
        crate::telemetry::rejected(reason);
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
    }

    /// Rejects a request because its answer would be too large.
    pub(crate) fn large_answer() -> Self {
        let detail = "the answer is too large; request less: `simplify` for a path, or fewer pairs";
        Self::new(StatusCode::BAD_REQUEST, "answer_too_large", detail)
    }

    /// A stored trip cannot be read. Not 503: a retry gets the same answer, until it is repaired.
    pub(crate) fn malformed_trip(what: &str) -> Self {
        let detail = format!("{what}; {REPAIR}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "malformed_trip", detail)
    }

    /// Aborts a request that takes too long. Counted by `reason`.
    pub(crate) fn cut_off(status: StatusCode, reason: &'static str, detail: impl ToString) -> Self {
        crate::telemetry::rejected(reason);
        Self::new(status, "too_slow", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("it was made from a status");
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

/// Every other store error than a malformed row is reported as unavailable, since a retry may
/// succeed. The error itself goes to the log only, as it may name hosts and files.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        crate::telemetry::failed(error.kind());
        if let StoreError::Malformed(row) = &error {
            return Self::malformed_trip(&row.to_string());
        }
        tracing::warn!(error = %with_causes(&error), "store error while answering a request");
        let detail = match error {
            StoreError::Gone { .. } => {
                "the file of the store was removed, moved or replaced; put it back, or restart the \
                 server"
            }
            _ => "the store did not answer; retry, or see the log of the server for the reason",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
    }
}

impl From<ViewError> for Problem {
    fn from(error: ViewError) -> Self {
        tracing::error!(error = %with_causes(&error), "a trip cannot be shown");
        Self::malformed_trip("the stored trip cannot be shown")
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_id", error)
    }
}
