//! The records of the change feed: events with the headers of CloudEvents 1.0, so that whatever
//! routes these needs no code of its own.

use super::topic::{OutputTopics, too_small_limit};
use crate::identity::token_of_device;
use crate::kafka::producer::{ProducerClient, ProducerRecord, size};
use crate::source::Headers;
use crate::store::{Change, Flush, Result, StoreError, TripRow};
use crate::views::{ViewError, event, text_id};

/// What an event is about, for its headers.
pub(crate) struct Subject<'a> {
    /// Topic of the samples.
    pub input: &'a str,
    /// Device id, the key of the record.
    pub device_id: &'a str,
    /// Type of the event, as in its JSON.
    pub kind: &'a str,
    /// Identifies the event among those of the input topic. A repeated event has it again.
    pub id: &'a str,
}

/// The record of an event, which is JSON.
#[must_use]
pub(crate) fn feed_record(subject: &Subject<'_>, event: String) -> ProducerRecord {
    ProducerRecord {
        key: Some(subject.device_id.as_bytes().to_vec()),
        value: event.into_bytes(),
        headers: headers(subject),
        ..ProducerRecord::default()
    }
}

/// The attributes of an event as the Kafka binding of CloudEvents, in binary mode, has them.
fn headers(Subject { input, kind, id, .. }: &Subject<'_>) -> Headers {
    let header = |name: &str, value: String| (name.to_owned(), Some(value.into_bytes()));
    vec![
        header("ce_specversion", "1.0".to_owned()),
        header("ce_id", (*id).to_owned()),
        header("ce_source", format!("/tstar/{input}")),
        header("ce_type", format!("tstar.trip.{kind}")),
        header("content-type", "application/json".to_owned()),
    ]
}

impl<C: ProducerClient> OutputTopics<C> {
    /// Sends the events of a flush.
    pub(super) async fn send_changes(&self, flush: &Flush) -> Result<()> {
        let Some(topic) = &self.feed else { return Ok(()) };
        let (mut records, mut sources) = (Vec::new(), Vec::new());
        for change in flush.changes() {
            let parts = self.parts(topic, change, self.event_bytes)?;
            // The change of each record.
            sources.resize(sources.len() + parts.len(), change);
            records.extend(parts);
        }
        for forgotten in &flush.forgotten {
            let device_id = &*forgotten.device_id;
            let (device, version) = (token_of_device(device_id), forgotten.forget.version);
            let id = format!("{device}@{version}");
            let subject = Subject { input: &self.input, device_id, kind: "forgotten", id: &id };
            records.push(feed_record(&subject, event::forgotten(forgotten)));
        }
        let too_large = self.producer.send_fitting(topic, &records).await;
        for index in too_large.map_err(self.refused(topic, "sending changes"))? {
            let bytes = size(&records[index]);
            let Some(change) = sources.get(index) else {
                return Err(too_small_limit(topic, "event", bytes));
            };
            self.send_smaller_event(topic, *change, bytes).await?;
        }
        Ok(())
    }

    /// Encodes the event of a change, split into parts if it exceeds `bytes`.
    fn parts(
        &self,
        topic: &str,
        (change, row): (&Change, &TripRow),
        bytes: usize,
    ) -> Result<Vec<ProducerRecord>> {
        let failed = |error: ViewError| StoreError::Failed {
            location: topic.to_owned(),
            doing: "writing an event",
            source: error.into(),
        };
        let trip = text_id(&row.device_id, row.t_star_ms).map_err(failed)?;
        let record = |(part, event): (usize, String)| {
            let id = match part {
                0 => format!("{trip}@{}", row.version),
                _ => format!("{trip}@{}.{part}", row.version),
            };
            let (device_id, kind) = (&*row.device_id, change.kind.name());
            feed_record(&Subject { input: &self.input, device_id, kind, id: &id }, event)
        };
        let overhead = size(&record((usize::MAX, String::new())));
        let events = event::events(change, row, bytes.saturating_sub(overhead)).map_err(failed)?;
        let first = usize::from(events.len() > 1);
        Ok((first..).zip(events).map(record).collect())
    }

    /// Sends an event that exceeds the actual limit of the topic, in smaller and smaller parts.
    async fn send_smaller_event(
        &self,
        topic: &str,
        change: (&Change, &TripRow),
        mut refused: usize,
    ) -> Result<()> {
        loop {
            let parts = self.parts(topic, change, refused / 2)?;
            let largest = parts.iter().map(size).max().unwrap_or(0);
            if largest >= refused {
                return Err(too_small_limit(topic, "event", refused));
            }
            let too_large = self.producer.send_fitting(topic, &parts).await;
            if too_large.map_err(self.refused(topic, "sending changes"))?.is_empty() {
                return Ok(());
            }
            refused = largest;
        }
    }
}
