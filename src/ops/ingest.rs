//! Ingest: builds the trips of files in an embedded store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ingest_problems::problems;
pub(crate) use super::ingest_problems::{FirstLetter, ImportProblem};
use super::ingest_warnings::{
    ImportWatch, file_cut, guessed_encoding, late_in_repeated_hours, no_records,
};
pub use super::ingest_warnings::{Warning, conflicting};
use super::{BadData, Cancel, InvalidRequest, PartialResult, SignalListener, Stopped};
use crate::log::ReadProgress;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::rules_request::RulesRequest;
use crate::model::scalar::{LogTime, Offset};
use crate::pipeline::processor::{Processor, ProcessorConfig, RunError, SampleCounts};
use crate::settings::Settings;
use crate::source::file::{self, FileSource, Options};
use crate::source::spill::Spill;
use crate::source::{Batch, Decoder, Source, SourceError};
use crate::store::{EmbeddedStore, LetterFilter};

/// Why files cannot be imported into a keyspace.
const NO_KEYSPACE: &str = "files cannot be imported into a keyspace directly: its versions are \
    positions in a topic, and those of files would have no order; import into sqlite:FILE, or send \
    the samples through the topic";

/// Memory reserved for batches in flight and pending dead letters, bytes.
const BUFFERS: u64 = 32_000_000;

/// What to import, and how.
#[derive(Clone, Copy, Debug)]
pub struct IngestRequest<'a> {
    /// Files, read in this order; `-` is stdin.
    pub files: &'a [PathBuf],
    /// Rules of a new store; those given must be the rules of a store that has samples.
    pub rules: &'a RulesRequest,
    /// The store, which is created if it does not exist; memory, and times.
    pub settings: &'a Settings,
}

impl IngestRequest<'_> {
    fn processor_config(&self) -> ProcessorConfig {
        let memory = self.settings.memory.saturating_sub(self.settings.cache() + BUFFERS);
        ProcessorConfig {
            flush: self.settings.flush,
            memory: usize::try_from(memory).unwrap_or(usize::MAX),
            ..ProcessorConfig::default()
        }
    }

    /// How files are read into an empty store.
    fn read_options(&self, rules: &Rules) -> anyhow::Result<Options> {
        if rules.names_schemas() {
            let problem =
                "files do not name the schemas of their records: name a file with --schema";
            return Err(InvalidRequest(problem.into()).into());
        }
        Ok(Options {
            format: self.settings.input_format,
            decoder: Arc::new(Decoder::new(rules)?),
            max_document: file::max_document(self.settings.memory),
            log_time_ms: LogTime(self.settings.now_ms),
            first_offset: Offset(0),
            known: Vec::new(),
            redelivers: false,
        })
    }

    /// The store's file.
    fn store_path(&self) -> anyhow::Result<PathBuf> {
        let url = self.settings.url()?;
        let path = url.path().map(Path::to_owned);
        let problem = || InvalidRequest(format!("store `{url}`: {NO_KEYSPACE}"));
        Ok(path.ok_or_else(problem)?)
    }
}

/// Result of an import.
#[derive(Debug)]
pub struct IngestOutcome {
    /// Counts of samples by result.
    pub counts: SampleCounts,
    /// Number of trips in the store after the import.
    pub trips: u64,
    /// Why more than half of the samples could not be used; else empty.
    pub problems: Vec<ImportProblem>,
    /// What is hardly meant so, such as speeds in another unit.
    pub warnings: Vec<Warning>,
    /// Number of dead letters removed that earlier imports left in a store without samples.
    pub dead_letters_removed: u64,
    /// Whether the store had its rules, and so its field map, before the import.
    pub had_rules: bool,
    /// Why the input was not read to its end; the samples before that are stored and counted.
    pub stopped: Option<anyhow::Error>,
}

impl IngestOutcome {
    /// The counts of an import that read the input to its end.
    ///
    /// # Errors
    /// The input was not read to its end.
    pub(crate) fn into_counts(self) -> anyhow::Result<SampleCounts> {
        self.stopped.map_or(Ok(self.counts), Err)
    }

    /// Whether the files may fit another store: fields are missing by the map that this one keeps.
    #[must_use]
    pub(crate) fn lacks_fields_of_store(&self) -> bool {
        let missing = DeadReason::MissingField.name();
        let source = self.stopped.as_ref().and_then(|error| error.downcast_ref::<SourceError>());
        self.had_rules
            && (self.problems.iter().any(|problem| problem.reason == missing)
                || matches!(source, Some(SourceError::Header { .. })))
    }

    /// Checks that the whole input was read and any of its samples was of use; with `strict`, also
    /// that it has no dead letter.
    ///
    /// # Errors
    /// Reading stopped early, a file is truncated, every sample that was not skipped became a dead
    /// letter, or `strict` is violated.
    pub fn check(self, strict: bool) -> anyhow::Result<()> {
        let counts = self.into_counts()?;
        if let Some(count) = counts.dead_letters.get(&DeadReason::TruncatedInput) {
            let problem = format!(
                "the input is truncated in {count} place(s); what came before is stored; to list \
                 them: tstar dlq ls --reason truncated_input"
            );
            return Err(BadData(problem).into());
        }
        if counts.dead() > 0 && counts.dead() + counts.skipped == counts.delivered {
            let problem = format!(
                "none of the {} samples could be used; change the command or the file as the \
                 reasons above say, and run it again; `tstar inspect` finds what reads it",
                counts.dead()
            );
            return Err(BadData(problem).into());
        }
        if strict && counts.dead() > 0 {
            let problem = format!("{} dead letters under --strict", counts.dead());
            return Err(BadData(problem).into());
        }
        Ok(())
    }
}

/// Reads files into a store. An import that stopped early is resumed by the same request.
///
/// # Errors
/// A file cannot be opened, or the store cannot be written. Input that fails midway is reported by
/// [`IngestOutcome::stopped`].
pub async fn ingest(
    request: IngestRequest<'_>,
    listen: SignalListener<'_>,
    progress: &mut dyn ReadProgress,
) -> anyhow::Result<IngestOutcome> {
    let IngestRequest { files, rules: requested, settings } = request;
    let path = request.store_path()?;
    if !path.exists() {
        // Before the store is created: a mistyped file name must not leave an empty store.
        let rules = requested.over(&Rules::default());
        FileSource::check(files, &request.read_options(&rules)?)?;
    }
    let cancel = listen(PartialResult::Read)?;
    let opened = EmbeddedStore::open_import(&path, requested, settings.keep_changes)?;
    let (mut store, rules) = opened;
    store.bound_letters(settings.max_dead_letters, None);
    let mut options = request.read_options(&rules)?;
    FileSource::check(files, &options)?;
    store.set_cache(settings.cache())?;
    let removed = store.prepare_import(&rules)?;
    let last_letter = store.last_dead_letter()?;
    let mut processor = Processor::new(&store, &rules, request.processor_config()).await?;
    processor.enable_spill(Spill::new(&spill_folder(&path))).await?;
    options.first_offset = processor.position().delivered;
    options.known = store.parts()?;
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    store.begin_import(settings.now_ms, &names)?;
    let source = FileSource::open(files, options)?;
    progress.start(source.total_bytes());
    let mut source = CancellableSource { source, cancel };
    let mut watch = ImportWatch::new(&rules);
    let on_batch = |batch: &Batch, counts: &SampleCounts| {
        watch.observe(batch);
        progress.update(batch, counts);
    };
    let result = processor.run(&mut source, on_batch).await;
    progress.finish();
    let stopped = match (result, source.cancel.signal()) {
        (Ok(()), None) => {
            store.end_import()?;
            None
        }
        (Ok(()), Some(signal)) => Some(Stopped { signal, partial: PartialResult::Read }.into()),
        (Err(RunError::Source(error)), _) => Some(error.into()),
        (Err(error), _) => return Err(error.into()),
    };
    let first_of = |reason| {
        let filter = LetterFilter { reason: Some(reason), ..LetterFilter::default() };
        let mut first = store.dead_letters(&filter, last_letter, 1)?;
        if first.is_empty() {
            // A file that is imported again adds no dead letters.
            first = store.dead_letters(&filter, 0, 1)?;
        }
        Ok(first.pop().map(|row| row.letter))
    };
    let problems = problems(processor.counts(), first_of)?;
    let mut warnings = watch.warnings(&rules, processor.counts(), processor.limited_trips());
    warnings.extend(source.source.cut_files().iter().map(file_cut));
    warnings.extend(guessed_encoding(&source.source.guessed_files()));
    warnings.extend(late_in_repeated_hours(source.source.late_in_repeated_hours()));
    if stopped.is_none() && processor.counts().delivered == 0 {
        warnings.push(no_records(&names));
    }
    Ok(IngestOutcome {
        problems,
        warnings,
        counts: processor.counts().clone(),
        trips: store.count_trips()?,
        dead_letters_removed: removed.unwrap_or_default(),
        had_rules: removed.is_none(),
        stopped,
    })
}

/// The folder of the store's file after links are resolved: a disk with space for the store has
/// space for spilled samples.
fn spill_folder(store: &Path) -> PathBuf {
    let path = std::fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// A source that ends when it is cancelled.
struct CancellableSource {
    source: FileSource,
    cancel: Cancel,
}

impl Source for CancellableSource {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        tokio::select! {
            biased;
            () = self.cancel.wait() => Ok(None),
            batch = self.source.next() => batch,
        }
    }
}
