//! A log of imported files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use crate::identity::DeviceId;
use crate::model::epoch::Versions;
use crate::model::failure::{BadData, PreconditionFailed};
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::source::file::{self, FileSource, Options};
use crate::source::{Batch, Control, Decoder, Source, SourceError};
use crate::store::{AnyStore, EmbeddedStore, Forget};

/// A step in the history of a store that was built from files.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportStep {
    /// Files that were imported, in this order.
    Files(Vec<PathBuf>),
    /// Forgets that were carried out, in this order.
    Forgets(Vec<(String, Forget)>),
}

/// The imported files that a store was built from.
pub struct FilesLog {
    /// The store.
    pub store: Arc<EmbeddedStore>,
    /// All its files, in any order.
    pub files: Vec<PathBuf>,
}

impl FilesLog {
    /// The log of a store without an epoch.
    ///
    /// # Errors
    /// The store is a keyspace.
    pub fn new(store: &AnyStore, files: &[PathBuf]) -> Result<Self, PreconditionFailed> {
        let problem = || PreconditionFailed("a keyspace is never built from files".to_owned());
        let store = Arc::clone(store.embedded().ok_or_else(problem)?);
        Ok(Self { store, files: files.to_owned() })
    }

    /// The records of the files in import order, with their stored offsets, and the rules of the
    /// store.
    ///
    /// # Errors
    /// A file cannot be read or was never imported.
    pub async fn records(&self) -> anyhow::Result<(ImportedFiles, Rules)> {
        let (options, rules) = self.options().await?;
        let delivered = options.first_offset;
        let files = self.in_order(&options).await?;
        let files: Vec<PathBuf> = files.into_iter().map(|(_, file)| file).collect();
        let source = ImportedFiles {
            source: FileSource::open(&files, options)?,
            ahead: None,
            forgets: self.store.every_forget()?.into(),
            next: Offset(0),
            delivered,
            store: self.store.path().to_owned(),
            fault: None,
            outgrown: None,
        };
        Ok((source, rules))
    }

    /// Checks that the files are all that the store was built from.
    ///
    /// # Errors
    /// Those of [`FilesLog::records`], or an imported file is missing.
    pub(crate) async fn check_complete(&self) -> anyhow::Result<()> {
        let (mut source, _) = self.records().await?;
        while source.next().await?.is_some() {}
        Ok(source.check()?)
    }

    /// The history of the store, oldest step first.
    ///
    /// # Errors
    /// Those of [`FilesLog::records`].
    pub async fn steps(&self) -> anyhow::Result<Vec<ImportStep>> {
        let (options, _) = self.options().await?;
        let mut forgets = VecDeque::from(self.store.every_forget()?);
        let mut steps: Vec<ImportStep> = Vec::new();
        for (offset, file) in self.in_order(&options).await? {
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

    /// How the files are read with their stored offsets, and the rules of the store.
    async fn options(&self) -> anyhow::Result<(Options, Rules)> {
        let store = self.store.path();
        let rules = self.store.rules()?;
        let rules = rules.ok_or_else(|| BadData(format!("store `{store}` is empty")))?;
        let decoder = Decoder::new(&rules).context("the rules of the store cannot be used")?;
        let options = Options {
            format: None,
            decoder: Arc::new(decoder),
            max_document: file::max_document(u64::MAX),
            log_time_ms: LogTime(0),
            first_offset: self.store.delivered()?.delivered,
            known: self.store.parts()?,
            redelivers: true,
        };
        Ok((options, rules))
    }

    /// The files in import order, each with the offset of its first record.
    async fn in_order(&self, options: &Options) -> anyhow::Result<Vec<(Offset, PathBuf)>> {
        FileSource::check(&self.files, options)?;
        let mut ordered = Vec::with_capacity(self.files.len());
        for file in &self.files {
            let mut source = FileSource::open(std::slice::from_ref(file), options.clone())?;
            // An empty file has no records, so its order does not matter.
            while let Some(batch) = source.next().await? {
                let Some(first) = first_offset(&batch) else { continue };
                if first >= options.first_offset {
                    let problem = if batch.outgrown { has_grown } else { never_imported };
                    let file = file.display().to_string();
                    return Err(BadData(problem(&file, self.store.path())).into());
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

fn has_grown(file: &str, store: &str) -> String {
    format!(
        "`{file}` cannot be compared with store `{store}`: it grew within its last line after it \
         was imported, so what was read first is no longer in it; import it into a new store: \
         tstar ingest --store sqlite:NEW.db {file}"
    )
}

/// Offset of the last sample of a file.
async fn last_offset(file: &Path, options: &Options) -> anyhow::Result<Option<Offset>> {
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
    /// Checks, after the last batch, that the files were complete.
    ///
    /// # Errors
    /// They were not.
    pub fn check(self) -> Result<(), BadData> {
        self.problem().map_or(Ok(()), |problem| Err(BadData(problem)))
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
