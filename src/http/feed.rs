//! The source of the change feed: the store, or a topic.

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::{Serialize, Serializer};
use utoipa::openapi::{KnownFormat, Object, OneOf, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::app::App;
use super::phase::Store;
use super::problem::Problem;
use crate::kafka::tail::{Offsets, Span, Tail};
use crate::store::StoreError;

/// Regular expression of a cursor.
pub const CURSOR_PATTERN: &str = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$";

/// Position of a client in the change feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedCursor {
    /// In a store: the number of the last event read.
    Number(i64),
    /// In a topic: the offset of the next event by partition.
    Offsets(Offsets),
}

impl FeedCursor {
    /// Parses numbers separated by dots.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Offsets, String> {
        let number = |digits: &str| {
            let is_number = matches!(digits.len(), 1..=18);
            let is_number = is_number && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let numbers: Option<Offsets> = text.split('.').map(number).collect();
        numbers.filter(|numbers| numbers.len() <= 1000).ok_or_else(|| {
            format!("`{text}` is not a valid cursor; use `next` of a page or the id of an event")
        })
    }

    /// The numbers of the cursor, as [`FeedCursor::parse`] returns them.
    pub fn numbers(&self) -> Offsets {
        match self {
            Self::Number(number) => vec![*number],
            Self::Offsets(offsets) => offsets.clone(),
        }
    }
}

impl fmt::Display for FeedCursor {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(to, "{number}"),
            Self::Offsets(offsets) => {
                let texts: Vec<_> = offsets.iter().map(i64::to_string).collect();
                to.write_str(&texts.join("."))
            }
        }
    }
}

impl Serialize for FeedCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Offsets(_) => serializer.collect_str(self),
        }
    }
}

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

/// The source of the change feed.
pub enum Feed {
    /// A store that keeps the change feed.
    Store(Arc<Store>),
    /// The latest events of a topic, in memory.
    Topic(Arc<Tail>),
}

fn no_changes(detail: &str) -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "no_changes", detail)
}

fn no_change(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_change", detail)
}

fn gone(detail: String, oldest: &FeedCursor) -> Problem {
    Problem::new(StatusCode::GONE, "changes_gone", detail).with("oldest", oldest)
}

impl App {
    /// The source of the change feed.
    pub(super) fn feed(&self) -> Result<Feed, Problem> {
        let opened = self.opened()?;
        if opened.store.0.kept_changes()?.is_some() {
            return Ok(Feed::Store(opened.store));
        }
        opened.feed.map(Feed::Topic).ok_or_else(|| {
            no_changes("the store has no change feed, and no topic is read; pass --brokers")
        })
    }
}

impl Feed {
    /// Whether the change feed can be read now.
    pub fn is_available(&self) -> bool {
        match self {
            Self::Store(_) => true,
            Self::Topic(tail) => tail.span().is_ok(),
        }
    }

    /// Whether the cursor, from another server, is past what this server has read so far.
    pub fn is_behind(&self, after: &[i64]) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Topic(tail) => tail.span().is_ok_and(|span| is_ahead(after, &span)),
        }
    }

    /// The cursor to resume from: `after`, or the newest event if that is `None`.
    pub fn cursor_after(&self, after: Option<Offsets>) -> Result<FeedCursor, Problem> {
        match self {
            Self::Store(store) => {
                let span = store.0.kept_changes()?;
                let span = span.ok_or_else(|| no_changes("the store has no change feed"))?;
                in_store(span, after).map(FeedCursor::Number)
            }
            Self::Topic(tail) => {
                let unavailable =
                    |error: String| no_changes(&format!("cannot read the change feed: {error}"));
                let span = tail.span().map_err(unavailable)?;
                in_topic(tail.topic(), &span, after).map(FeedCursor::Offsets)
            }
        }
    }

    /// Events after a cursor with their own cursors, oldest first.
    pub fn after(
        &self,
        cursor: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<(FeedCursor, Arc<str>)>, StoreError> {
        match (self, cursor) {
            (Self::Store(store), FeedCursor::Number(number)) => {
                let changes = store.0.changes(*number, limit)?.into_iter();
                Ok(changes.map(|(seq, event)| (FeedCursor::Number(seq), event.into())).collect())
            }
            (Self::Topic(tail), FeedCursor::Offsets(offsets)) => {
                let events = tail.after(offsets, limit).into_iter();
                Ok(events.map(|(at, event)| (FeedCursor::Offsets(at), event)).collect())
            }
            // `cursor_after` makes cursors of this source only.
            _ => Ok(Vec::new()),
        }
    }
}

fn in_store((first, next): (i64, i64), after: Option<Offsets>) -> Result<i64, Problem> {
    let newest = next - 1;
    let after = match after.as_deref() {
        None => newest,
        Some([after]) => *after,
        Some(_) => return Err(no_change("a cursor of this server has one number".into())),
    };
    // Checked before the addition below, which could overflow with a number from a client.
    if after > newest {
        return Err(no_change(format!("event {after} does not exist; the newest is {newest}")));
    }
    if after + 1 < first {
        let detail = format!("events up to {} are no longer retained", first - 1);
        return Err(gone(detail, &FeedCursor::Number(first)));
    }
    Ok(after)
}

fn is_ahead(after: &[i64], span: &Span) -> bool {
    after.iter().zip(&span.next).any(|(at, next)| at > next)
}

fn in_topic(topic: &str, span: &Span, after: Option<Offsets>) -> Result<Offsets, Problem> {
    let Some(mut after) = after else { return Ok(span.next.clone()) };
    let partitions = span.next.len();
    if after.len() > partitions {
        return Err(no_change(format!("topic `{topic}` has {partitions} partitions")));
    }
    // The topic has new partitions, of which the client has read nothing.
    after.resize(partitions, 0);
    if is_ahead(&after, span) {
        let newest = FeedCursor::Offsets(span.next.clone());
        return Err(no_change(format!("the cursor is past the newest event, which is {newest}")));
    }
    if after.iter().zip(&span.first).any(|(at, first)| at < first) {
        let oldest = FeedCursor::Offsets(span.first.clone());
        let detail = format!("events before {oldest} are no longer in memory");
        return Err(gone(detail, &oldest));
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<Offsets, Problem>) -> Result<Offsets, String> {
        result.map_err(|problem| problem.code().to_owned())
    }

    #[test]
    fn a_cursor_is_numbers_separated_by_dots() {
        assert_eq!(FeedCursor::parse("7"), Ok(vec![7]));
        assert_eq!(FeedCursor::parse("12.0.7"), Ok(vec![12, 0, 7]));
        assert_eq!(FeedCursor::Offsets(vec![12, 0, 7]).to_string(), "12.0.7");
        for wrong in ["", ".", "1.", "-1", "+1", "1..2", "x", "1234567890123456789"] {
            FeedCursor::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_client_resumes_only_without_a_gap() {
        let span = Span { first: vec![3, 0], next: vec![9, 4] };
        let resume = |after: Option<&[i64]>| code(in_topic("t", &span, after.map(<[_]>::to_vec)));
        assert_eq!(resume(None), Ok(vec![9, 4]));
        assert_eq!(resume(Some(&[3, 1])), Ok(vec![3, 1]));
        assert_eq!(resume(Some(&[9])), Ok(vec![9, 0]), "the topic has grown");
        assert_eq!(resume(Some(&[2, 1])), Err("changes_gone".into()));
        assert_eq!(resume(Some(&[3, 5])), Err("no_change".into()));
        assert_eq!(resume(Some(&[3, 1, 0])), Err("no_change".into()));
    }
}
