//! Reads the change feed: how fresh it is, and its size in rows written.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::Offset;
use rdkafka::{ClientConfig, TopicPartitionList};
use serde::Deserialize;

use crate::fleet::text_time;
use crate::log::Log;
use crate::probe::{LIMIT, Probe};

/// What is read of an event.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    trip: Option<EventTrip<'a>>,
}

#[derive(Deserialize)]
struct EventTrip<'a> {
    device_id: &'a str,
    end_time: &'a str,
}

/// Reads the feed past the records of `feed` until each sample of `probes` was in an event. Returns
/// how long that took.
///
/// # Errors
/// The client fails.
pub fn watch(feed: &Log, probes: &Receiver<Probe>) -> anyhow::Result<Vec<Duration>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &feed.brokers)
        .set("group.id", "tstar-bench-feed")
        .set("enable.auto.commit", "false")
        .create()?;
    let mut list = TopicPartitionList::new();
    for (partition, end) in (0..).zip(&feed.ends) {
        list.add_partition_offset(&feed.topic, partition, Offset::Offset(*end))?;
    }
    consumer.assign(&list)?;
    let (mut pending, mut found) = (HashMap::<String, Vec<Probe>>::new(), Vec::new());
    let mut is_open = true;
    while is_open || !pending.is_empty() {
        loop {
            match probes.try_recv() {
                Ok(probe) => pending.entry(probe.device.clone()).or_default().push(probe),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    is_open = false;
                    break;
                }
            }
        }
        if let Some(record) = consumer.poll(Duration::from_millis(20)) {
            let record = record?;
            let payload = record.payload().context("an event without a value")?;
            if let Some(trip) = serde_json::from_slice::<Event<'_>>(payload)?.trip {
                announce(&mut pending, &trip, &mut found);
            }
        }
        pending.retain(|_, waiting| {
            waiting.retain(|probe| {
                probe.sent.elapsed() < LIMIT || {
                    found.push(LIMIT);
                    false
                }
            });
            !waiting.is_empty()
        });
    }
    Ok(found)
}

/// Finds the samples that an event contains.
fn announce(
    pending: &mut HashMap<String, Vec<Probe>>,
    trip: &EventTrip<'_>,
    found: &mut Vec<Duration>,
) {
    let Some(waiting) = pending.get_mut(trip.device_id) else { return };
    let now = Instant::now();
    waiting.retain(|probe| {
        let is_visible = text_time(probe.time_ms).as_str() <= trip.end_time;
        if is_visible {
            found.push(now - probe.sent);
        }
        !is_visible
    });
}
