//! Routes of the tags of a trip, and of those of a device.

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
use super::descriptions::{CHANGED, DEVICE_TOKEN, FORBIDDEN_CHANGE, TRIP_ID};
use super::examples::{DEVICE, id, time};
use super::fresh::{IdLookup, find, no_trip};
use super::origin;
use super::phase::OpenStore;
use super::problem::Problem;
use super::token::Right;
use super::trip_response::with_header;
use super::trips::no_device;
use crate::identity::{AnyId, token_of_device};
use crate::log::changes::{AnnounceError, ChangeFeed};
use crate::model::tag::{Revision, Tag, TagKey, TagValue};
use crate::model::visible::with_causes;
use crate::ops::tags::{self, TagCondition, TagError, TagTarget, TagWriter, WrittenTag};
use crate::views::{TagJson, TripTagJson, trip_tags};

const NO_DEVICE: &str = "The device has no trip or stop (`no_device`)";

/// The value of a tag to set.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTag {
    /// Up to 4096 bytes without control characters other than tabs and line breaks.
    #[schema(max_length = 4096, example = "business")]
    value: String,
}

/// The tags of a trip or device.
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

/// The part of a URL path that names what has tags.
enum TagPath {
    /// Id of a trip.
    Trip(String),
    /// Token of a device.
    Device(String),
}

/// What has tags.
struct Tagged {
    /// The id of the trip: as the client wrote it, and what it is. `None`: the device.
    id: Option<(String, AnyId)>,
    /// The other instance that owns the device of the trip.
    owner: Option<String>,
    target: TagTarget,
}

impl TagPath {
    /// Finds what has the tags. Requires that the request has no parameters.
    async fn find(self, call: &mut Call) -> Result<Tagged, Problem> {
        match self {
            Self::Trip(text) => {
                call.params.finish()?;
                let IdLookup { id, found, owner } = find(&call.app, &text, None).await?;
                let target = TagTarget::new(&found.row, found.t_star_ms);
                Ok(Tagged { id: Some((text, id)), owner, target })
            }
            Self::Device(token) => {
                let device = call.params.token(&token);
                call.params.finish()?;
                let device = device.expect("it has no fault");
                let store = call.app.store()?;
                let found = tags::find_device(&call.app.fresh(&store), &device).await;
                let target = found.map_err(|error| problem(error, &device, None))?;
                Ok(Tagged { id: None, owner: None, target })
            }
        }
    }
}

/// A tag to change.
struct TagChange {
    call: Call,
    opened: OpenStore,
    tagged: Tagged,
    key: TagKey,
}

impl TagChange {
    async fn new(mut call: Call, path: TagPath, key: &str) -> Result<Self, Problem> {
        let key = key.parse().map_err(|error| Problem::fault("key", error))?;
        let tagged = path.find(&mut call).await?;
        Ok(Self { opened: call.app.opened()?, call, tagged, key })
    }

    fn writer(&self) -> TagWriter<'_> {
        TagWriter {
            store: self.call.app.fresh(&self.opened.store),
            feed: self.opened.feed.as_deref().and_then(ChangeFeed::tags),
            id: self.tagged.id.as_ref().map(|(text, id)| (&**text, id)),
            target: self.tagged.target.clone(),
        }
    }

    fn device(&self) -> &str {
        &self.tagged.target.device_id
    }

    /// Logs the change, and answers.
    fn answer(
        &self,
        done: (&str, &str),
        changed: Result<Response, TagError>,
    ) -> Result<Response, Problem> {
        let owner = self.tagged.owner.as_ref();
        let answer = changed.map_err(|error| problem(error, self.device(), owner));
        let outcome = answer.as_ref().map_or_else(Problem::code, |_| "ok");
        let client = (self.call.token_name(), self.call.peer);
        let trip = self.tagged.id.as_ref().map(|(text, _)| &**text);
        let name = (trip, &*token_of_device(self.device()));
        audit::changed_tag(client, done, name, (self.key.as_str(), outcome));
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
        TagError::NoDevice(device_id) => no_device(&device_id),
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
    call: Call,
    Segments(id): Segments<String>,
) -> Result<Json<TagList>, Problem> {
    read(call, TagPath::Trip(id)).await
}

/// The tags of a device.
#[utoipa::path(get, path = "/v1/devices/{token}/tags", tag = "tags", operation_id = "deviceTags",
    params(("token" = String, Path, description = DEVICE_TOKEN, example = "truck-17")),
    responses(
        (status = 200, description = "The tags", body = TagList, example = json!({"tags": [device_example()]})),
        (status = 404, description = NO_DEVICE, body = Problem, example = json!(no_device(DEVICE))),
    ))]
pub(crate) async fn list_device(
    call: Call,
    Segments(token): Segments<String>,
) -> Result<Json<TagList>, Problem> {
    read(call, TagPath::Device(token)).await
}

async fn read(mut call: Call, path: TagPath) -> Result<Json<TagList>, Problem> {
    let target = path.find(&mut call).await?.target;
    let tags = tags::of_target(&*call.app.store()?, &target).await?;
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
    Segments((id, key)): Segments<(String, String)>,
    body: Limited<MAX_TAG>,
) -> Result<Response, Problem> {
    set(call, TagPath::Trip(id), &key, &body.bytes).await
}

/// Sets a tag of a device, such as its name or its group.
///
/// The tag stays with the device until all of its trips and stops are erased.
#[utoipa::path(put, path = "/v1/devices/{token}/tags/{key}", tag = "tags", operation_id = "putDeviceTag",
    request_body(content = NewTag, example = json!({"value": "Blue van"})),
    params(
        ("token" = String, Path, description = DEVICE_TOKEN, example = "truck-17"),
        ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = "name"),
        ("If-Match" = Option<String>, Header,
            description = "Write only if the tag has this `ETag`; `*`: only if there is one"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: write only if there is none"),
    ),
    responses(
        (status = 200, description = "The tag; `ETag` is its revision", body = PutTag, example = json!(put_device_example())),
        (status = 403, description = FORBIDDEN_CHANGE, body = Problem, example = json!(forbidden("maps", Right::Write))),
        (status = 404, description = NO_DEVICE, body = Problem, example = json!(no_device(DEVICE))),
        (status = 409, description = "The device has 64 keys already (`too_many_tags`)", body = Problem,
            example = json!(problem(TagError::TooMany, "", None))),
        (status = 412, description = CHANGED, body = Problem, example = json!(changed_example())),
    ))]
pub(crate) async fn put_device(
    call: Call,
    Segments((token, key)): Segments<(String, String)>,
    body: Limited<MAX_TAG>,
) -> Result<Response, Problem> {
    set(call, TagPath::Device(token), &key, &body.bytes).await
}

async fn set(call: Call, path: TagPath, key: &str, body: &[u8]) -> Result<Response, Problem> {
    origin::reject_foreign(&call.headers, call.app.has_tls())?;
    require_json(&call.headers)?;
    let condition = condition(&call.headers)?;
    let value = read_value(body)?;
    let change = TagChange::new(call, path, key).await?;
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

/// The route that removes a tag of what a part of its path names.
macro_rules! delete_route {
    ($(#[doc = $doc:tt])* $handler:ident, $id:tt, $of:ident, $path:tt,
        $name:tt ($description:tt, $example:tt), $key:tt, $missing:tt) => {
        $(#[doc = $doc])*
        #[utoipa::path(delete, path = $path, tag = "tags", operation_id = $id,
            params(
                ($name = String, Path, description = $description, example = $example),
                ("key" = String, Path, pattern = "^[A-Za-z0-9._-]{1,64}$", description = "Key of the tag", example = $key),
                ("If-Match" = Option<String>, Header, description = "Remove only if the tag has this `ETag`"),
            ),
            responses(
                (status = 204, description = "The tag is removed"),
                (status = 403, description = FORBIDDEN_CHANGE, body = Problem,
                    example = json!(forbidden("maps", Right::Write))),
                (status = 404, description = $missing, body = Problem,
                    example = json!(no_tag($key))),
                (status = 412, description = CHANGED, body = Problem,
                    example = json!(changed_example())),
            ))]
        pub(crate) async fn $handler(
            call: Call,
            Segments((of, key)): Segments<(String, String)>,
        ) -> Result<Response, Problem> {
            remove(call, TagPath::$of(of), &key).await
        }
    };
}

delete_route!(
    /// Removes a tag of a trip, at every id that the trip had.
    delete, "deleteTag", Trip, "/v1/trips/{id}/tags/{key}",
    "id" (TRIP_ID, "truck-17~20261120T213800.123Z"), "purpose",
    "No trip has the id (`no_trip`), or the trip has no such tag (`no_tag`)"
);

delete_route!(
    /// Removes a tag of a device.
    delete_device, "deleteDeviceTag", Device, "/v1/devices/{token}/tags/{key}",
    "token" (DEVICE_TOKEN, "truck-17"), "name",
    "The device has no trip or stop (`no_device`), or no such tag (`no_tag`)"
);

async fn remove(call: Call, path: TagPath, key: &str) -> Result<Response, Problem> {
    origin::reject_foreign(&call.headers, call.app.has_tls())?;
    let condition = condition(&call.headers)?;
    let change = TagChange::new(call, path, key).await?;
    let removed = change.writer().remove(&change.key, condition).await;
    let answer = removed.map(|_| StatusCode::NO_CONTENT.into_response());
    change.answer(("tag.remove", "removed"), answer)
}

fn no_tag(key: &str) -> Problem {
    problem(TagError::None(key.parse().expect("it is a key")), "", None)
}

/// A tag that was set at a retired id, and the one that it supersedes.
fn example() -> Value {
    let set = |value: &str, minutes: i64, revision: &str| json!({"value": value, "id": id(minutes), "time": time(60 + minutes), "revision": revision});
    let mut tag = set("business", 10, "9f86d081884c7d65");
    tag["key"] = "purpose".into();
    tag["superseded"] = json!([set("private", 0, "2c26b46b68ffc68f")]);
    tag
}

fn device_example() -> Value {
    let mut tag = json!({"key": "name", "value": "Blue van", "id": null, "time": time(60)});
    tag["revision"] = "9f86d081884c7d65".into();
    tag["superseded"] = json!([]);
    tag
}

fn put_device_example() -> Value {
    let mut answer = device_example();
    answer["replaced"] = Value::Null;
    answer
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
