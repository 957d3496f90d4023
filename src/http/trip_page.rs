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
use super::fresh::Fresh;
use super::list_options::{ListOptions, media_type};
use super::problem::Problem;
use super::trip_response::{
    LARGE, MAX_LIST, MIN_SAMPLE, TripAnswer, approximate_size, with_header,
};
use crate::identity::{DeviceId, TripId};
use crate::log::changes::FeedCursor;
use crate::model::scalar::{DeviceTime, Version};
use crate::model::tag::TripTags;
use crate::ops::tags::of_spans;
use crate::store::fresh::FreshRow;
use crate::store::skip::{Missing, collecting};
use crate::store::{Order, SideTables as _, TripRow};
use crate::views::{Extras, Form, TagValues, TripJson, TripWriter, tag_values};

/// Rows read at once; all of their paths are in memory.
const CHUNK: usize = 50;

/// The number of trips that a page lacks, if it lacks any.
const SKIPPED: HeaderName = HeaderName::from_static("tstar-skipped");

/// Maximum number of rows read for a page, and of devices without any: a page whose filter passes
/// few trips ends before it is full.
const MAX_READ: usize = 5000;

/// A page of trips.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct TripPage {
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
pub enum TripItem {
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

/// A page under construction.
pub struct Page<'a> {
    app: &'a App,
    store: Fresh<'a>,
    options: ListOptions,
    /// Rows of the page; without their paths if the answer has none.
    rows: Vec<(TripRow, Extras)>,
    /// The trips include every record of the device before this version, if that is known.
    complete_before: Option<Version>,
    /// Approximate size of the trips in the answer.
    bytes: usize,
    /// Number of rows read, and of devices without any.
    read: usize,
    /// Cursor of the next page, set when a trip does not fit on this one.
    next: Option<TripId>,
    changes: Option<FeedCursor>,
    missing: Missing,
    /// Whether trips may have tags, and the page needs them; `None` until it is known.
    has_tags: Option<bool>,
}

impl<'a> Page<'a> {
    /// An empty page, the first one unless there is a cursor.
    pub fn new(app: &'a App, store: Fresh<'a>, options: ListOptions, is_first: bool) -> Self {
        // Before any row is read: no change is missed in between.
        let changes = is_first.then(|| app.feed().ok()?.cursor_after(None).ok());
        Self {
            app,
            store,
            options,
            rows: Vec::new(),
            complete_before: Some(Version::MAX),
            bytes: 0,
            read: 0,
            next: None,
            changes: changes.flatten(),
            missing: Missing::default(),
            has_tags: None,
        }
    }

    /// Whether the page includes the record at a version.
    pub fn includes(&self, version: Version) -> bool {
        let has = |(row, _): &(TripRow, Extras)| row.version >= version;
        self.complete_before.is_some_and(|before| version < before) || self.rows.iter().any(has)
    }

    /// Whether no trip was found, not even a malformed one.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.next.is_none() && self.missing.trips == 0
    }

    /// Whether the rest is on the next page.
    pub fn is_full(&self) -> bool {
        self.next.is_some()
    }

    /// Adds the trips of a device that overlap a span, until the page is full.
    pub async fn fill(
        &mut self,
        device: &str,
        (mut from_ms, mut to_ms): (DeviceTime, DeviceTime),
        order: Order,
    ) -> Result<(), Problem> {
        while !self.is_full() && from_ms <= to_ms {
            if self.read >= MAX_READ {
                self.end_at(device, if order == Order::Asc { from_ms } else { to_ms });
                return Ok(());
            }
            let found = self.store.range(device, (from_ms, to_ms), order, CHUNK);
            let (found, skipped) = collecting(found).await;
            let found = found?;
            self.complete_before = self.complete_before.min(found.complete_before);
            let count = found.rows.len();
            self.read += count.max(1);
            let last = found.rows.last().map(|found| (found.row.start_ms, found.row.end_ms));
            let last = last.filter(|_| count == CHUNK);
            // What is beyond the last trip is read again.
            let span = match (last, order) {
                (Some((_, end_ms)), Order::Asc) => (from_ms, end_ms),
                (Some((start_ms, _)), Order::Desc) => (start_ms, to_ms),
                (None, _) => (from_ms, to_ms),
            };
            self.missing.add(skipped, span, &found.rows);
            let tags = self.tags(device, &found.rows).await?;
            for (found, tags) in found.rows.into_iter().zip(tags) {
                let is_wanted = self.options.filter.accepts(&found.row, &tags);
                if is_wanted && !self.push(device, found, (order, &tags))? {
                    return Ok(());
                }
            }
            match (last, order) {
                (Some((_, end_ms)), Order::Asc) => from_ms = end_ms + 1,
                (Some((start_ms, _)), Order::Desc) => to_ms = start_ms - 1,
                (None, _) => break,
            }
        }
        Ok(())
    }

    /// The tags of trips of a device, if the page needs them: one read for all.
    async fn tags(&mut self, device: &str, rows: &[FreshRow]) -> Result<Vec<TripTags>, Problem> {
        let store = self.store.store();
        let has_tags = match self.has_tags {
            Some(has_tags) => has_tags,
            None => self.options.reads_tags() && store.has_tags().await?,
        };
        self.has_tags = Some(has_tags);
        if !has_tags {
            return Ok(vec![TripTags::new(); rows.len()]);
        }
        let spans: Vec<_> = rows.iter().map(|it| (it.row.start_ms, it.row.end_ms)).collect();
        Ok(of_spans(store, device, &spans).await?)
    }

    /// Adds a trip, and returns true, if it fits on the page.
    fn push(
        &mut self,
        device: &str,
        found: FreshRow,
        (order, tags): (Order, &TripTags),
    ) -> Result<bool, Problem> {
        let FreshRow { mut row, is_fresh } = found;
        if self.rows.len() == self.options.limit || self.bytes > MAX_LIST {
            self.end_at(device, if order == Order::Asc { row.start_ms } else { row.end_ms });
            return Ok(false);
        }
        self.bytes += approximate_size(&row);
        if self.options.reads_path() {
            let samples = u64::try_from(row.samples).unwrap_or_default();
            let bytes = usize::try_from(samples.saturating_mul(2 * MIN_SAMPLE));
            self.bytes = self.bytes.saturating_add(bytes.unwrap_or(usize::MAX));
        } else {
            row.path = Vec::new();
        }
        let tags = tag_values(tags);
        self.bytes += tags.iter().map(|(key, value)| key.len() + value.len() + 8).sum::<usize>();
        let extras = self.app.list_extras(&row, is_fresh, tags);
        self.rows.push((row, extras));
        Ok(true)
    }

    fn end_at(&mut self, device: &str, t_star_ms: DeviceTime) {
        self.next = Some(TripId { device_id: DeviceId::from_store(device), t_star_ms });
    }

    /// The answer.
    pub async fn answer(self, uri: &Uri) -> Result<Response, Problem> {
        let next = self.next.map(|next| next.key_text());
        let to_next = next.as_deref().map(|next| next_link(uri, next));
        let to_changes = self.changes.as_ref().map(changes_link);
        let links: Vec<String> = to_next.into_iter().chain(to_changes).collect();
        let (app, options, changes) = (self.app, self.options, self.changes);
        let skipped = self.missing.trips;
        let is_large = options.reads_path() || self.bytes > LARGE;
        let fresh = app.freshness(false);
        let expected = Extras { open: Some(false), fresh, ..Extras::tagged(TagValues::new()) };
        let work = move || write((self.rows, expected), &options, (next, changes, skipped));
        let mut response = app.run_if(is_large, work).await?;
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
    let kind = [(header::CONTENT_TYPE, media_type(options.form))];
    if !matches!(options.form, Form::Json | Form::Ndjson) {
        let mut out = Vec::new();
        let writer = TripWriter::new(&mut out, options.form, options.detail.path)?;
        let mut writer = writer.simplified(options.detail.simplify_m).expecting(expected);
        for (row, extras) in &rows {
            writer.write(row, extras)?;
        }
        writer.finish()?;
        return Ok((kind, out).into_response());
    }
    let items = rows.into_iter().map(|(row, extras)| item(&row, extras, options));
    let trips = items.collect::<Result<Vec<_>, _>>()?;
    if options.form == Form::Json {
        return Ok(Json(TripPage { trips, next, changes, skipped }).into_response());
    }
    let line = |trip| serde_json::to_string(trip).expect("a trip is plain data") + "\n";
    Ok((kind, trips.iter().map(line).collect::<String>()).into_response())
}

/// A trip with the selected fields.
fn item(row: &TripRow, extras: Extras, options: &ListOptions) -> Result<TripItem, Problem> {
    let mut trip = TripJson::from_row(row)?;
    if options.detail.path {
        trip = trip.with_path(row, options.detail.simplify_m)?;
    }
    if let Some(rule) = options.detail.stops {
        trip = trip.with_stops(row, rule)?;
    }
    let answer = TripAnswer { trip, extras };
    let Some(fields) = &options.fields else { return Ok(TripItem::Whole(Box::new(answer))) };
    let Value::Object(mut trip) = serde_json::to_value(answer).expect("a trip is plain data")
    else {
        unreachable!("a trip is an object")
    };
    trip.retain(|name, _| fields.contains(name));
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
