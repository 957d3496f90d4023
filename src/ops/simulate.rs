//! Writes the samples of a simulated fleet as lines, or sends them to a topic.

use std::io::{self, Write};

use super::Notify;
use crate::kafka::client::Brokers;
use crate::kafka::producer::{Producer, ProducerRecord};
use crate::kafka::topics::Topics;
use crate::simulate::{Event, Fleet, FleetSettings};

/// Maximum number of records in flight, that is, sent and not yet acknowledged.
const RECORDS_IN_FLIGHT: usize = 10_000;

/// Writes the samples as NDJSON, in arrival order.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn write_lines(
    mut fleet: impl Iterator<Item = Event>,
    mut out: impl Write,
) -> io::Result<()> {
    fleet.try_for_each(|event| event.write_line(&mut out))
}

/// Sends the samples to an existing topic, keyed by device. `notify` receives what the producer
/// waits for.
///
/// # Errors
/// The topic does not exist, brokers do not respond, or no fleet can meet the settings.
pub async fn send(
    fleet: &FleetSettings,
    brokers: &Brokers,
    topic: &str,
    notify: Notify,
) -> anyhow::Result<()> {
    Topics::new(brokers)?.needed(topic)?;
    let producer = Producer::new(brokers, notify)?;
    let record = |event: Event| {
        let mut value = Vec::new();
        event.write_line(&mut value)?;
        // A record has no line end.
        value.pop();
        let key = Some(event.device_id().into_bytes());
        Ok(ProducerRecord { key, value, ..ProducerRecord::default() })
    };
    let mut records = Fleet::new(fleet)?.map(record);
    loop {
        let next = records.by_ref().take(RECORDS_IN_FLIGHT).collect::<io::Result<Vec<_>>>()?;
        if next.is_empty() {
            return Ok(());
        }
        let sent = producer.send(topic, &next).await;
        sent.map_err(producer.failed("sending samples", topic))?;
    }
}
