//! Routes of the tags of a trip.

use axum::Json;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::access::forbidden;
use super::audit;
use super::body::{Limited, MAX_TAG, require_json};
use super::call::{Call, Segments};
use super::descriptions::{CHANGED, FORBIDDEN_CHANGE, TRIP_ID};
use super::examples::{id, time};
use super::fresh::{IdLookup, find, no_trip};
use super::origin;
use super::phase::OpenStore;
use super::problem::Problem;
use super::token::Right;
use super::trip_response::with_header;
use crate::log::changes::{AnnounceError, ChangeFeed};
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::model::visible::with_causes;
use crate::ops::tags::{self, TagCondition, TagError, TagTarget, TagWriter, WrittenTag};
use crate::views::{TagJson, TripTagJson, trip_tags};

/// The value of a tag to set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTag {
    /// Up to 4096 bytes without control characters other than tabs and line breaks.
    #[schema(max_length = 4096, example = "business")]
    value: String,
}

/// The tags of a trip.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct TagList {
    /// The tags, ordered by key.
    tags: Vec<TripTagJson>,
}

/// A tag that was set.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PutTag {
    /// The tag as it is now.
    #[serde(flatten)]
    tag: TripTagJson,
    /// What counted for the key before; null if there was none.
    replaced: Option<TagJson>,
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

/// A tag to change.
struct TagChange {
    call: Call,
    opened: OpenStore,
    /// The id of the trip, as the client wrote it.
    id: String,
    lookup: IdLookup,
    key: TagKey,
}

impl TagChange {
    async fn new(mut call: Call, (id, key): (String, String)) -> Result<Self, Problem> {
        call.params.finish()?;
        let key = key.parse().map_err(|error| Problem::fault("key", error))?;
        let lookup = find(&call.app, &id, None).await?;
        Ok(Self { opened: call.app.opened()?, call, id, lookup, key })
    }

    fn writer(&self) -> TagWriter<'_> {
        let IdLookup { id, found, .. } = &self.lookup;
        TagWriter {
            store: self.call.app.fresh(&self.opened.store),
            feed: self.opened.feed.as_deref().and_then(ChangeFeed::tags),
            id: (&self.id, id),
            target: TagTarget::new(&found.row, found.t_star_ms),
        }
    }

    fn device(&self) -> &str {
        &self.lookup.found.row.device_id
    }

    /// Logs the change, and answers.
    fn answer(
        &self,
        done: (&str, &str),
        changed: Result<Response, TagError>,
    ) -> Result<Response, Problem> {
        let owner = self.lookup.owner.as_ref();
        let answer = changed.map_err(|error| problem(error, self.device(), owner));
        let outcome = answer.as_ref().map_or_else(Problem::code, |_| "ok");
        let client = (self.call.token_name(), self.call.peer);
        audit::changed_tag(client, done, (&self.id, self.key.as_str()), outcome);
        answer
    }
}

/// What the headers `If-Match` and `If-None-Match` require.
fn condition(headers: &HeaderMap) -> Result<TagCondition, Problem> {
    let text = |name: HeaderName| {
        headers.get(name).map(|value| value.to_str().unwrap_or_default().trim().to_owned())
    };
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, None) => Ok(TagCondition::Any),
        (Some(it), None) if it == "*" => Ok(TagCondition::Present),
        (Some(it), None) => {
            let revision = it.trim_start_matches("W/").trim_matches('"').parse::<Revision>();
            revision.map(TagCondition::Revision).map_err(|error| Problem::fault("If-Match", error))
        }
        (None, Some(it)) if it == "*" => Ok(TagCondition::Absent),
        (None, Some(it)) => Err(Problem::fault("If-None-Match", format!("`{it}` is not `*`"))),
        (Some(_), Some(_)) => Err(Problem::fault("If-Match", "give it or If-None-Match")),
    }
}

fn problem(error: TagError, device_id: &str, owner: Option<&String>) -> Problem {
    let detail = error.to_string();
    let problem = |status, code| Problem::new(status, code, &detail);
    match error {
        TagError::Store(error) => error.into(),
        TagError::Announce(error) => (*error).into(),
        TagError::NoTrip(none) => no_trip(none, owner),
        TagError::View(error) => error.into(),
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
    params(("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "The tags", body = TagList, example = json!({"tags": [example()]})),
    ))]
pub(crate) async fn list(
    mut call: Call,
    Segments(id): Segments<String>,
) -> Result<Json<TagList>, Problem> {
    call.params.finish()?;
    let found = find(&call.app, &id, None).await?.found;
    let target = TagTarget::new(&found.row, found.t_star_ms);
    let tags = tags::of_trip(&*call.app.store()?, &target).await?;
    Ok(Json(TagList { tags: trip_tags(&target.device_id, &tags)? }))
}

/// Sets a tag of a trip, at any id that the trip ever had.
///
/// The tag stays with the trip when the trip grows or merges. If two ids of a trip have the same
/// key, the newest counts.
#[utoipa::path(put, path = "/v1/trips/{id}/tags/{key}", tag = "tags", operation_id = "putTag",
    request_body(content = NewTag, example = json!({"value": "business"})),
    params(
        ("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z"),
        ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = "purpose"),
        ("If-Match" = Option<String>, Header,
            description = "Write only if the tag has this `ETag`; `*`: only if there is one"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: write only if there is none"),
    ),
    responses(
        (status = 200, description = "The tag; `ETag` is its revision", body = PutTag, example = json!(put_example())),
        (status = 403, description = FORBIDDEN_CHANGE, body = Problem, example = json!(forbidden("maps", Right::Write))),
        (status = 409, description = "The trip has 64 keys already (`too_many_tags`)", body = Problem,
            example = json!(problem(TagError::TooMany, "", None))),
        (status = 412, description = CHANGED, body = Problem, example = json!(changed_example())),
    ))]
pub(crate) async fn put(
    call: Call,
    Segments(path): Segments<(String, String)>,
    body: Limited<MAX_TAG>,
) -> Result<Response, Problem> {
    origin::reject_foreign(&call.headers, call.app.has_tls())?;
    require_json(&call.headers)?;
    let condition = condition(&call.headers)?;
    let value = read_value(&body.bytes)?;
    let change = TagChange::new(call, path).await?;
    let tag = (&change.key, &value);
    let written = change.writer().set(tag, condition, change.call.app.now_ms()).await;
    let answer = written.and_then(|written| written_tag(change.device(), &written));
    change.answer(("tag.set", "set"), answer)
}

fn written_tag(
    device: &str,
    WrittenTag { tag, before }: &WrittenTag,
) -> Result<Response, TagError> {
    let json = |tag: &Tag| TagJson::new(device, tag);
    let replaced = before.as_ref().map(|it| json(&it.tag)).transpose()?;
    let older = before.iter().flat_map(|it| [&it.tag].into_iter().chain(&it.superseded));
    let superseded = older.filter(|older| older.t_star_ms != tag.t_star_ms).map(json);
    let superseded = superseded.collect::<Result<_, _>>()?;
    let etag = format!("\"{}\"", tag.revision);
    let tag = TripTagJson { key: tag.key.to_string(), tag: json(tag)?, superseded };
    let answer = Json(PutTag { tag, replaced }).into_response();
    Ok(with_header(answer, header::ETAG, &etag))
}

fn read_value(body: &[u8]) -> Result<TagValue, Problem> {
    let parsed: Result<NewTag, _> = serde_json::from_slice(body);
    let tag = parsed.map_err(|error| {
        Problem::fault("body", format!("{error}; send {{\"value\": \"business\"}}"))
    })?;
    TagValue::new(tag.value).map_err(|error| Problem::fault("value", error))
}

/// Removes a tag of a trip, at every id that the trip had.
#[utoipa::path(delete, path = "/v1/trips/{id}/tags/{key}", tag = "tags", operation_id = "deleteTag",
    params(
        ("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z"),
        ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = "purpose"),
        ("If-Match" = Option<String>, Header, description = "Remove only if the tag has this `ETag`"),
    ),
    responses(
        (status = 204, description = "The tag is removed"),
        (status = 403, description = FORBIDDEN_CHANGE, body = Problem, example = json!(forbidden("maps", Right::Write))),
        (status = 404, description = "No trip has the id (`no_trip`), or the trip has no such tag (`no_tag`)", body = Problem,
            example = json!(problem(TagError::None("purpose".parse().expect("it is a key")), "", None))),
        (status = 412, description = CHANGED, body = Problem, example = json!(changed_example())),
    ))]
pub(crate) async fn delete(
    call: Call,
    Segments(path): Segments<(String, String)>,
) -> Result<Response, Problem> {
    origin::reject_foreign(&call.headers, call.app.has_tls())?;
    let condition = condition(&call.headers)?;
    let change = TagChange::new(call, path).await?;
    let removed = change.writer().remove(&change.key, condition).await;
    let answer = removed.map(|_| StatusCode::NO_CONTENT.into_response());
    change.answer(("tag.remove", "removed"), answer)
}

/// A tag that was set at a retired id, and the one that it supersedes.
fn example() -> Value {
    let set = |value: &str, minutes: i64, revision: &str| json!({"value": value, "id": id(minutes), "time": time(60 + minutes), "revision": revision});
    let mut tag = set("business", 10, "9f86d081884c7d65");
    tag["key"] = "purpose".into();
    tag["superseded"] = json!([set("private", 0, "2c26b46b68ffc68f")]);
    tag
}

fn put_example() -> Value {
    let mut answer = example();
    answer["replaced"] = answer["superseded"][0].clone();
    answer
}

fn changed_example() -> Problem {
    let detail = "the tag was changed: its revision is now 9f86d081884c7d65; read it again";
    Problem::new(StatusCode::PRECONDITION_FAILED, "changed", detail).with("tag", example())
}
