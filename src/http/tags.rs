//! Routes of the tags of a trip.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::app::App;
use super::audit::{self, Client};
use super::body::{Limited, MAX_TAG, require_json};
use super::fresh::find;
use super::origin;
use super::params::Params;
use super::problem::{ParamError, Problem};
use super::trip_response::with_header;
use super::trips::path_segment;
use crate::log::changes::AnnounceError;
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::model::visible::with_causes;
use crate::ops::tags::{self, TagCondition, TagError, TagTarget};
use crate::store::{StoreError, TripRow};
use crate::views::{TagJson, TagValues, TripTagJson, tag_values, trip_tags};

/// The value of a tag to set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTag {
    /// Up to 4096 bytes without control characters other than tabs and line breaks.
    #[schema(max_length = 4096, example = "business")]
    value: String,
}

/// The tags of a trip.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TagList {
    /// The tags, ordered by key.
    tags: Vec<TripTagJson>,
}

/// A tag that was set.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PutTag {
    /// The tag as it is now.
    #[serde(flatten)]
    tag: TripTagJson,
    /// What counted for the key before; null if there was none.
    replaced: Option<TagJson>,
}

impl App {
    /// The values of the tags of a trip.
    pub(super) async fn tags_of(&self, row: &TripRow) -> Result<TagValues, Problem> {
        let target = TagTarget::new(row, row.t_star_ms);
        let found: Result<_, StoreError> = tags::of_trip(&*self.store()?, &target).await;
        Ok(tag_values(&found?))
    }
}

impl App {
    /// Announces tags that were set or, if so marked, removed.
    async fn announce(
        &self,
        device_id: &str,
        changes: impl IntoIterator<Item = (&Tag, bool)> + Send,
    ) -> Result<(), Problem> {
        let Some(feed) = self.opened()?.feed else { return Ok(()) };
        Ok(feed.announce(device_id, changes).await?)
    }
}

impl From<AnnounceError> for Problem {
    fn from(error: AnnounceError) -> Self {
        match error {
            AnnounceError::View(error) => error.into(),
            AnnounceError::Feed { .. } => {
                tracing::warn!(error = %with_causes(&error), "a tag was not announced");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "feed_unavailable", error)
            }
        }
    }
}

type Segments = Result<Path<(String, String)>, PathRejection>;

/// A trip and a key.
struct Addressed {
    id: String,
    target: TagTarget,
    key: TagKey,
}

/// Logs a change of a tag.
fn log(
    client: &Client,
    done: (&str, &str),
    addressed: &Addressed,
    answer: &Result<Response, Problem>,
) {
    let outcome = answer.as_ref().map_or_else(Problem::code, |_| "ok");
    audit::changed_tag(client, done, (&addressed.id, &addressed.key.to_string()), outcome);
}

async fn target(app: &App, id: &str) -> Result<TagTarget, Problem> {
    let found = find(app, id, None).await?;
    Ok(TagTarget::new(&found.row, found.t_star_ms))
}

async fn address(app: &App, segments: Segments, params: Params) -> Result<Addressed, Problem> {
    let (id, key) = match segments {
        Ok(Path(segments)) => segments,
        Err(error) => return Err(Problem::faults(vec![ParamError::new("path", error)])),
    };
    params.finish()?;
    let key = key.parse().map_err(|error| Problem::faults(vec![ParamError::new("key", error)]))?;
    Ok(Addressed { target: target(app, &id).await?, id, key })
}

/// What the headers `If-Match` and `If-None-Match` require.
fn condition(headers: &HeaderMap) -> Result<TagCondition, Problem> {
    let text = |name: HeaderName| {
        headers.get(name).map(|value| value.to_str().unwrap_or_default().trim().to_owned())
    };
    let fault = |name: &str, problem: String| Problem::faults(vec![ParamError::new(name, problem)]);
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(TagCondition::Any),
        (Some(it), None) if it == "*" => Ok(TagCondition::Present),
        (Some(it), None) => {
            let revision = it.trim_start_matches("W/").trim_matches('"').parse::<Revision>();
            revision.map(TagCondition::Revision).map_err(|error| fault("If-Match", error))
        }
        (None, Some(it)) if it == "*" => Ok(TagCondition::Absent),
        (None, Some(it)) => Err(fault("If-None-Match", format!("`{it}` is not `*`"))),
        (Some(_), Some(_)) => Err(fault("If-Match", "give it or If-None-Match".to_owned())),
    }
}

fn problem(error: TagError, device_id: &str) -> Problem {
    let detail = error.to_string();
    let problem = |status, code| Problem::new(status, code, &detail);
    match error {
        TagError::Store(error) => error.into(),
        TagError::Changed(found) => {
            let found = found.map(|found| TripTagJson::new(device_id, &found)).transpose();
            match found {
                Ok(found) => problem(StatusCode::PRECONDITION_FAILED, "changed").with("tag", found),
                Err(error) => error.into(),
            }
        }
        TagError::TooMany => problem(StatusCode::CONFLICT, "too_many_tags"),
        TagError::None(_) => problem(StatusCode::NOT_FOUND, "no_tag"),
        TagError::Contended | TagError::Random(_) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, "busy")
        }
    }
}

/// The tags of a trip, with those of retired ids that they supersede.
#[utoipa::path(get, path = "/v1/trips/{id}/tags", tag = "tags", operation_id = "tags",
    params(("id" = String, Path, description = "Text, key or UUID form",
        example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "The tags", body = TagList),
    ))]
pub async fn list(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    params: Params,
) -> Result<Response, Problem> {
    let id = path_segment(id)?;
    params.finish()?;
    let target = target(&app, &id).await?;
    let found = tags::of_trip(&*app.store()?, &target).await?;
    Ok(Json(TagList { tags: trip_tags(&target.device_id, &found)? }).into_response())
}

/// Sets a tag of a trip, at any id that the trip ever had.
///
/// The tag stays with the trip when the trip grows or merges. If two ids of a trip have the same
/// key, the newest counts.
#[utoipa::path(put, path = "/v1/trips/{id}/tags/{key}", tag = "tags", operation_id = "putTag",
    request_body = NewTag,
    params(
        ("id" = String, Path, description = "Text, key or UUID form",
            example = "truck-17~20261120T213800.123Z"),
        ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = "purpose"),
        ("If-Match" = Option<String>, Header,
            description = "Write only if the tag has this `ETag`; `*`: only if there is one"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: write only if there is none"),
    ),
    responses(
        (status = 200, description = "The tag; `ETag` is its revision", body = PutTag),
        (status = 403, description = "The request is from a page of another origin (`foreign_origin`), or the token does not have the right `write` (`forbidden`)"),
        (status = 409, description = "The trip has 64 keys already (`too_many_tags`)"),
        (status = 412, description = "The tag was changed (`changed`); `tag` is the one that counts, or null"),
    ))]
pub async fn put(
    State(app): State<Arc<App>>,
    client: Client,
    segments: Segments,
    params: Params,
    headers: HeaderMap,
    body: Limited<MAX_TAG>,
) -> Result<Response, Problem> {
    origin::reject_foreign(&headers, app.has_tls())?;
    require_json(&headers)?;
    let condition = condition(&headers)?;
    let value = read_value(&body.bytes)?;
    let addressed = address(&app, segments, params).await?;
    let answer = set(&app, &addressed, &value, condition).await;
    log(&client, ("tag.set", "set"), &addressed, &answer);
    answer
}

async fn set(
    app: &App,
    Addressed { id, target, key }: &Addressed,
    value: &TagValue,
    condition: TagCondition,
) -> Result<Response, Problem> {
    let store = app.store()?;
    let set = tags::set(&*store, target, (key, value), condition, app.now_ms()).await;
    let written = set.map_err(|error| problem(error, &target.device_id))?;
    // A forget that ran meanwhile does not know of the tag.
    if let Err(problem) = find(app, id, None).await {
        if problem.is_final() {
            tags::undo(&*store, target, &written.tag).await?;
        }
        return Err(problem);
    }
    app.announce(&target.device_id, [(&written.tag, false)]).await?;
    let mut superseded = Vec::new();
    let mut replaced = None;
    for older in written.before.iter().flat_map(|it| [&it.tag].into_iter().chain(&it.superseded)) {
        let json = TagJson::new(&target.device_id, older)?;
        replaced.get_or_insert_with(|| json.clone());
        if older.t_star_ms != written.tag.t_star_ms {
            superseded.push(json);
        }
    }
    let (tag, etag) = (TagJson::new(&target.device_id, &written.tag)?, written.tag.revision);
    let answer = PutTag { tag: TripTagJson { key: key.to_string(), tag, superseded }, replaced };
    Ok(with_header(Json(answer).into_response(), header::ETAG, &format!("\"{etag}\"")))
}

fn read_value(body: &[u8]) -> Result<TagValue, Problem> {
    let fault =
        |place: &str, problem: String| Problem::faults(vec![ParamError::new(place, problem)]);
    let parsed: Result<NewTag, _> = serde_json::from_slice(body);
    let tag = parsed
        .map_err(|error| fault("body", format!("{error}; send {{\"value\": \"business\"}}")))?;
    TagValue::new(tag.value).map_err(|error| fault("value", error.to_string()))
}

/// Removes a tag of a trip, at every id that the trip had.
#[utoipa::path(delete, path = "/v1/trips/{id}/tags/{key}", tag = "tags", operation_id = "deleteTag",
    params(
        ("id" = String, Path, description = "Text, key or UUID form",
            example = "truck-17~20261120T213800.123Z"),
        ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = "purpose"),
        ("If-Match" = Option<String>, Header, description = "Remove only if the tag has this `ETag`"),
    ),
    responses(
        (status = 204, description = "The tag is removed"),
        (status = 403, description = "The request is from a page of another origin (`foreign_origin`), or the token does not have the right `write` (`forbidden`)"),
        (status = 404, description = "No trip has the id (`no_trip`), or the trip has no such tag (`no_tag`)"),
        (status = 412, description = "The tag was changed (`changed`); `tag` is the one that counts, or null"),
    ))]
pub async fn delete(
    State(app): State<Arc<App>>,
    client: Client,
    segments: Segments,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    origin::reject_foreign(&headers, app.has_tls())?;
    let condition = condition(&headers)?;
    let addressed = address(&app, segments, params).await?;
    let answer = remove(&app, &addressed, condition).await;
    log(&client, ("tag.remove", "removed"), &addressed, &answer);
    answer
}

async fn remove(
    app: &App,
    Addressed { target, key, .. }: &Addressed,
    condition: TagCondition,
) -> Result<Response, Problem> {
    let found = tags::remove(&*app.store()?, target, key, condition).await;
    let found = found.map_err(|error| problem(error, &target.device_id))?;
    app.announce(&target.device_id, tags::removed(&found)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
