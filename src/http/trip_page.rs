//! A page of a list of trips: filled from the store, then written in the format of the list.

use axum::Json;
use axum::http::{HeaderName, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::openapi::schema::{AnyOf, Object};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::app::App;
use super::list_options::ListOptions;
use super::problem::Problem;
use super::trip_response::{LARGE, TripAnswer, with_header};
use crate::log::changes::FeedCursor;
use crate::ops::trip_page::TripPage;
use crate::store::TripRow;
use crate::store::fresh::FreshRow;
use crate::views::{Extras, Form, TagValues, TripJson, TripWriter};

/// The number of trips that a page lacks, if it lacks any.
const SKIPPED: HeaderName = HeaderName::from_static("tstar-skipped");

/// A page of trips.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = TripPage)]
pub(crate) struct TripList {
    /// The trips.
    pub trips: Vec<TripItem>,
    /// Cursor of the next page; null on the last page. A page before the last may have fewer trips
    /// than its limit, or none.
    pub next: Option<String>,
    /// On the first page, the cursor from which `/v1/changes` has every later change of these
    /// trips; null on other pages, and without a change feed.
    pub changes: Option<FeedCursor>,
    /// Number of trips that the page lacks, as their rows are malformed. Other formats have it in
    /// the header `Tstar-Skipped`.
    pub skipped: u64,
}

/// A trip of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum TripItem {
    /// All fields.
    Whole(Box<TripAnswer>),
    /// Those selected by `fields`.
    Selected(Map<String, Value>),
}

impl PartialSchema for TripItem {
    fn schema() -> RefOr<Schema> {
        let selected = Object::builder().description(Some("The fields that `fields` selects"));
        let whole = Ref::from_schema_name("TripAnswer");
        Schema::AnyOf(AnyOf::builder().item(whole).item(selected).build()).into()
    }
}

impl ToSchema for TripItem {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((TripAnswer::name().into_owned(), TripAnswer::schema()));
        TripAnswer::schemas(schemas);
    }
}

impl App {
    /// The cursor from which the change feed has what changes from now on.
    pub(super) fn changes_cursor(&self) -> Option<FeedCursor> {
        self.feed().ok()?.cursor_after(None).ok()
    }

    /// The answer with a page. `changes` was the cursor of the feed before any row was read.
    pub(super) async fn page_response(
        &self,
        page: TripPage<'_>,
        options: ListOptions,
        changes: Option<FeedCursor>,
        uri: &Uri,
    ) -> Result<Response, Problem> {
        let next = page.next.map(|next| next.key_text());
        let to_next = next.as_deref().map(|next| next_link(uri, next));
        let to_changes = changes.as_ref().map(changes_link);
        let links: Vec<String> = to_next.into_iter().chain(to_changes).collect();
        let skipped = page.missing.trips;
        let is_large = options.reads_path() || page.bytes > LARGE;
        let with_extras = |(found, tags): (FreshRow, TagValues)| {
            let extras = self.list_extras(&found.row, found.is_fresh, tags);
            (found.row, extras)
        };
        let mut rows: Vec<_> = page.rows.into_iter().map(with_extras).collect();
        let fresh = self.freshness(false);
        let mut expected = Extras { open: Some(false), fresh, ..Extras::tagged(TagValues::new()) };
        if let Some(silences) = page.silences {
            expected.set_silence(None);
            for ((_, extras), silence) in rows.iter_mut().zip(silences) {
                extras.set_silence(silence);
            }
        }
        let work = move || write((rows, expected), &options, (next, changes, skipped));
        let mut response = self.run_if(is_large, work).await?;
        if skipped > 0 {
            response.headers_mut().insert(SKIPPED, skipped.into());
        }
        let response = with_header(response, header::VARY, "accept");
        Ok(match links.is_empty() {
            true => response,
            false => with_header(response, header::LINK, &links.join(", ")),
        })
    }
}

/// Writes the rows of a page, whose fields are the expected ones.
fn write(
    (rows, expected): (Vec<(TripRow, Extras)>, Extras),
    options: &ListOptions,
    (next, changes, skipped): (Option<String>, Option<FeedCursor>, u64),
) -> Result<Response, Problem> {
    let kind =
        [(header::CONTENT_TYPE, options.form.spec().list_type.unwrap_or("application/json"))];
    if !matches!(options.form, Form::Json | Form::Ndjson) {
        let mut out = Vec::new();
        let writer = TripWriter::new(&mut out, options.form, options.detail)?;
        let mut writer = writer.expecting(expected).in_zone(options.zone);
        for (row, extras) in &rows {
            writer.write(row, extras)?;
        }
        writer.finish()?;
        return Ok((kind, out).into_response());
    }
    let items = rows.into_iter().map(|(row, extras)| item(&row, extras, options));
    let trips = items.collect::<Result<Vec<_>, _>>()?;
    if options.form == Form::Json {
        return Ok(Json(TripList { trips, next, changes, skipped }).into_response());
    }
    let line = |trip| serde_json::to_string(trip).expect("a trip is plain data") + "\n";
    Ok((kind, trips.iter().map(line).collect::<String>()).into_response())
}

/// A trip with the selected fields.
fn item(row: &TripRow, extras: Extras, options: &ListOptions) -> Result<TripItem, Problem> {
    let answer = TripAnswer { trip: TripJson::detailed(row, options.detail)?, extras };
    let Some(fields) = &options.fields else { return Ok(TripItem::Whole(Box::new(answer))) };
    let Value::Object(mut trip) = serde_json::to_value(answer).expect("a trip is plain data")
    else {
        unreachable!("a trip is an object")
    };
    // What another parameter asked for is there, too.
    trip.retain(|name, _| fields.contains(name) || name.starts_with("silence_"));
    Ok(TripItem::Selected(trip))
}

/// The `Link` of the next page: the same request with another cursor.
pub(super) fn next_link(uri: &Uri, cursor: &str) -> String {
    let pairs = uri.query().unwrap_or_default().split('&');
    let others = pairs.filter(|pair| !pair.is_empty() && !pair.starts_with("cursor="));
    let query: Vec<_> = others.map(str::to_owned).chain([format!("cursor={cursor}")]).collect();
    format!("<{}?{}>; rel=\"next\"", uri.path(), query.join("&"))
}

/// The `Link` of the changes since a page.
fn changes_link(after: &FeedCursor) -> String {
    format!("</v1/changes?after={after}>; rel=\"changes\"")
}
