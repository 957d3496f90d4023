//! Builds the reference store from the log, to compare a store with it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::files::FilesLog;
use super::topic_log::TopicLog;
use super::{Bounds, Cancel, Log, PartialResult, ReadProgress};
use crate::identity::DeviceId;
use crate::model::rules::Rules;
use crate::pipeline::daemon::OnEvent;
use crate::pipeline::processor::{FlushSettings, Processor, ProcessorConfig, SampleCounts};
use crate::sink::Outputs;
use crate::source::Batch;
use crate::source::spill::Spill;
use crate::store::{AnyStore, EmbeddedStore, Guide, StoreError};

/// Flush interval of a build: flush only at the end or when memory is full, so that each trip is
/// written once.
const AT_THE_END: Duration = Duration::from_secs(365 * 86_400);

/// Maximum size of the store's page cache, bytes.
const MAX_CACHE: u64 = 64 << 20;

/// Disk and memory for a reference store.
#[derive(Clone, Copy, Debug)]
pub struct Workspace<'a> {
    /// Folder for unnamed files.
    pub folder: &'a Path,
    /// Memory limit, bytes.
    pub memory: u64,
}

impl Workspace<'_> {
    /// An empty store.
    ///
    /// # Errors
    /// No file can be created in the folder.
    pub fn store(&self, rules: &Rules, of_topic: bool) -> Result<EmbeddedStore, StoreError> {
        let store = EmbeddedStore::scratch(self.folder, rules, of_topic)?;
        store.set_cache((self.memory / 8).min(MAX_CACHE))?;
        Ok(store)
    }

    /// Settings of the processor that fills the store.
    #[must_use]
    pub(crate) fn processor_config(&self) -> ProcessorConfig {
        let memory = usize::try_from(self.memory / 4 * 3).unwrap_or(usize::MAX);
        ProcessorConfig {
            flush: FlushSettings::new(AT_THE_END, AT_THE_END),
            memory,
            ..ProcessorConfig::default()
        }
    }
}

/// A store that was rebuilt from a log.
pub struct Reference<'a> {
    /// The store, an unnamed file.
    pub store: Arc<EmbeddedStore>,
    /// Number of samples that were read.
    pub records: u64,
    /// Where reading of the log ended.
    pub bounds: Bounds<'a>,
}

/// How a reference store is built.
pub struct Build<'a> {
    /// The store to compare with: it decides which partition a device belongs to.
    pub found: &'a Arc<AnyStore>,
    /// Reads the records of this device of a topic only; `None`: all.
    pub device_id: Option<&'a DeviceId>,
    /// Where it is built.
    pub workspace: Workspace<'a>,
    /// Receives the progress of reading files.
    pub progress: &'a mut dyn ReadProgress,
    /// Receives the events of reading a topic.
    pub on_event: OnEvent,
    /// Ends the build, with this state of the work.
    pub cancel: (&'a Cancel, PartialResult),
}

impl Log {
    /// Rebuilds the store from all records that it was built from.
    ///
    /// # Errors
    /// Records are missing or cannot be read, the folder is full, or a signal stopped it.
    pub async fn reference(&self, build: Build<'_>) -> anyhow::Result<Reference<'_>> {
        match self {
            Self::Files(log) => log.reference(build).await,
            Self::Topic(log) => {
                log.check_whole()?;
                log.check_committed()?;
                log.reference(log.all_stored(), build).await
            }
        }
    }
}

impl TopicLog {
    /// Builds a store from these offsets.
    ///
    /// # Errors
    /// Those of [`Log::reference`].
    pub async fn reference(
        &self,
        spans: Vec<Range<i64>>,
        build: Build<'_>,
    ) -> anyhow::Result<Reference<'_>> {
        let replay = self.reread(spans, build.device_id.cloned())?;
        let rules = &replay.epochs.last().expect("there is an epoch").rules;
        let store = Arc::new(build.workspace.store(rules, true)?);
        let guide = Guide::new(Arc::clone(build.found), &replay.epochs);
        let trips = AnyStore::from(Arc::clone(&store)).guided(guide);
        let outputs = (Outputs::File(Arc::clone(&store)), None);
        let config = (build.workspace.processor_config(), build.on_event);
        let counts = replay.run(trips, outputs, config, build.cancel).await?;
        Ok(Reference { store, records: counts.delivered, bounds: self.bounds(&replay) })
    }
}

impl FilesLog {
    async fn reference(&self, build: Build<'_>) -> anyhow::Result<Reference<'_>> {
        let progress = build.progress;
        progress.start(None);
        let built = self.build(build.workspace, |batch, counts| progress.update(batch, counts));
        let built = built.await;
        progress.finish();
        let (store, records) = built?;
        Ok(Reference { store: Arc::new(store), records, bounds: Bounds::default() })
    }

    /// Builds a store with the same offsets; returns it with the number of samples.
    ///
    /// # Errors
    /// A file cannot be read or was never imported, or an imported one is missing.
    pub async fn build(
        &self,
        workspace: Workspace<'_>,
        watch: impl FnMut(&Batch, &SampleCounts),
    ) -> anyhow::Result<(EmbeddedStore, u64)> {
        let (mut source, rules) = self.records().await?;
        let store = workspace.store(&rules, false)?;
        let mut processor = Processor::new(&store, &rules, workspace.processor_config()).await?;
        processor.enable_spill(Spill::new(workspace.folder)).await?;
        processor.run(&mut source, watch).await?;
        let records = processor.counts().delivered;
        drop(processor);
        source.check()?;
        Ok((store, records))
    }
}
