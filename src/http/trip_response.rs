//! Responses that hold trips: formats, `ETag`, paths.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::budget::MAX_ANSWER;
use super::problem::Problem;
use crate::ops::tags;
use crate::ops::trip_page::{MIN_SAMPLE, approximate_size};
use crate::store::TripRow;
use crate::store::fresh::FreshRow;
use crate::views::{Detail, Extras, Form, TagValues, TripJson, TripWriter};

/// Maximum size of a list of trips, about, in bytes; the rest is on the next page.
pub(crate) const MAX_LIST: usize = 8 << 20;

/// Paths of more samples are written on a blocking thread.
const LONG_PATH: u64 = 1000;

/// So are trips and lists of more bytes: those with thousands of absorbed ids.
pub(crate) const LARGE: usize = 256 << 10;

/// A trip as the answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct TripAnswer {
    /// The trip.
    #[serde(flatten)]
    pub trip: TripJson,
    /// The fields that depend on the request.
    #[serde(flatten)]
    pub extras: Extras,
}

/// Splits an id from the suffix that selects the output format.
pub(crate) fn split_format(id: &str) -> (&str, Form) {
    let served = Form::ALL.into_iter().filter(|form| form.spec().media_type.is_some());
    let mut served = served.filter_map(|form| {
        let id = id.strip_suffix(form.spec().name)?.strip_suffix('.')?;
        Some((id, form))
    });
    served.next().unwrap_or((id, Form::Json))
}

/// The `ETag` of a trip: it changes with the version, with `open`, which depends on the clock, with
/// `fresh` and with the tags. Weak, as the answer may be compressed.
fn etag(row: &TripRow, extras: &Extras) -> String {
    let open = if extras.open == Some(true) { 'o' } else { 'c' };
    let fresh = if extras.fresh == Some(true) { "f" } else { "" };
    let tags = extras.tags.as_ref().filter(|tags| !tags.is_empty());
    let tags = tags.map_or_else(String::new, |tags| {
        let text = serde_json::to_vec(tags).expect("tags are plain data");
        format!("-{:x}", crc32fast::hash(&text))
    });
    format!("W/\"{:x}-{:x}-{open}{fresh}{tags}\"", row.t_star_ms.ms(), row.version.get())
}

/// Whether the client has this version already (`If-None-Match`).
fn is_unchanged(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let mut etags = values.filter_map(|it| it.to_str().ok()).flat_map(|text| text.split(','));
    let opaque = |etag: &str| etag.trim().trim_start_matches("W/").to_owned();
    etags.any(|it| it.trim() == "*" || opaque(it) == opaque(etag))
}

impl App {
    /// A trip as an item of a list.
    pub(super) async fn list_item(
        &self,
        row: TripRow,
        is_fresh: bool,
        tags: TagValues,
    ) -> Result<TripAnswer, Problem> {
        let extras = self.list_extras(&row, is_fresh, tags);
        let is_large = approximate_size(&row) > LARGE;
        let trip = self.run_if(is_large, move || TripJson::from_row(&row)).await?;
        Ok(TripAnswer { trip, extras })
    }

    /// A trip or stop that was found, as lists have it.
    pub(super) async fn answer_for(&self, found: FreshRow) -> Result<TripAnswer, Problem> {
        let tags = tags::values(&*self.store()?, &found.row).await?;
        self.list_item(found.row, found.is_fresh, tags).await
    }

    /// Runs work on a blocking thread if it is large.
    pub(super) async fn run_if<T: Send + 'static>(
        &self,
        is_large: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        if is_large { self.run_blocking(work).await } else { work() }
    }

    /// The field `fresh` of a trip: only where a daemon has memory in front of the store.
    pub(super) fn freshness(&self, is_fresh: bool) -> Option<bool> {
        self.live.is_some().then_some(is_fresh)
    }

    /// The fields of an item of a list that depend on the request.
    pub(super) fn list_extras(&self, row: &TripRow, is_fresh: bool, tags: TagValues) -> Extras {
        let (open, fresh) = (Some(self.is_open(row)), self.freshness(is_fresh));
        Extras { tags: Some(tags), open, fresh, ..Extras::default() }
    }

    /// The response for one trip.
    pub(super) async fn trip_response(
        &self,
        row: Box<TripRow>,
        mut extras: Extras,
        (form, detail): (Form, Detail),
        headers: &HeaderMap,
    ) -> Result<Response, Problem> {
        extras.open = Some(self.is_open(&row));
        let etag = etag(&row, &extras);
        let mut response = if is_unchanged(headers, &etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let samples = u64::try_from(row.samples).unwrap_or_default();
            let has_path = detail.path || form != Form::Json;
            if has_path && detail.simplify_m.is_none() && samples * MIN_SAMPLE > MAX_ANSWER as u64 {
                return Err(Problem::large_answer());
            }
            let is_large = (has_path && samples > LONG_PATH) || approximate_size(&row) > LARGE;
            self.run_if(is_large, move || body(&row, extras, form, detail)).await?
        };
        let etag = HeaderValue::from_str(&etag).expect("digits and quotes");
        response.headers_mut().insert(header::ETAG, etag);
        Ok(response)
    }
}

fn body(row: &TripRow, extras: Extras, form: Form, detail: Detail) -> Result<Response, Problem> {
    let Some(kind) = form.spec().media_type else {
        let trip = TripJson::detailed(row, detail)?;
        return Ok(Json(TripAnswer { trip, extras }).into_response());
    };
    let mut text = Vec::new();
    let mut writer = TripWriter::new(&mut text, form, Detail { path: true, ..detail })?;
    writer.write(row, &extras)?;
    writer.finish()?;
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// Adds a header. The value is made of URL paths and tokens, which are valid in headers.
pub(crate) fn with_header(mut response: Response, name: HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}
