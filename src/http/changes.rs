//! Routes of the change feed: pages, and a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::openapi::{KnownFormat, Object, OneOf, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::access::Access;
use super::app::App;
use super::call::Call;
use super::clients::{ClientKey, ClientSlot, Peer};
use super::examples::merged_event;
use super::phase::{Phase, draining};
use super::problem::Problem;
use super::token::Right;
use super::trip_response::MAX_LIST;
use crate::kafka::tail::Offsets;
use crate::log::changes::{ChangeFeed, FeedCursor, FeedError};

/// How often a stream polls for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How long to wait for an event that another server already sent to the client.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of keep-alive comments on an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events read at once.
const CHUNK: usize = 100;

/// Regular expression of a cursor.
const CURSOR_PATTERN: &str = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$";

/// Description of 501.
const NO_FEED: &str = "The store has no change feed, and no topic is read";

impl PartialSchema for FeedCursor {
    fn schema() -> RefOr<Schema> {
        let number = Object::builder()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .description(Some("If the store keeps the change feed: number of the event"));
        let text =
            Object::builder().schema_type(Type::String).pattern(Some(CURSOR_PATTERN)).description(
                Some("If a topic holds the change feed: offset of the next event by partition"),
            );
        Schema::OneOf(OneOf::builder().item(number).item(text).build()).into()
    }
}

impl ToSchema for FeedCursor {}

impl From<FeedError> for Problem {
    fn from(error: FeedError) -> Self {
        let detail = error.to_string();
        match error {
            FeedError::Store(error) => error.into(),
            FeedError::Unavailable(_) => no_changes(detail),
            FeedError::NoChange(_) => Self::new(StatusCode::NOT_FOUND, "no_change", detail),
            FeedError::Gone { oldest, .. } => changes_gone(detail, oldest),
        }
    }
}

fn no_changes(detail: impl ToString) -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "no_changes", detail)
}

fn changes_gone(detail: impl ToString, oldest: impl Serialize) -> Problem {
    Problem::new(StatusCode::GONE, "changes_gone", detail).with("oldest", oldest)
}

impl App {
    /// The change feed.
    pub(super) fn feed(&self) -> Result<Arc<ChangeFeed>, Problem> {
        self.opened()?.feed.ok_or_else(|| {
            no_changes("the store has no change feed, and no topic is read; pass --brokers")
        })
    }
}

/// An event with its cursor.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FeedEvent {
    /// Cursor of the event: pass it as `after` to get the events that follow.
    seq: FeedCursor,
    /// The event; its `type` is started, changed, merged, split, revived or forgotten.
    #[schema(value_type = Object)]
    event: Box<RawValue>,
}

/// A page of events.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ChangePage {
    /// Events, oldest first.
    changes: Vec<FeedEvent>,
    /// Cursor of the next page: pass it as `after`.
    next: FeedCursor,
}

/// Events of the change feed after a cursor.
#[utoipa::path(get, path = "/v1/changes", tag = "changes", operation_id = "changes",
    params(
        ("after" = Option<String>, Query, pattern = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$",
            description = "Return events after this cursor; unset: no events, only the current `next`"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum events per page; default 100"),
    ),
    responses(
        (status = 200, description = "A page of events", body = ChangePage,
            example = json!({"changes": [{"seq": 5, "event": merged_event()}], "next": 5})),
        (status = 404, description = "The cursor is past the newest event", body = Problem,
            example = json!(Problem::from(FeedError::NoChange("event 7 does not exist; the newest is 5".to_owned())))),
        (status = 410, description = "The next events are no longer retained; `oldest` is the cursor of the first that is",
            body = Problem, example = json!(changes_gone("events up to 41 are no longer retained", 42))),
        (status = 501, description = NO_FEED, body = Problem, example = json!(no_changes("the store has no change feed"))),
    ))]
pub(crate) async fn list(mut call: Call) -> Result<Json<ChangePage>, Problem> {
    let (app, params) = (&call.app, &mut call.params);
    let (after, limit) = (params.read("after", FeedCursor::parse), params.limit());
    params.finish()?;
    let after = resume_cursor(app, after).await?;
    let mut changes = app.feed()?.after(&after, limit)?;
    let mut bytes = 0;
    let fits = changes.iter().take_while(|(_, event)| {
        bytes += event.len();
        bytes <= MAX_LIST
    });
    // At least one: otherwise no client could get past a large event.
    let fits = fits.count().max(1);
    changes.truncate(fits);
    let next = changes.last().map_or(after, |(seq, _)| seq.clone());
    let changes = changes.into_iter().filter_map(|(seq, event)| {
        let event = RawValue::from_string(event.to_string()).ok()?;
        Some(FeedEvent { seq, event })
    });
    Ok(Json(ChangePage { changes: changes.collect(), next }))
}

/// The change feed as server-sent events, from now on or after `Last-Event-ID`.
#[utoipa::path(get, path = "/v1/changes/stream", tag = "changes", operation_id = "changesStream",
    params(("Last-Event-ID" = Option<String>, Header, pattern = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$",
        description = "Resume after this event")),
    responses(
        (status = 200,
            description = "Server-sent events; `id` is the cursor, `event` the type", body = String, content_type = "text/event-stream"),
        (status = 410, description = "The events after this one are no longer retained", body = Problem,
            example = json!(changes_gone("events up to 41 are no longer retained", 42))),
        (status = 501, description = NO_FEED, body = Problem, example = json!(no_changes("the store has no change feed"))),
        (status = 503, description = "Too many streams"),
    ))]
pub(crate) async fn follow(mut call: Call) -> Result<Response, Problem> {
    call.params.finish()?;
    let Call { app, access, peer, headers, .. } = call;
    let slot = acquire_stream(&app, &access, peer)?;
    let last = headers.get("last-event-id").map(|value| {
        let text = value.to_str().unwrap_or_default();
        FeedCursor::parse(text).map_err(|error| Problem::fault("Last-Event-ID", error))
    });
    let after = resume_cursor(&app, last.transpose()?).await?;
    let permit = Arc::clone(&app.streams).try_acquire_owned();
    let permit = permit.map_err(|_| Problem::busy("streams", "too many change streams"))?;
    let phase = app.phase();
    let follower =
        Follower { app, access, after, pending: VecDeque::new(), phase, _limits: (slot, permit) };
    let events = stream::unfold(follower, Follower::next);
    let events: std::pin::Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(events);
    let keep = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep).into_response())
}

/// Counts a stream of a client.
fn acquire_stream(
    app: &App,
    access: &Access,
    peer: Peer,
) -> Result<ClientSlot<ClientKey>, Problem> {
    let http = &app.options.settings.http;
    let max = peer.limit(http.client_streams, http.streams);
    let slot = app.client_streams.acquire(access.client(peer), max);
    let detail = "this client has too many change streams";
    slot.ok_or_else(|| Problem::busy("client_streams", detail))
}

/// The cursor that a client resumes from.
async fn resume_cursor(app: &App, after: Option<Offsets>) -> Result<FeedCursor, Problem> {
    if let Some(after) = &after {
        let deadline = Instant::now() + CATCH_UP_TIMEOUT;
        while app.feed()?.is_behind(after) && Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(app.feed()?.cursor_after(after)?)
}

/// A stream of one client.
struct Follower {
    app: Arc<App>,
    access: Access,
    /// Cursor of the last event sent.
    after: FeedCursor,
    /// Events read and not sent yet.
    pending: VecDeque<(FeedCursor, Arc<str>)>,
    phase: watch::Receiver<Phase>,
    /// Its places in the limits of the client and of the server.
    _limits: (ClientSlot<ClientKey>, OwnedSemaphorePermit),
}

/// The type of an event.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    name: &'a str,
}

impl Follower {
    /// The next event. `None` ends the stream; the client reconnects with the last cursor.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some((seq, event)) = self.pending.pop_front() {
                let kind = serde_json::from_str::<Kind<'_>>(&event).map_or("change", |it| it.name);
                let message = Event::default().id(seq.to_string()).event(kind).data(&*event);
                self.after = seq;
                return Some((Ok(message), self));
            }
            // A removed token and a session that ended end their streams.
            if !self.app.still_has(&self.access, Right::Read) {
                return None;
            }
            let read = self.read().inspect_err(|problem| {
                tracing::warn!(error = problem.detail(), "a change stream ended");
            });
            self.pending = read.ok()?.into();
            if self.pending.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(POLL_INTERVAL) => (),
                    () = draining(&mut self.phase) => return None,
                }
            }
        }
    }

    /// Reads new events. Fails if events in between are no longer retained: the client has to start
    /// over.
    fn read(&self) -> Result<Vec<(FeedCursor, Arc<str>)>, Problem> {
        let feed = self.app.feed()?;
        let new = feed.after(&self.after, CHUNK)?;
        if !new.is_empty() {
            feed.cursor_after(Some(self.after.numbers.clone()))?;
        }
        Ok(new)
    }
}
