//! Sends the samples of files to a topic, or previews what they would change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::TripChanges;
use super::file_records::{Chunk, FileRecords, RecordOptions};
use super::preview::{self, PreviewLog};
use super::state::ReplayState;
use crate::kafka::KafkaError;
use crate::kafka::producer::Producer;
use crate::log::ReadProgress;
use crate::log::redecode::DecodeOverrides;
use crate::log::reference::Workspace;
use crate::log::target::TargetTopic;
use crate::model::scalar::{LogTime, Offset};
use crate::ops::{Cancel, InvalidRequest, Notify, PartialResult};
use crate::pipeline::processor::SampleCounts;
use crate::settings::{Settings, notify};
use crate::source::file::{self, FileSource, Options};
use crate::source::{Batch, Decoder, DecoderError};
use crate::store::AnyStore;
use crate::telemetry::clock_ms;

/// Memory that JSON documents are read in, bytes.
const MEMORY: u64 = 512_000_000;

/// Which samples to send, and to which topic.
pub struct FileReplayRequest<'a> {
    /// Paths; `-` is stdin.
    pub files: &'a [PathBuf],
    /// Their format, and the log timestamp of every line.
    pub settings: &'a Settings,
    /// Overrides of the log's rules for decoding the files.
    pub overrides: DecodeOverrides,
    /// The topic.
    pub target: TargetTopic<'a>,
}

/// Opens the store of the topic. Returns `None` if that is optional and the store is a file that
/// does not exist.
///
/// # Errors
/// The store cannot be opened.
pub async fn open_store(
    settings: &Settings,
    is_optional: bool,
) -> anyhow::Result<Option<AnyStore>> {
    if is_optional && settings.url()?.path().is_some_and(|path| !path.exists()) {
        return Ok(None);
    }
    settings.reader().await.map(Some)
}

/// Result of a replay or of its preview.
#[derive(Clone, Debug)]
pub struct FileReplayOutcome {
    /// Name of the topic.
    pub topic: String,
    /// Samples that were sent, or would be.
    pub samples: u64,
    /// Lines that are not samples, by reason.
    pub bad: BTreeMap<&'static str, u64>,
    /// Samples that the field map skips; they are not sent.
    pub skipped: u64,
    /// Samples that the field map drops, by reason; they are not sent.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Lines that an earlier run sent or counted as bad.
    pub lines_before: u64,
    /// The expected effect; `None` if the samples were sent.
    pub preview: Option<FilePreview>,
}

impl FileReplayOutcome {
    /// Number of lines that are not samples.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad.values().sum()
    }
}

/// The expected effect of samples that were not sent.
#[derive(Clone, Debug)]
pub struct FilePreview {
    /// What `tstar run` would count.
    pub counts: SampleCounts,
    /// Trips that would change.
    pub changes: TripChanges,
}

/// A replay whose files and topic passed their checks. Nothing is sent yet.
pub struct FileReplayJob<'a> {
    files: &'a [PathBuf],
    options: Options,
    /// Hash of the rules that the files are decoded by.
    rules_hash: String,
    target: TargetTopic<'a>,
    notify: Notify,
}

impl<'a> FileReplayJob<'a> {
    /// Checks the files.
    ///
    /// # Errors
    /// The field map is invalid, or a file cannot be read.
    pub fn open(request: FileReplayRequest<'a>) -> anyhow::Result<Self> {
        let target = request.target;
        let rules = request.overrides.over(&target.rules);
        let options = Options {
            format: request.settings.input_format,
            decoder: Arc::new(Decoder::new(&rules)?),
            max_document: file::max_document(MEMORY),
            log_time_ms: LogTime(request.settings.now_ms),
            first_offset: Offset(0),
            known: Vec::new(),
            redelivers: false,
        };
        FileSource::check(request.files, &options)?;
        Ok(Self {
            files: request.files,
            options,
            rules_hash: rules.hash(),
            target,
            notify: notify(),
        })
    }

    /// Computes what the samples would change if they arrived now.
    ///
    /// # Errors
    /// There is no store, the files or the store cannot be read, or the workspace cannot be
    /// written.
    pub async fn preview(
        &self,
        workspace: Workspace<'_>,
        progress: &mut dyn ReadProgress,
    ) -> anyhow::Result<FileReplayOutcome> {
        let Some(finder) = &self.target.finder else {
            let problem = "a preview needs a store; name it with --store";
            return Err(InvalidRequest(problem.into()).into());
        };
        let mut records = self.records(FileSource::open(self.files, self.options.clone())?)?;
        progress.start(records.total_bytes());
        let log = PreviewLog {
            store: finder.store,
            epochs: &finder.epochs,
            offsets: &self.target.offsets,
        };
        let watch = |batch: &Batch, counts: &SampleCounts| progress.update(batch, counts);
        let previewed = preview::preview_changes(log, &mut records, workspace, watch).await;
        progress.finish();
        let (counts, changes) = previewed?;
        Ok(FileReplayOutcome {
            topic: self.target.topic.clone(),
            samples: counts.delivered,
            bad: records.bad,
            skipped: records.skipped,
            dropped: records.dropped,
            lines_before: 0,
            preview: Some(FilePreview { counts, changes }),
        })
    }

    /// Prepares to send what the state file does not list as sent.
    ///
    /// # Errors
    /// Another replay has locked the state file, it is malformed or cannot be written, a file
    /// cannot be read, or brokers do not respond.
    pub fn sender(&'a self, state: &'a Path) -> anyhow::Result<FileSender<'a>> {
        let target = &self.target;
        let log = format!("{}/{}/{}", target.topics.cluster()?, target.topic, self.rules_hash);
        let state_path = state;
        let state = ReplayState::open(state_path, log)?;
        let (first_offset, known) = (state.lines(), state.known());
        let options = Options { first_offset: Offset(first_offset), known, ..self.options.clone() };
        let mut records = self.records(FileSource::open(self.files, options)?)?;
        records.next = state.lines();
        let producer = Producer::new(&target.brokers, Arc::clone(&self.notify))?;
        Ok(FileSender { job: self, state_path, state, records, producer })
    }

    fn records(&self, source: FileSource) -> Result<FileRecords<'_, AnyStore>, DecoderError> {
        let options = RecordOptions {
            rules: &self.target.rules,
            finder: self.target.finder.as_ref(),
            clock_ms,
            notify: Arc::clone(&self.notify),
        };
        FileRecords::new(source, options)
    }
}

/// Sends samples chunk by chunk, and records each acknowledged chunk in the state file.
pub struct FileSender<'a> {
    job: &'a FileReplayJob<'a>,
    state_path: &'a Path,
    state: ReplayState,
    records: FileRecords<'a, AnyStore>,
    producer: Producer,
}

impl FileSender<'_> {
    /// Sends until the files end or a signal arrives.
    ///
    /// # Errors
    /// [`Stopped`](crate::ops::Stopped), brokers do not respond or reject a record, the files or
    /// the store cannot be read, or the state file cannot be written.
    pub async fn send(
        mut self,
        cancel: &mut Cancel,
        progress: &mut dyn ReadProgress,
    ) -> anyhow::Result<FileReplayOutcome> {
        progress.start(self.records.total_bytes());
        let (mut sent, mut lines_before) = (0, 0);
        loop {
            let chunk = tokio::select! {
                biased;
                () = cancel.wait() => break,
                chunk = self.records.next_chunk() => chunk?,
            };
            let Some(mut chunk) = chunk else { break };
            lines_before += self.report_known_lines(&mut chunk);
            tokio::select! {
                biased;
                () = cancel.wait() => break,
                acknowledged = self.send_chunk(&chunk) => {
                    acknowledged.map_err(|error| self.partly_sent(error, sent, &chunk))?;
                }
            }
            sent += chunk.records.len() as u64;
            if let Some(part) = &chunk.batch.part {
                self.state.record(part, self.records.next)?;
            }
            let counts = SampleCounts { delivered: sent, ..SampleCounts::default() };
            progress.update(&chunk.batch, &counts);
        }
        progress.finish();
        if let Some(stopped) = cancel.stopped(PartialResult::Sent) {
            (self.job.notify)(&format!("sent {sent} samples; the rest was not"));
            return Err(stopped.into());
        }
        Ok(FileReplayOutcome {
            topic: self.job.target.topic.clone(),
            samples: sent,
            bad: self.records.bad,
            skipped: self.records.skipped,
            dropped: self.records.dropped,
            lines_before,
            preview: None,
        })
    }

    async fn send_chunk(&self, chunk: &Chunk) -> Result<(), KafkaError> {
        let records = chunk.records.iter().map(|(record, partition)| (record, *partition));
        let records: Vec<_> = records.collect();
        let topic = &self.job.target.topic;
        let sent = self.producer.send_to_partition(topic, &records).await;
        sent.map(drop).map_err(self.producer.failed("sending samples", topic))
    }

    /// Adds the number of sent samples to an error of unreachable brokers.
    fn partly_sent(&self, error: KafkaError, sent: u64, chunk: &Chunk) -> anyhow::Error {
        if !matches!(error, KafkaError::Unreachable { .. }) {
            return error.into();
        }
        let (state, next) = (self.state_path.display(), chunk.records.len());
        anyhow::Error::new(error).context(format!(
            "stopped early; {sent} samples were sent, and possibly some of the next {next}; \
             `{state}` records the progress; rerun to continue"
        ))
    }

    /// Reports lines that an earlier run handled. Returns their number.
    fn report_known_lines(&self, chunk: &mut Chunk) -> u64 {
        let known = std::mem::take(&mut chunk.batch.lines_known);
        if known > 0 {
            let (file, state) = (&chunk.batch.origin, self.state_path.display());
            (self.job.notify)(&format!(
                "{file}: {known} lines were dealt with by an earlier run, according to `{state}`; \
                 continuing after them"
            ));
        }
        known
    }
}
