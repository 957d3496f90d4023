//! Sends the samples of files to a topic, or previews what they would change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::TripChanges;
pub(crate) use super::file_records::LeftOut;
use super::file_records::{Chunk, FileRecords};
use super::preview;
use super::state::ReplayState;
use crate::kafka::KafkaError;
use crate::kafka::producer::Producer;
use crate::log::ReadProgress;
use crate::log::redecode::DecodeOverrides;
use crate::log::reference::Workspace;
use crate::log::target::TargetTopic;
use crate::model::scalar::{LogTime, Offset};
use crate::ops::{InvalidRequest, Notify, PartialResult, SignalListener};
use crate::pipeline::processor::SampleCounts;
use crate::settings::{Settings, notify};
use crate::source::file::{self, FileSource, Options};
use crate::source::{Batch, Decoder};

/// Memory that JSON documents are read in, bytes.
const MEMORY: u64 = 512_000_000;

/// Which samples to send, and to which topic.
pub(crate) struct FileReplayRequest<'a> {
    /// Paths; `-` is stdin.
    pub files: &'a [PathBuf],
    /// Their format, and the log timestamp of every line.
    pub settings: &'a Settings,
    /// Overrides of the log's rules for decoding the files.
    pub overrides: DecodeOverrides,
    /// The topic.
    pub target: TargetTopic<'a>,
}

/// Result of a replay or of its preview.
#[derive(Clone, Debug)]
pub(crate) struct FileReplayOutcome {
    /// Name of the topic.
    pub topic: String,
    /// Samples that were sent, or would be.
    pub samples: u64,
    /// What is not sent.
    pub left_out: LeftOut,
    /// Lines that an earlier run sent or counted as bad.
    pub lines_before: u64,
    /// What `tstar run` would count, and the trips that would change; `None` if the samples were
    /// sent.
    pub preview: Option<(SampleCounts, TripChanges)>,
}

/// A replay whose files and topic passed their checks. Nothing is sent yet.
pub(crate) struct FileReplayJob<'a> {
    request: FileReplayRequest<'a>,
    options: Options,
    /// Hash of the rules that the files are decoded by.
    rules_hash: String,
    notify: Notify,
}

impl<'a> FileReplayJob<'a> {
    /// Checks the files.
    ///
    /// # Errors
    /// The field map is invalid, or a file cannot be read.
    pub(crate) fn open(request: FileReplayRequest<'a>) -> anyhow::Result<Self> {
        let rules = request.overrides.over(&request.target.rules);
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
        Ok(Self { request, options, rules_hash: rules.hash(), notify: notify() })
    }

    /// Computes what the samples would change if they arrived now.
    ///
    /// # Errors
    /// There is no store, the files or the store cannot be read, or the workspace cannot be
    /// written.
    pub(crate) async fn preview(
        &self,
        workspace: Workspace<'_>,
        progress: &mut dyn ReadProgress,
    ) -> anyhow::Result<FileReplayOutcome> {
        let target = &self.request.target;
        let Some(finder) = &target.finder else {
            let problem = "a preview needs a store; name it with --store";
            return Err(InvalidRequest(problem.into()).into());
        };
        let mut records = self.records(self.options.clone())?;
        progress.start(records.total_bytes());
        let log = (finder, &*target.offsets);
        let watch = |batch: &Batch, counts: &SampleCounts| progress.update(batch, counts);
        let previewed = preview::preview_changes(log, &mut records, workspace, watch).await;
        progress.finish();
        let (counts, changes) = previewed?;
        Ok(FileReplayOutcome {
            topic: target.topic.clone(),
            samples: counts.delivered,
            left_out: records.left_out,
            lines_before: 0,
            preview: Some((counts, changes)),
        })
    }

    /// Sends what the state file does not list as sent, until the files end or a signal arrives.
    /// Each chunk that brokers acknowledged is recorded in that file.
    ///
    /// # Errors
    /// Another replay has locked the state file, it is malformed or cannot be written;
    /// [`Stopped`](crate::ops::Stopped), brokers do not respond or reject a record, or the files or
    /// the store cannot be read.
    pub(crate) async fn send(
        &self,
        state_path: &Path,
        listen: SignalListener<'_>,
        progress: &mut dyn ReadProgress,
    ) -> anyhow::Result<FileReplayOutcome> {
        let (target, notify) = (&self.request.target, &self.notify);
        let log = format!("{}/{}/{}", target.topics.cluster()?, target.topic, self.rules_hash);
        let mut state = ReplayState::open(state_path, log)?;
        let (first_offset, known) = (Offset(state.lines()), state.known());
        let mut records = self.records(Options { first_offset, known, ..self.options.clone() })?;
        records.next = state.lines();
        let producer = Producer::new(&target.brokers, Arc::clone(notify))?;
        let mut cancel = listen(PartialResult::Sent)?;
        progress.start(records.total_bytes());
        let (mut sent, mut lines_before) = (0, 0);
        loop {
            let chunk = tokio::select! {
                biased;
                () = cancel.wait() => break,
                chunk = records.next_chunk() => chunk?,
            };
            let Some(mut chunk) = chunk else { break };
            lines_before += self.report_known_lines(&mut chunk, state_path);
            tokio::select! {
                biased;
                () = cancel.wait() => break,
                acknowledged = producer.send(&target.topic, &chunk.records) => {
                    let failed = producer.failed("sending samples", &target.topic);
                    let partly = |error| partly_sent(failed(error), sent, &chunk, state_path);
                    acknowledged.map_err(partly)?;
                }
            }
            sent += chunk.records.len() as u64;
            if let Some(part) = &chunk.batch.part {
                state.record(part, records.next)?;
            }
            let counts = SampleCounts { delivered: sent, ..SampleCounts::default() };
            progress.update(&chunk.batch, &counts);
        }
        progress.finish();
        if let Some(stopped) = cancel.stopped(PartialResult::Sent) {
            notify(&format!("sent {sent} samples; the rest was not"));
            return Err(stopped.into());
        }
        let (topic, left_out) = (target.topic.clone(), records.left_out);
        Ok(FileReplayOutcome { topic, samples: sent, left_out, lines_before, preview: None })
    }

    fn records(&self, options: Options) -> anyhow::Result<FileRecords<'_>> {
        let FileReplayRequest { files, target, .. } = &self.request;
        let source = FileSource::open(files, options)?;
        Ok(FileRecords::new(source, target, Arc::clone(&self.notify))?)
    }

    /// Reports lines that an earlier run handled. Returns their number.
    fn report_known_lines(&self, chunk: &mut Chunk, state: &Path) -> u64 {
        let known = std::mem::take(&mut chunk.batch.lines_known);
        if known > 0 {
            let (file, state) = (&chunk.batch.origin, state.display());
            (self.notify)(&format!(
                "{file}: {known} lines were dealt with by an earlier run, according to `{state}`; \
                 continuing after them"
            ));
        }
        known
    }
}

/// Adds the number of sent samples to an error of unreachable brokers.
fn partly_sent(error: KafkaError, sent: u64, chunk: &Chunk, state: &Path) -> anyhow::Error {
    if !matches!(error, KafkaError::Unreachable { .. }) {
        return error.into();
    }
    let (state, next) = (state.display(), chunk.records.len());
    anyhow::Error::new(error).context(format!(
        "stopped early; {sent} samples were sent, and possibly some of the next {next}; `{state}` \
         records the progress; rerun to continue"
    ))
}
