//! The change feed, a page at a time and as a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::ToSchema;

use super::app::{App, ServableStore};
use super::clients::{ClientSlot, Peer};
use super::feed::FeedCursor;
use super::params::Params;
use super::problem::{ParamError, Problem};
use super::session::Access;
use super::trip_response::MAX_LIST;
use crate::kafka::tail::Offsets;

/// How long a stream waits between two looks for what is new.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// How long a client waits whose latest event is not read here yet: another server told it.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How long a quiet stream waits before it says that it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Events read at once.
const CHUNK: usize = 100;

/// A numbered event.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FeedEvent {
    /// Its mark: `after` of the events that follow it.
    seq: FeedCursor,
    /// What happened: `type` is started, grown, merged or forgotten.
    #[schema(value_type = Object)]
    event: Box<RawValue>,
}

/// A page of events.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangePage {
    /// Oldest first.
    changes: Vec<FeedEvent>,
    /// `after` of the next page.
    next: FeedCursor,
}

/// Events of the change feed after a mark.
#[utoipa::path(get, path = "/v1/changes", tag = "changes", operation_id = "changes",
    params(
        ("after" = Option<String>, Query, pattern = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$",
            description = "Events after this mark; without it `next` is told alone"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Events of a page, 100 by default"),
    ),
    responses(
        (status = 200, description = "A page", body = ChangePage),
        (status = 400, description = "Everything that is wrong with the request",
            body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such event yet",
            body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "Not kept any more; `oldest` is the first that is",
            body = Problem, content_type = "application/problem+json"),
        (status = 501, description = "The store keeps no changes, and no topic is read",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    mut ask: Params,
) -> Result<Response, Problem> {
    let (after, limit) = (ask.read("after", FeedCursor::parse), ask.limit());
    ask.finish()?;
    let after = resume_cursor(&app, after).await?;
    let mut changes = app.feed()?.after(&after, limit)?;
    let mut bytes = 0;
    let fits = changes.iter().take_while(|(_, event)| {
        bytes += event.len();
        bytes <= MAX_LIST
    });
    // At least one, or nobody would ever get past it.
    let fits = fits.count().max(1);
    changes.truncate(fits);
    let next = changes.last().map_or(after, |(seq, _)| seq.clone());
    let changes = changes.into_iter().filter_map(|(seq, event)| {
        let event = RawValue::from_string(event.to_string()).ok()?;
        Some(FeedEvent { seq, event })
    });
    Ok(Json(ChangePage { changes: changes.collect(), next }).into_response())
}

/// The change feed as server-sent events, from now on or after `Last-Event-ID`.
#[utoipa::path(get, path = "/v1/changes/stream", tag = "changes", operation_id = "changesStream",
    params(("Last-Event-ID" = Option<String>, Header, pattern = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$",
        description = "Go on after this event")),
    responses(
        (status = 200,
            description = "Each event with its mark as id and its type as name", body = String, content_type = "text/event-stream"),
        (status = 410, description = "Events after this one are not kept any more",
            body = Problem, content_type = "application/problem+json"),
        (status = 501, description = "The store keeps no changes, and no topic is read",
            body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "Too many clients follow already",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn follow<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    Extension(access): Extension<Access>,
    peer: Option<Extension<Peer>>,
    ask: Params,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    ask.finish()?;
    let held = one_more(&app, access, peer.map(|Extension(peer)| peer))?;
    let last = headers.get("last-event-id").map(|value| {
        let text = value.to_str().unwrap_or_default();
        FeedCursor::parse(text)
            .map_err(|error| Problem::faults(vec![ParamError::new("Last-Event-ID", error)]))
    });
    let after = resume_cursor(&app, last.transpose()?).await?;
    let permit = Arc::clone(&app.streams).try_acquire_owned();
    let permit =
        permit.map_err(|_| Problem::busy("streams", "too many clients follow the changes"))?;
    let stopping = app.stopping();
    let follower =
        Follower { app, after, waiting: VecDeque::new(), stopping, _held: (held, permit) };
    let events = stream::unfold(follower, Follower::next);
    let events: std::pin::Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(events);
    let keep = KeepAlive::new().interval(KEEP_ALIVE);
    Ok(Sse::new(events).keep_alive(keep).into_response())
}

/// One more stream of a client: a login, or who asks from one place.
fn one_more<S: ServableStore>(
    app: &App<S>,
    access: Access,
    peer: Option<Peer>,
) -> Result<Option<ClientSlot<String>>, Problem> {
    let Some(peer) = peer else { return Ok(None) };
    let options = &app.options;
    let client = match access {
        Access::Session(name) => name,
        Access::Open | Access::Token => peer.network().to_string(),
    };
    let max = peer.limit(options.streams_per_client, options.streams);
    let held = app.streams_of.acquire(client, max);
    let detail = "this client follows the changes too often already";
    held.map(Some).ok_or_else(|| Problem::busy("client_streams", detail))
}

/// The mark after which a client goes on.
async fn resume_cursor<S: ServableStore>(
    app: &App<S>,
    after: Option<Offsets>,
) -> Result<FeedCursor, Problem> {
    if let Some(after) = &after {
        let until = Instant::now() + CATCH_UP;
        while app.feed()?.is_behind(after) && Instant::now() < until {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    app.feed()?.cursor_after(after)
}

/// One client that follows.
struct Follower<S> {
    app: Arc<App<S>>,
    after: FeedCursor,
    waiting: VecDeque<(FeedCursor, Arc<str>)>,
    stopping: watch::Receiver<bool>,
    /// That it is one of so many, of its client and in all.
    _held: (Option<ClientSlot<String>>, OwnedSemaphorePermit),
}

/// What names an event.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow)]
    name: &'a str,
}

impl<S: ServableStore> Follower<S> {
    /// The next event; `None` ends the stream, and the client comes again with the last number.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        loop {
            if let Some((seq, event)) = self.waiting.pop_front() {
                let kind = serde_json::from_str::<Kind<'_>>(&event).map_or("change", |it| it.name);
                let told = Event::default().id(seq.to_string()).event(kind).data(&*event);
                self.after = seq;
                return Some((Ok(told), self));
            }
            let read = self.read().inspect_err(|problem| {
                tracing::warn!(error = problem.detail(), "a stream of changes ends");
            });
            self.waiting = read.ok()?.into();
            if self.waiting.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_AGAIN) => (),
                    _ = self.stopping.changed() => return None,
                }
            }
        }
    }

    /// What is new. A gap is a fault: what lay between is not kept any more, and only a new start
    /// can tell.
    fn read(&self) -> Result<Vec<(FeedCursor, Arc<str>)>, Problem> {
        let feed = self.app.feed()?;
        let new = feed.after(&self.after, CHUNK)?;
        if !new.is_empty() {
            feed.cursor_after(Some(self.after.numbers()))?;
        }
        Ok(new)
    }
}
