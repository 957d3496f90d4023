//! A trip as an answer: its form, its tag, its path.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{App, ServableStore};
use super::middleware::MAX_ANSWER;
use super::params::Detail;
use super::problem::Problem;
use crate::store::TripRow;
use crate::views::{Extras, Form, TripJson, TripWriter};

/// Bytes of trips that end a list, which goes on on the next page.
pub const MAX_LIST: usize = 8 << 20;

/// Paths of more samples are written while other requests are answered.
const LONG_PATH: u64 = 1000;

/// Bytes that a sample of a path takes in an answer, at least.
const MIN_SAMPLE: u64 = 48;

/// Bytes that a trip takes in a list, about: most is ids that it absorbed.
pub fn weight(row: &TripRow) -> usize {
    1000 + row.absorbed.len() * (row.device_id.len() * 3 + 32)
}

/// A trip, and what the question calls for beside it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TripAnswer {
    /// The trip.
    #[serde(flatten)]
    pub trip: TripJson,
    /// What else the answer says.
    #[serde(flatten)]
    pub extras: Extras,
}

/// A page of trips.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TripPage {
    /// The trips, without their paths.
    pub trips: Vec<TripAnswer>,
    /// Where the next page goes on; null where there is none.
    pub next: Option<String>,
}

/// In which form a trip is asked for, by the suffix of its id.
pub fn form_of(id: &str) -> (&str, Form) {
    if let Some(id) = id.strip_suffix(".geojson") {
        (id, Form::GeoJson)
    } else if let Some(id) = id.strip_suffix(".gpx") {
        (id, Form::Gpx)
    } else {
        (id, Form::Json)
    }
}

/// Tells one state of an answer from every other under its URL: a trip changes with its version,
/// and `open` by the clock alone. Weak, as the answer may come compressed.
fn tag(row: &TripRow, extras: &Extras) -> String {
    let open = if extras.open == Some(true) { 'o' } else { 'c' };
    format!("W/\"{:x}-{:x}-{open}\"", row.t_star_ms, row.version)
}

/// Whether the client has this state already.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut tags = given.filter_map(|it| it.to_str().ok()).flat_map(|text| text.split(','));
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    tags.any(|it| it.trim() == "*" || opaque(it) == opaque(tag))
}

impl<S: ServableStore> App<S> {
    /// A trip of a list.
    pub(super) fn listed(&self, row: &TripRow) -> Result<TripAnswer, Problem> {
        let extras = Extras { open: Some(self.is_open(row)), ..Extras::default() };
        Ok(TripAnswer { trip: TripJson::from_row(row)?, extras })
    }

    /// A trip as the answer to a request.
    pub(super) async fn answer(
        &self,
        row: Box<TripRow>,
        mut extras: Extras,
        (form, detail): (Form, Detail),
        headers: &HeaderMap,
    ) -> Result<Response, Problem> {
        extras.open = Some(self.is_open(&row));
        let tag = tag(&row, &extras);
        let mut response = if is_known(headers, &tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else if detail.path || form != Form::Json {
            let samples = u64::try_from(row.samples).unwrap_or_default();
            if detail.simplify_m.is_none() && samples * MIN_SAMPLE > MAX_ANSWER as u64 {
                return Err(Problem::large_answer());
            }
            match samples > LONG_PATH {
                true => self.off_runtime(move || body(&row, extras, form, detail)).await?,
                false => body(&row, extras, form, detail)?,
            }
        } else {
            body(&row, extras, form, detail)?
        };
        let tag = HeaderValue::from_str(&tag).expect("digits and quotes");
        response.headers_mut().insert(header::ETAG, tag);
        Ok(response)
    }
}

fn body(row: &TripRow, extras: Extras, form: Form, detail: Detail) -> Result<Response, Problem> {
    let kind = match form {
        Form::GeoJson => "application/geo+json",
        Form::Gpx => "application/gpx+xml",
        _ => {
            let mut trip = TripJson::from_row(row)?;
            if detail.path {
                trip = trip.with_path(row, detail.simplify_m)?;
            }
            return Ok(Json(TripAnswer { trip, extras }).into_response());
        }
    };
    let mut text = Vec::new();
    let mut writer = TripWriter::new(&mut text, form, true).simplified(detail.simplify_m);
    writer.write(row, &extras)?;
    writer.finish()?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Adds a header whose value is a URL path made of tokens, which need no escapes.
pub fn with_header(mut response: Response, name: HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
