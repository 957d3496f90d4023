//! Spilling: if the active devices do not fit into memory, samples go to disk, and are absorbed
//! group by group by the next flush.

use std::io;
use std::time::Duration;

use super::classify::EntryClass;
use super::flush::Extent;
use super::letters::RefusedElements;
use super::{Processor, ProcessorConfig};
use crate::sink::Sink;
use crate::source::spill::{GROUPS, GroupSamples, Spill};
use crate::source::{Batch, DecodedSample, Entry};
use crate::store::{Flush, Result, StoreError, TripStore};

/// Maximum size of the spill, as a multiple of the memory limit: spilled samples are not durable
/// yet.
const MAX_SPILL_SHARE: u64 = 32;

/// Maximum age of the spill, as a multiple of `max_staleness`: after a crash, everything in it is
/// replayed.
const SPILL_STALENESS: u32 = 10;

/// While it is absorbed, a spill group may use the memory limit divided by this number: devices of
/// the groups after it are still in memory.
const GROUP_SHARE: usize = 4;

/// The spilled samples, and when they are to be absorbed.
pub(super) struct Spiller {
    samples: Spill,
    /// Whether samples are spilled: the active devices do not fit into memory.
    is_active: bool,
    /// Maximum size of the spill, bytes.
    max_bytes: u64,
    /// Maximum time between two flushes.
    max_age: Duration,
    /// Memory that a group may use while it is absorbed, bytes.
    group_memory: usize,
}

impl Spiller {
    /// An empty spill. Samples are not spilled before [`Spiller::start`].
    pub(super) fn new(samples: Spill, config: &ProcessorConfig) -> Self {
        Self {
            samples,
            is_active: false,
            max_bytes: MAX_SPILL_SHARE.saturating_mul(config.memory as u64),
            max_age: config.flush.max_staleness.saturating_mul(SPILL_STALENESS),
            group_memory: config.memory / GROUP_SHARE,
        }
    }

    /// Spills all samples from now on.
    pub(super) fn start(&mut self) {
        self.is_active = true;
    }

    /// Whether samples are spilled.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(super) fn is_empty(&self) -> bool {
        self.samples.bytes() == 0
    }

    /// Whether the samples have to be absorbed, `elapsed` after the last flush.
    pub(super) fn is_due(&self, elapsed: Duration) -> bool {
        self.samples.bytes() > self.max_bytes || elapsed >= self.max_age
    }

    fn push(&mut self, batch: &Batch, entry: &Entry, decoded: &DecodedSample) -> Result<()> {
        self.samples.push(batch, entry, decoded).map_err(|error| self.failed(error))
    }

    /// Removes the samples of a group and returns them in arrival order.
    fn take_group(&mut self, group: usize) -> Result<GroupSamples> {
        self.samples.take_group(group).map_err(|error| self.failed(error))
    }

    /// The next samples of a group; `None` at the end.
    fn next_batch(&self, group: &mut GroupSamples) -> Result<Option<Batch>> {
        group.next_batch().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> StoreError {
        let folder = self.samples.folder().display().to_string();
        StoreError::of_io(folder, "spilling samples", error)
    }
}

impl<T: TripStore, S: Sink> Processor<'_, T, S> {
    /// Whether samples are spilled.
    pub(super) fn is_spilling(&self) -> bool {
        self.spiller.as_ref().is_some_and(Spiller::is_active)
    }

    /// Spills the samples of a batch. Entries that are not samples are counted now.
    pub(super) fn spill_batch(&mut self, batch: &Batch) -> Result<()> {
        for record in batch.entries.chunk_by(|one, next| one.offset == next.offset) {
            let mut refused = RefusedElements::default();
            for (nth, entry) in record.iter().enumerate() {
                match self.classifier.classify(entry) {
                    EntryClass::Sample(decoded) => {
                        let spiller = self.spiller.as_mut().expect("spilling needs a spill");
                        spiller.push(batch, entry, decoded)?;
                        self.count_unknown(decoded);
                    }
                    class => {
                        if let Err(fault) = self.apply_entry(batch, entry, class, 0) {
                            self.refuse(batch, (nth, entry), fault, &mut refused);
                        }
                    }
                }
            }
            self.dead_letter_array(batch, record, refused);
        }
        Ok(())
    }

    /// Absorbs the spilled samples group by group and evicts each group. Returns the last rows.
    pub(super) async fn absorb_spill(&mut self, spiller: &mut Spiller) -> Result<Flush> {
        let groups = self.devices.split_off(GROUPS, |name| spiller.samples.group_of(name));
        let mut last = Flush::default();
        for (nth, group) in groups.into_iter().enumerate() {
            self.devices.restore(group);
            let limit = self.devices.memory() + spiller.group_memory;
            let mut samples = spiller.take_group(nth)?;
            while let Some(batch) = spiller.next_batch(&mut samples)? {
                self.absorb_records(&batch).await?;
                if self.devices.memory() > limit || self.devices.has_large_group() {
                    let rows = self.stage_changes(Extent::All).await?;
                    self.sink.stage(&rows).await?;
                    self.devices.evict_all();
                }
            }
            let rows = self.stage_changes(Extent::All).await?;
            self.sink.stage(&std::mem::replace(&mut last, rows)).await?;
            self.devices.evict_all();
        }
        spiller.samples.clear();
        Ok(last)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{MemoryStore, block_on, processor, rows, samples};
    use super::*;

    #[test]
    fn samples_are_absorbed_when_they_are_old_or_many() {
        let folder = tempfile::tempdir().unwrap();
        let config = ProcessorConfig { memory: 10, ..ProcessorConfig::default() };
        let mut spiller = Spiller::new(Spill::new(folder.path()), &config);
        let old = config.flush.max_staleness * SPILL_STALENESS;
        let young = old - Duration::from_millis(1);
        assert!(spiller.is_empty() && !spiller.is_due(young) && spiller.is_due(old));
        let batch = samples(0, &[("van", 0)]);
        let Ok(decoded) = &batch.entries[0].content else { panic!("it is a sample") };
        let mut pushed = 0;
        while spiller.samples.bytes() <= 320 {
            assert!(!spiller.is_due(young));
            spiller.push(&batch, &batch.entries[0], decoded).unwrap();
            assert!(!spiller.is_empty());
            pushed += 1;
        }
        assert!(pushed > 1 && spiller.is_due(Duration::ZERO));
        // As many bytes as are allowed.
        spiller.max_bytes = spiller.samples.bytes();
        assert!(!spiller.is_due(young));
    }

    /// A group that is larger than its share of memory is written in parts.
    #[test]
    fn a_spill_is_absorbed_within_its_share_of_memory() {
        let parts = |memory| {
            let (store, folder) = (MemoryStore::default(), tempfile::tempdir().unwrap());
            let config = ProcessorConfig { memory, ..ProcessorConfig::default() };
            let mut processor = processor(&store, config);
            block_on(processor.enable_spill(Spill::new(folder.path()))).unwrap();
            processor.spiller.as_mut().unwrap().start();
            let of: Vec<_> = (-5000..0).map(|minute| ("van", minute)).collect();
            block_on(processor.absorb(&samples(0, &of))).unwrap();
            assert!(processor.counts().flushes == 0 && rows(&store, "van").is_empty());
            block_on(processor.flush()).unwrap();
            assert_eq!(rows(&store, "van").iter().map(|row| row.samples).sum::<i32>(), 5000);
            // Those of the last group come with the commit; which group it is in is random.
            store.flushes().iter().filter(|(flush, _)| !flush.groups.is_empty()).count()
        };
        // After each of three batches, and at the end.
        assert_eq!([parts(100), parts(1 << 30)], [3, 1]);
    }
}
