//! Where changes are read: the store that keeps them, or the topic beside it.

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::{Serialize, Serializer};
use utoipa::openapi::{KnownFormat, Object, OneOf, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::app::{App, ServableStore};
use super::problem::Problem;
use crate::kafka::tail::{Offsets, Span, Tail};
use crate::store::StoreError;

/// How a mark is written.
pub const MARK: &str = r"^[0-9]{1,18}(\.[0-9]{1,18}){0,999}$";

/// How far a client has heard the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedCursor {
    /// Of a store: the number of the latest event.
    Number(i64),
    /// Of a topic: by partition the offset of the next event.
    Offsets(Offsets),
}

impl FeedCursor {
    /// Reads numbers with dots between them.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<Offsets, String> {
        let number = |digits: &str| {
            let is_number = matches!(digits.len(), 1..=18);
            let is_number = is_number && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        let numbers: Option<Offsets> = text.split('.').map(number).collect();
        numbers.filter(|numbers| numbers.len() <= 1000).ok_or_else(|| {
            format!("`{text}` is no mark of an event, as `next` of a page or the id of an event")
        })
    }

    /// Its numbers.
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
            .description(Some("Of a store that keeps changes: the number of the event"));
        let text = Object::builder()
            .schema_type(Type::String)
            .pattern(Some(MARK))
            .description(Some("Of a topic: by partition the offset of the next event"));
        Schema::OneOf(OneOf::builder().item(number).item(text).build()).into()
    }
}

impl ToSchema for FeedCursor {}

/// Where changes are read.
pub enum Feed<'a, S> {
    /// A store that keeps them.
    Store(&'a S),
    /// A topic.
    Topic(&'a Tail),
}

fn no_changes(why: &str) -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "no_changes", why)
}

fn no_change(detail: String) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_change", detail)
}

fn gone(detail: String, oldest: &FeedCursor) -> Problem {
    Problem::new(StatusCode::GONE, "changes_gone", detail).with("oldest", oldest)
}

impl<S: ServableStore> App<S> {
    /// Where changes are read.
    pub(super) fn feed(&self) -> Result<Feed<'_, S>, Problem> {
        let store = self.store()?;
        if store.kept_changes()?.is_some() {
            return Ok(Feed::Store(store));
        }
        self.tail().map(Feed::Topic).ok_or_else(|| {
            no_changes("this store keeps no changes, and no topic tells of them: name --brokers")
        })
    }
}

impl<S: ServableStore> Feed<'_, S> {
    /// Whether changes can be told now.
    pub fn is_available(&self) -> bool {
        match self {
            Self::Store(_) => true,
            Self::Topic(tail) => tail.span().is_ok(),
        }
    }

    /// Whether a client was told more by another server than this one has read so far.
    pub fn is_behind(&self, after: &[i64]) -> bool {
        match self {
            Self::Store(_) => false,
            Self::Topic(tail) => tail.span().is_ok_and(|span| is_ahead(after, &span)),
        }
    }

    /// The mark after which a client goes on: that of the latest event where it names none.
    pub fn cursor_after(&self, after: Option<Offsets>) -> Result<FeedCursor, Problem> {
        match self {
            Self::Store(store) => {
                let kept = store.kept_changes()?.ok_or_else(|| no_changes("none are kept"))?;
                in_store(kept, after).map(FeedCursor::Number)
            }
            Self::Topic(tail) => {
                let not_read = |why: String| no_changes(&format!("no changes are told: {why}"));
                let span = tail.span().map_err(not_read)?;
                in_topic(tail.topic(), &span, after).map(FeedCursor::Offsets)
            }
        }
    }

    /// Events after a mark, oldest first, each with its own.
    pub fn after(
        &self,
        mark: &FeedCursor,
        limit: usize,
    ) -> Result<Vec<(FeedCursor, Arc<str>)>, StoreError> {
        match (self, mark) {
            (Self::Store(store), FeedCursor::Number(number)) => {
                let changes = store.changes(*number, limit)?.into_iter();
                Ok(changes.map(|(seq, event)| (FeedCursor::Number(seq), event.into())).collect())
            }
            (Self::Topic(tail), FeedCursor::Offsets(offsets)) => {
                let told = tail.after(offsets, limit).into_iter();
                Ok(told.map(|(at, event)| (FeedCursor::Offsets(at), event)).collect())
            }
            // A mark is of the feed that made it, and an app has one.
            _ => Ok(Vec::new()),
        }
    }
}

fn in_store((first, next): (i64, i64), after: Option<Offsets>) -> Result<i64, Problem> {
    let newest = next - 1;
    let after = match after.as_deref() {
        None => newest,
        Some([after]) => *after,
        Some(_) => return Err(no_change("events of a store have one number".into())),
    };
    // Before anything is added to a number that a client chose.
    if after > newest {
        return Err(no_change(format!("there is no event {after}: the newest is {newest}")));
    }
    if after + 1 < first {
        let detail = format!("events up to {} are not kept any more", first - 1);
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
    // Of a partition that was added nothing was told.
    after.resize(partitions, 0);
    if is_ahead(&after, span) {
        let newest = FeedCursor::Offsets(span.next.clone());
        return Err(no_change(format!("there is no such event: the newest is {newest}")));
    }
    if after.iter().zip(&span.first).any(|(at, first)| at < first) {
        let oldest = FeedCursor::Offsets(span.first.clone());
        let detail = format!("events before {oldest} are not kept in memory any more");
        return Err(gone(detail, &oldest));
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(told: Result<Offsets, Problem>) -> Result<Offsets, String> {
        told.map_err(|problem| problem.code().to_owned())
    }

    #[test]
    fn a_mark_is_numbers_with_dots_between_them() {
        assert_eq!(FeedCursor::parse("7"), Ok(vec![7]));
        assert_eq!(FeedCursor::parse("12.0.7"), Ok(vec![12, 0, 7]));
        assert_eq!(FeedCursor::Offsets(vec![12, 0, 7]).to_string(), "12.0.7");
        for wrong in ["", ".", "1.", "-1", "+1", "1..2", "x", "1234567890123456789"] {
            FeedCursor::parse(wrong).unwrap_err();
        }
    }

    #[test]
    fn a_client_goes_on_only_where_nothing_is_missing() {
        let span = Span { first: vec![3, 0], next: vec![9, 4] };
        let begin = |after: Option<&[i64]>| code(in_topic("t", &span, after.map(<[_]>::to_vec)));
        assert_eq!(begin(None), Ok(vec![9, 4]));
        assert_eq!(begin(Some(&[3, 1])), Ok(vec![3, 1]));
        assert_eq!(begin(Some(&[9])), Ok(vec![9, 0]), "the topic has grown");
        assert_eq!(begin(Some(&[2, 1])), Err("changes_gone".into()));
        assert_eq!(begin(Some(&[3, 5])), Err("no_change".into()));
        assert_eq!(begin(Some(&[3, 1, 0])), Err("no_change".into()));
    }
}
