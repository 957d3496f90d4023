//! Sends the samples of a request to a topic.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::reader::Reader;
use super::{IngestError, Records, Results, SampleResult, other_results};
use crate::kafka::producer::{Producer, ProducerRecord};
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::source::{Batch, Decoder, Entry, Headers, NoSample, RecordContext, RecordPosition};
use crate::telemetry::counts::{DEAD, DROPPED, SKIPPED};

/// Number of records that are sent together.
const SEND_BATCH: usize = 1000;

/// Time limit for the brokers to acknowledge the records of a request.
pub(super) const ACK_TIMEOUT: Duration = Duration::from_secs(20);

/// Status of a sample that was sent to a topic.
const SENT: &str = "sent";

/// Status of a sample that was not sent to a topic.
pub(super) const REFUSED: &str = "refused";

/// Why a record with samples of several devices is not sent.
const SEVERAL_DEVICES: &str = "the record holds samples of several devices, and a record of a \
                               topic has one key; send a record for each device";

/// Sends samples to a topic.
pub struct TopicSink {
    producer: Producer,
    topic: String,
    rules: Rules,
    decoder: Arc<Decoder>,
}

impl TopicSink {
    /// A sink for the topic of an epoch, which checks samples by the rules of the epoch.
    ///
    /// # Errors
    /// The field map of the rules is invalid.
    pub fn new(producer: Producer, topic: String, rules: &Rules) -> Result<Self, IngestError> {
        let decoder = Arc::new(Decoder::new(rules)?);
        Ok(Self { producer, topic, rules: rules.clone(), decoder })
    }

    pub(super) async fn ingest(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let sent = tokio::time::timeout(ACK_TIMEOUT, self.send(records)).await;
        sent.unwrap_or_else(|_| Err(IngestError::Slow { topic: self.topic.clone() }))
    }

    /// Sends records in batches, so that only one batch is copied at a time.
    async fn send(&self, records: Records) -> Result<Vec<SampleResult>, IngestError> {
        let mut results = Results::new(records.len());
        let reader = Reader::new(&self.rules, Arc::clone(&self.decoder), records.preset())?;
        let shared = Arc::new((reader, records));
        let len = shared.1.len();
        for start in (0..len).step_by(SEND_BATCH) {
            let (range, topic) = (start..len.min(start + SEND_BATCH), self.topic.clone());
            let shared = Arc::clone(&shared);
            let left = results.left();
            let work = move || decode(&shared.0, &shared.1, (range, left), &topic);
            // On its own thread: decoding must not block other requests.
            let decoded = tokio::task::spawn_blocking(work).await.expect("the work does not panic");
            let Decoded { records, results: of_batch, unusable } = decoded?;
            for (result, count) in of_batch {
                results.push(result, count)?;
            }
            if !self.send_fitting(&records).await?.is_empty() {
                return Err(IngestError::TooLarge { topic: self.topic.clone() });
            }
            self.dead_letter(unusable, &mut results).await?;
        }
        Ok(results.list)
    }

    /// Sends records. Returns the indices of those that are too large.
    async fn send_fitting(&self, records: &[ProducerRecord]) -> Result<Vec<usize>, IngestError> {
        self.producer
            .send_fitting(&self.topic, records)
            .await
            .map_err(|error| IngestError::Log { topic: self.topic.clone(), source: error.into() })
    }

    /// Sends unusable records as they are: the daemon dead-letters them.
    async fn dead_letter(
        &self,
        unusable: Vec<Unusable>,
        results: &mut Results,
    ) -> Result<(), IngestError> {
        let (records, of_records): (Vec<_>, Vec<_>) =
            unusable.into_iter().map(|it| (it.record, it.results)).unzip();
        let too_large = self.send_fitting(&records).await?;
        for (nth, of_record) in of_records.into_iter().enumerate() {
            let is_sent = !too_large.contains(&nth);
            if !is_sent {
                warn_of_loss("it is too large for the topic");
            }
            for (mut result, count) in of_record {
                result.status = if is_sent { DEAD } else { REFUSED };
                results.push(result, count)?;
            }
        }
        Ok(())
    }
}

/// Reports a record that is not kept, although its sender does not learn that.
fn warn_of_loss(reason: &str) {
    tracing::warn!(reason, "an unusable record came by HTTP, and cannot become a dead letter");
}

/// Results, each with its number of samples.
type SampleCountResults = Vec<(SampleResult, u64)>;

/// A record without a sample that can be used.
struct Unusable {
    record: ProducerRecord,
    results: SampleCountResults,
}

/// What to send, and the results of all samples but those that are unusable.
#[derive(Default)]
struct Decoded {
    records: Vec<ProducerRecord>,
    results: SampleCountResults,
    /// Only of a preset: others learn what is wrong with their samples, and send them again.
    unusable: Vec<Unusable>,
}

/// Decodes a range of records, of at most `left` samples, to those with valid samples, keyed by
/// device.
fn decode(
    reader: &Reader,
    records: &Records,
    (range, mut left): (Range<usize>, usize),
    topic: &str,
) -> Result<Decoded, IngestError> {
    let mut decoded = Decoded::default();
    let headers = records.named_headers(reader);
    for nth in range {
        let record = records.get(nth);
        let mut batch = Batch::default();
        let context =
            RecordContext { headers: &headers, topic: Some(topic), ..RecordContext::default() };
        let position = RecordPosition::default();
        let split = reader.split((record, &context), (&position, left), &mut batch)?;
        left = left.saturating_sub(split);
        let is_of_preset = records.preset().is_some();
        let problem = add_samples(reader, (record, &headers), &batch, &mut decoded);
        if let (true, Some(problem)) = (is_of_preset, problem) {
            let preset = records.preset().map_or("", |preset| preset.name);
            return Err(IngestError::NotExpressible { preset, problem: problem.to_owned() });
        }
        if is_of_preset {
            add_unusable(reader, (record, &context), &batch, &mut decoded);
            continue;
        }
        decoded.results.extend(batch.entries.iter().map(|entry| sent_result(entry, problem)));
        decoded.results.extend(other_results(&batch, REFUSED));
    }
    Ok(decoded)
}

/// Adds the records of the samples of a batch. Returns why there are none, although there are
/// samples.
fn add_samples(
    reader: &Reader,
    (record, headers): (&[u8], &Headers),
    batch: &Batch,
    decoded: &mut Decoded,
) -> Option<&'static str> {
    let device = |entry: &Entry| {
        let decoded = entry.content.as_ref().ok()?;
        Some(batch.text(&decoded.device).to_owned())
    };
    let samples = || batch.entries.iter().filter_map(|entry| Some((entry, device(entry)?)));
    let send = |(value, device): (&[u8], String)| {
        let (key, value) = (Some(device.into_bytes()), value.to_vec());
        ProducerRecord { key, value, headers: headers.clone(), ..ProducerRecord::default() }
    };
    if !reader.needs_whole_records() {
        let records = samples().map(|(entry, device)| send((batch.raw(entry), device)));
        decoded.records.extend(records);
        return None;
    }
    let devices: BTreeSet<_> = samples().map(|(_, device)| device).collect();
    if devices.len() > 1 {
        return Some(SEVERAL_DEVICES);
    }
    decoded.records.extend(devices.into_iter().map(|device| send((record, device))));
    None
}

/// Adds the results of a record of a preset, and what to dead-letter of it.
fn add_unusable(
    reader: &Reader,
    (record, context): (&[u8], &RecordContext<'_>),
    batch: &Batch,
    decoded: &mut Decoded,
) {
    let is_whole_sent =
        reader.needs_whole_records() && batch.entries.iter().any(|entry| entry.content.is_ok());
    // With too many bad elements, the array becomes one dead letter.
    let is_one = reader.needs_whole_records() || other_results(batch, REFUSED).next().is_some();
    let mut of_whole = Vec::new();
    for entry in &batch.entries {
        let (mut result, count) = sent_result(entry, None);
        match &entry.content {
            Err(NoSample::Dead(_)) if is_whole_sent => {
                // The daemon finds it in the record.
                result.status = DEAD;
                decoded.results.push((result, count));
            }
            Err(NoSample::Dead(_)) if is_one => of_whole.push((result, count)),
            Err(NoSample::Dead(_)) => {
                let raw = batch.raw(entry);
                decoded.add_dead(reader, (raw, context), vec![(result, count)]);
            }
            _ => decoded.results.push((result, count)),
        }
    }
    match is_whole_sent {
        true => decoded.results.extend(other_results(batch, DEAD)),
        false => of_whole.extend(other_results(batch, REFUSED)),
    }
    if !of_whole.is_empty() {
        decoded.add_dead(reader, (record, context), of_whole);
    }
}

impl Decoded {
    /// Adds a record to dead-letter, unless the log would read a sample from it.
    fn add_dead(
        &mut self,
        reader: &Reader,
        (value, context): (&[u8], &RecordContext<'_>),
        results: SampleCountResults,
    ) {
        let device = reader.device_of(value, context);
        let key = device.map(String::into_bytes);
        let in_log = RecordContext { key: key.as_deref(), ..*context };
        if !reader.is_dead_in_log(value, &in_log) {
            warn_of_loss("by the rules of the store it is not unusable; see POST /v1/samples");
            return self.results.extend(results);
        }
        let (value, headers) = (value.to_vec(), context.headers.to_vec());
        let record = ProducerRecord { key, value, headers, ..ProducerRecord::default() };
        self.unusable.push(Unusable { record, results });
    }
}

/// The result of the samples of an entry, and their number; `problem` is why they were not sent.
fn sent_result(entry: &Entry, problem: Option<&str>) -> (SampleResult, u64) {
    let refused = |reason: DeadReason, message: &str| {
        let result = SampleResult::of_reason(REFUSED, reason.name());
        (SampleResult { message: Some(message.to_owned()), ..result }, 1)
    };
    match (&entry.content, problem) {
        (Ok(_), None) => (SampleResult::accepted(SENT), 1),
        (Ok(_), Some(problem)) => refused(DeadReason::KeyMismatch, problem),
        (Err(NoSample::Dead(error)), _) => refused(error.reason, &error.message),
        (Err(NoSample::Skipped(count)), _) => (SampleResult::accepted(SKIPPED), u64::from(*count)),
        (Err(NoSample::Dropped(reason, count)), _) => {
            (SampleResult::of_reason(DROPPED, reason.name()), u64::from(*count))
        }
    }
}
