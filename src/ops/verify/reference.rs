//! Builds the reference store from the log, to compare a store with it.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::identity::DeviceId;
use crate::model::epoch::Versions;
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::pipeline::daemon::topic_replay::TopicReplay;
use crate::pipeline::daemon::{DaemonError, GuidedOwners, OnEvent, Report, SqliteStores};
use crate::pipeline::processor::{Processor, ProcessorConfig, RunError, SampleCounts};
use crate::source::file::{self, FileSource, Options};
use crate::source::spill::Spill;
use crate::source::{Batch, Control, Decoder, DecoderError, Source, SourceError};
use crate::store::EmbeddedStore;
use crate::store::{Forget, Guide, Journal, StoreError, TripStore};

/// Flush interval of a build: flush only at the end or when memory is full, so that each trip is
/// written once.
const AT_THE_END: Duration = Duration::from_secs(365 * 86_400);

/// Maximum size of the store's page cache, bytes.
const MAX_CACHE: u64 = 64 << 20;

/// Why a reference store could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The topic cannot be read.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// A file or a store cannot be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The rules of the store are invalid.
    #[error("the rules of the store cannot be used")]
    Rules(#[from] DecoderError),
    /// The files are not those that the store was built from.
    #[error("{0}")]
    OtherFiles(String),
}

impl From<StoreError> for ReferenceError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl From<SourceError> for ReferenceError {
    fn from(error: SourceError) -> Self {
        Self::Run(error.into())
    }
}

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
    pub fn processor_config(&self) -> ProcessorConfig {
        let memory = usize::try_from(self.memory / 4 * 3).unwrap_or(usize::MAX);
        ProcessorConfig {
            flush_interval: AT_THE_END,
            max_staleness: AT_THE_END,
            memory,
            ..ProcessorConfig::default()
        }
    }
}

/// Builds a reference store from spans of a topic. `found`, the store to compare with, decides
/// which partition a device belongs to.
///
/// # Errors
/// Records have expired, brokers do not respond, or the folder is full.
pub async fn of_topic<S: TripStore + 'static>(
    replay: &TopicReplay,
    found: &Arc<S>,
    workspace: Workspace<'_>,
    on_event: OnEvent,
    stop: impl Future<Output = ()>,
) -> Result<(Arc<EmbeddedStore>, Report), ReferenceError> {
    let rules = &replay.epochs.last().expect("there is an epoch").rules;
    let store = Arc::new(workspace.store(rules, true)?);
    let guide = Guide::new(Arc::clone(found), &replay.epochs);
    let owners = || {
        let owners = SqliteStores(Arc::clone(&store));
        GuidedOwners { owners, guide: guide.clone() }
    };
    let report = replay.run(owners, (workspace.processor_config(), on_event), stop).await?;
    Ok((store, report))
}

/// Builds a reference store from the files that `imported` was built from, with the same offsets.
///
/// # Errors
/// A file cannot be read or was never imported, or an imported one is missing.
pub async fn of_files(
    imported: &EmbeddedStore,
    files: &[PathBuf],
    workspace: Workspace<'_>,
    watch: impl FnMut(&Batch, &SampleCounts),
) -> Result<EmbeddedStore, ReferenceError> {
    let (mut source, rules) = ImportedFiles::open(imported, files).await?;
    let store = workspace.store(&rules, false)?;
    let mut processor = Processor::new(&store, &rules, workspace.processor_config()).await?;
    processor.enable_spill(Spill::new(workspace.folder)).await?;
    processor.run(&mut source, watch).await?;
    drop(processor);
    source.check()?;
    Ok(store)
}

/// Ends errors about missing files: some samples are in no file.
const NOT_IN_FILES: &str = "a store with samples from a pipe, from HTTP or from `tstar dlq replay` \
    cannot be rebuilt from files";

fn never_imported(file: &str, store: &str) -> String {
    format!(
        "`{file}` holds records that were not imported into store `{store}` from this file; leave \
         it out, or, if they were never imported, import it first: tstar ingest --store \
         sqlite:{store} {file}; {NOT_IN_FILES}"
    )
}

/// Checks that the files are all that a store was built from.
///
/// # Errors
/// Those of [`of_files`].
pub async fn check_complete(
    imported: &EmbeddedStore,
    files: &[PathBuf],
) -> Result<(), ReferenceError> {
    let (mut source, _) = ImportedFiles::open(imported, files).await?;
    while source.next().await?.is_some() {}
    source.check()
}

/// A step in the history of a store that was built from files.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportStep {
    /// Files that were imported, in this order.
    Files(Vec<PathBuf>),
    /// Forgets that were carried out, in this order.
    Forgets(Vec<(String, Forget)>),
}

/// The history of a store that was built from files, oldest step first.
///
/// # Errors
/// A file cannot be read, or was never imported into the store.
pub async fn import_steps(
    imported: &EmbeddedStore,
    files: &[PathBuf],
) -> Result<Vec<ImportStep>, ReferenceError> {
    let (options, _) = options(imported).await?;
    let mut forgets = VecDeque::from(imported.every_forget()?);
    let mut steps: Vec<ImportStep> = Vec::new();
    for (offset, file) in in_order(files, &options, imported.path()).await? {
        let later = forgets.iter().position(|(_, forget)| offset_of(forget) > offset);
        let before: Vec<_> = forgets.drain(..later.unwrap_or(forgets.len())).collect();
        if !before.is_empty() {
            steps.push(ImportStep::Forgets(before));
        }
        match steps.last_mut() {
            Some(ImportStep::Files(files)) => files.push(file),
            _ => steps.push(ImportStep::Files(vec![file])),
        }
    }
    if !forgets.is_empty() {
        steps.push(ImportStep::Forgets(forgets.into()));
    }
    Ok(steps)
}

/// How the files of a store are read with their stored offsets, and the rules of the store.
async fn options(imported: &EmbeddedStore) -> Result<(Options, Rules), ReferenceError> {
    let store = imported.path();
    let Some(rules) = imported.rules()? else {
        return Err(ReferenceError::OtherFiles(format!("store `{store}` is empty")));
    };
    let options = Options {
        format: None,
        decoder: Arc::new(Decoder::new(&rules)?),
        max_document: file::max_document(u64::MAX),
        log_time_ms: LogTime(0),
        first_offset: imported.position().await?.delivered,
        known: imported.parts()?,
        redelivers: true,
    };
    Ok((options, rules))
}

fn has_grown(file: &str, store: &str) -> String {
    format!(
        "`{file}` cannot be compared with store `{store}`: it grew within its last line after it \
         was imported, so what was read first is no longer in it; import it into a new store: \
         tstar ingest --store sqlite:NEW.db {file}"
    )
}

/// The files in import order, each with the offset of its first record.
async fn in_order(
    files: &[PathBuf],
    options: &Options,
    store: &str,
) -> Result<Vec<(Offset, PathBuf)>, ReferenceError> {
    FileSource::check(files, options)?;
    let mut ordered = Vec::with_capacity(files.len());
    for file in files {
        let mut source = FileSource::open(std::slice::from_ref(file), options.clone())?;
        // An empty file has no records, so its order does not matter.
        while let Some(batch) = source.next().await? {
            let Some(first) = first_offset(&batch) else { continue };
            if first >= options.first_offset {
                let problem = if batch.outgrown { has_grown } else { never_imported };
                let problem = problem(&file.display().to_string(), store);
                return Err(ReferenceError::OtherFiles(problem));
            }
            ordered.push((first, file.clone()));
            break;
        }
    }
    ordered.sort();
    let mut distinct: Vec<(Offset, PathBuf)> = Vec::with_capacity(ordered.len());
    for (first, file) in ordered {
        match distinct.last_mut() {
            // A second copy of a file has no records of its own, nor has a copy from before it
            // grew.
            Some((same, kept)) if *same == first => {
                if last_offset(&file, options).await? > last_offset(kept, options).await? {
                    *kept = file;
                }
            }
            _ => distinct.push((first, file)),
        }
    }
    Ok(distinct)
}

/// Offset of the last sample of a file.
async fn last_offset(file: &Path, options: &Options) -> Result<Option<Offset>, ReferenceError> {
    let mut source = FileSource::open(&[file.to_owned()], options.clone())?;
    let mut last = None;
    while let Some(batch) = source.next().await? {
        last = last.max(batch.entries.last().map(|entry| entry.offset));
    }
    Ok(last)
}

/// Offset of the first record of a batch. A record without samples has no entry.
fn first_offset(batch: &Batch) -> Option<Offset> {
    let of_entries = batch.entries.first().map(|entry| entry.offset);
    of_entries.into_iter().chain(batch.arrays.keys().next().copied()).min()
}

/// A source that reads the files of a store in import order and checks that they are complete.
pub struct ImportedFiles {
    source: FileSource,
    /// A batch that was read ahead; a forget precedes it.
    ahead: Option<Batch>,
    /// The remaining forgets, oldest first; each has an offset among the records.
    forgets: VecDeque<(String, Forget)>,
    /// Offset of the next record.
    next: Offset,
    /// Number of records that the store was built from.
    delivered: Offset,
    /// Path of the store.
    store: String,
    /// The first problem of the files.
    fault: Option<String>,
    /// The first file that no longer contains all that was imported from it.
    outgrown: Option<Arc<str>>,
}

fn offset_of(forget: &Forget) -> Offset {
    Versions::of_files().offset_of(forget.version)
}

impl ImportedFiles {
    /// Opens the files that a store was built from; returns the rules of the store as well.
    ///
    /// # Errors
    /// Those of [`of_files`].
    pub async fn open(
        imported: &EmbeddedStore,
        files: &[PathBuf],
    ) -> Result<(Self, Rules), ReferenceError> {
        let store = imported.path();
        let (options, rules) = options(imported).await?;
        let delivered = options.first_offset;
        let files = in_order(files, &options, store).await?;
        let files: Vec<PathBuf> = files.into_iter().map(|(_, file)| file).collect();
        let source = Self {
            source: FileSource::open(&files, options)?,
            ahead: None,
            forgets: imported.every_forget()?.into(),
            next: Offset(0),
            delivered,
            store: store.to_owned(),
            fault: None,
            outgrown: None,
        };
        Ok((source, rules))
    }

    /// Checks, after the last batch, that the files were complete.
    ///
    /// # Errors
    /// [`ReferenceError::OtherFiles`].
    pub fn check(self) -> Result<(), ReferenceError> {
        self.problem().map_or(Ok(()), |problem| Err(ReferenceError::OtherFiles(problem)))
    }

    /// The next forget, as a control record.
    fn forget(&mut self) -> Option<Batch> {
        let (device_id, forget) = self.forgets.pop_front()?;
        let (offset, before_ms) = (offset_of(&forget), forget.before_ms);
        if self.fault.is_none() && offset > self.next {
            self.fault = Some(format!(
                "store `{}` was built from records {} to {}, which these files lack, before an \
                 erasure: name every file that was imported",
                self.store,
                self.next,
                offset - 1
            ));
        }
        self.next = self.next.max(offset + 1);
        let device_id = DeviceId::from_store(device_id);
        let control = Some(Control::Forget { offset, device_id, before_ms, key: None });
        Some(Batch { control, next_offset: Some(offset + 1), ..Batch::default() })
    }

    fn inspect(&mut self, batch: &Batch) {
        if batch.outgrown {
            self.outgrown.get_or_insert_with(|| Arc::clone(&batch.origin));
        }
        for entry in &batch.entries {
            self.pass_empty(batch, entry.offset);
            let is_next = entry.offset == self.next || entry.offset + 1 == self.next;
            if self.fault.is_none() && !entry.again {
                self.fault = Some(never_imported(&batch.origin, &self.store));
            } else if self.fault.is_none() && !is_next {
                self.fault = Some(format!(
                    "`{}` starts with record {} of store `{}`, but record {} comes before it: \
                     name every file that was imported; a file that was imported in parts, with \
                     other files in between, cannot be read in that order",
                    batch.origin, entry.offset, self.store, self.next
                ));
            }
            self.next = entry.offset + 1;
        }
        self.pass_empty(batch, self.delivered);
    }

    /// Passes over records without samples, such as empty arrays, up to an offset.
    fn pass_empty(&mut self, batch: &Batch, upto: Offset) {
        while self.next < upto && batch.arrays.contains_key(&self.next) {
            self.next += 1;
        }
    }

    fn problem(self) -> Option<String> {
        let (next, delivered, store) = (self.next, self.delivered, self.store);
        let problem = self.fault.or_else(|| {
            (next != delivered).then(|| {
                format!(
                    "store `{store}` was built from {delivered} records, and these files hold \
                     {next} of them: name every file that was imported; {NOT_IN_FILES}"
                )
            })
        });
        // What a file lacks may be in another one that begins as it does.
        match self.outgrown {
            Some(file) => problem.map(|_| has_grown(&file, &store)),
            None => problem,
        }
    }
}

impl Source for ImportedFiles {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        let batch = match self.ahead.take() {
            None => self.source.next().await?,
            ahead => ahead,
        };
        let first = batch.as_ref().map(first_offset);
        let is_due = |forget: &Forget| match first {
            None => true,
            Some(first) => first.is_some_and(|first| offset_of(forget) < first),
        };
        if self.forgets.front().is_some_and(|(_, forget)| is_due(forget)) {
            self.ahead = batch;
            return Ok(self.forget());
        }
        if let Some(batch) = &batch {
            self.inspect(batch);
        }
        // After a fault the records are not needed.
        Ok(batch.filter(|_| self.fault.is_none()))
    }
}
