//! Lines of files as records of a topic.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::{StreamExt, TryStreamExt, stream};
use tstar::kafka::producer::ProducerRecord;
use tstar::model::reason::DeadReason;
use tstar::model::rules::Rules;
use tstar::pipeline::processor::wrong_clock;
use tstar::source::file::FileSource;
use tstar::source::{
    Batch, DecodedSample, Decoder, Entry, JsonTemplate, MapError, SampleError, Source, SourceError,
};
use tstar::store::{StoreError, TripStore};
use tstar::timeline::ClockGuard;

use crate::cli::exit;
use crate::cli::flags::clock_ms;
use tstar::ops::device_partition::PartitionFinder;

/// Bad lines that are shown, at most.
const SHOWN: u64 = 10;

/// A line that is longer goes as what it states alone, bytes: brokers refuse long records.
const MAX_LINE: usize = 256 << 10;

/// Devices whose partitions are remembered, at most.
const REMEMBERED: usize = 1 << 20;

/// How many devices the store is asked about at a time.
const ASKED_TOGETHER: usize = 32;

/// A record, and the partition that it has to go to where its key does not tell.
pub type RoutedRecord = (ProducerRecord, Option<i32>);

/// Where devices come is remembered; an error says why nothing tells.
type KnownPartitions = HashMap<String, Result<Option<i32>, String>>;

/// Lines of files on their way to a topic. What is no sample of it is counted and told.
pub struct Lines<'a, S> {
    source: FileSource,
    /// A batch that was read: a call that is dropped loses nothing.
    ahead: Option<Batch>,
    /// Reads records as the log is read.
    target: Decoder,
    layout: JsonTemplate,
    guard: ClockGuard,
    /// Where devices come, where a store tells.
    homes: Option<&'a PartitionFinder<'a, S>>,
    known: KnownPartitions,
    /// Lines that are no samples, by reason.
    pub bad: BTreeMap<&'static str, u64>,
    /// Offset of the line after the last.
    pub next: i64,
    /// What the store said when it failed.
    pub failed: Option<StoreError>,
}

/// Lines that were read together.
pub struct Chunk {
    /// The samples among them, and what of the file was read.
    pub batch: Batch,
    /// A record for each of these samples.
    pub records: Vec<RoutedRecord>,
}

impl<'a, S: TripStore> Lines<'a, S> {
    /// Lines for a log that is read by these rules.
    ///
    /// # Errors
    /// The field map of the rules cannot be used.
    pub fn new(
        source: FileSource,
        rules: &Rules,
        homes: Option<&'a PartitionFinder<'a, S>>,
    ) -> Result<Self, MapError> {
        Ok(Self {
            source,
            ahead: None,
            target: Decoder::new(rules)?,
            layout: JsonTemplate::default(),
            guard: rules.guard(),
            homes,
            known: KnownPartitions::new(),
            bad: BTreeMap::new(),
            next: 0,
            failed: None,
        })
    }

    /// How many lines are no samples.
    pub fn bad_lines(&self) -> u64 {
        self.bad.values().sum()
    }

    /// The next lines; `None` at the end.
    ///
    /// # Errors
    /// The files or the store cannot be read.
    pub async fn next_chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        if self.ahead.is_none() {
            self.ahead = self.source.next().await?;
        }
        self.find_homes().await?;
        let Some(mut batch) = self.ahead.take() else { return Ok(None) };
        let (mut records, now_ms) = (Vec::with_capacity(batch.entries.len()), clock_ms());
        let entries = std::mem::take(&mut batch.entries);
        for entry in entries {
            // A copy of a file that was read before it.
            if entry.again {
                continue;
            }
            self.next = self.next.max(entry.offset + 1);
            let record = match &entry.content {
                Ok(decoded) => self.record(&batch, (&entry, decoded), now_ms),
                Err(fault) => Err(SampleError::clone(fault)),
            };
            match record {
                Ok(record) => {
                    records.push(record);
                    batch.entries.push(entry);
                }
                Err(fault) => self.warn(&batch, &entry, &fault),
            }
        }
        Ok(Some(Chunk { batch, records }))
    }

    /// The record of a sample, or why it is none of this log.
    fn record(
        &mut self,
        batch: &Batch,
        (entry, decoded): (&Entry, &DecodedSample),
        now_ms: i64,
    ) -> Result<RoutedRecord, SampleError> {
        let time_ms = decoded.sample.time_ms;
        if let Err(wrong) = self.guard.judge(time_ms, now_ms) {
            return Err(wrong_clock(&self.guard, wrong, time_ms, now_ms));
        }
        let device = batch.text(&decoded.device);
        let partition = match self.known.get(device) {
            None => None,
            Some(Ok(partition)) => *partition,
            Some(Err(why)) => return Err(SampleError::new(DeadReason::NoKey, why.clone())),
        };
        let line = batch.raw(entry);
        let stated = (decoded, batch.text.as_str());
        let value = if line.len() <= MAX_LINE && self.target.finds(&mut self.layout, line, stated) {
            line.to_vec()
        } else {
            match self.target.restate(decoded, &batch.text) {
                Ok(record) => record.into_bytes(),
                Err(why) => {
                    let why = format!("the rules of the log cannot say this sample: {why}");
                    return Err(SampleError::new(DeadReason::AmbiguousField, why));
                }
            }
        };
        let key = Some(device.as_bytes().to_vec());
        Ok((ProducerRecord { key, value, ..ProducerRecord::default() }, partition))
    }

    /// Finds where the devices of the next batch come, several at a time.
    async fn find_homes(&mut self) -> Result<(), StoreError> {
        let (Some(homes), Some(batch)) = (self.homes, &self.ahead) else { return Ok(()) };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let samples = batch.entries.iter().filter_map(|entry| entry.content.as_ref().ok());
        let devices: BTreeSet<&str> = samples.map(|it| batch.text(&it.device)).collect();
        let devices = devices.into_iter().filter(|device| !self.known.contains_key(*device));
        let devices: Vec<String> = devices.map(str::to_owned).collect();
        let mut asked = stream::iter(devices).map(|it| homes.find(it)).buffered(ASKED_TOGETHER);
        while let Some(found) = asked.try_next().await? {
            // Where records are keyed by the device, one that nobody has seen yet goes by its key,
            // as Java's producers send it, and claims that partition.
            let home = match !homes.is_keyed && homes.is_lost(&found) {
                true => Err(homes.why_lost(&found)),
                false => Ok(found.partition),
            };
            self.known.insert(found.device, home);
        }
        Ok(())
    }

    fn warn(&mut self, batch: &Batch, entry: &Entry, fault: &SampleError) {
        let told = self.bad_lines();
        *self.bad.entry(fault.reason.name()).or_default() += 1;
        if told < SHOWN {
            let (file, line, reason) = (&batch.origin, entry.line, fault.reason.name());
            exit::print_status(&format!(
                "{file}:{line}: {reason}: {}; it is not sent",
                fault.message
            ));
        }
    }
}

impl<S: TripStore> Source for Lines<'_, S> {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        match self.next_chunk().await {
            Ok(some) => Ok(some.map(|some| some.batch)),
            Err(error) => match error.downcast::<SourceError>() {
                Ok(error) => Err(error),
                Err(error) => {
                    // Nothing else is asked.
                    self.failed = error.downcast::<StoreError>().ok();
                    Ok(None)
                }
            },
        }
    }
}
