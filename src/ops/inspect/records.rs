//! The records that are looked at, held in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::tally::Tally;
use super::{InspectRequest, MAX_BYTES, MAX_RECORDS};
use crate::kafka::client::Brokers;
use crate::kafka::first_records::FirstRecords;
use crate::kafka::record::RecordReader;
use crate::kafka::topics::Topics;
use crate::model::reason::DeadReason;
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::model::schema::{SchemaId, SchemaVerdict};
use crate::model::text_encoding::TextEncoding;
use crate::pipeline::daemon::preflight;
use crate::registry::{Registry, RegistryError};
use crate::source::file::{FileSource, Head, Heads, InputFormat, Options};
use crate::source::{
    Batch, Decoder, DecoderError, MAX_SCHEMAS, NoSample, Outline, Source as _, SourceError,
    TableSample,
};

/// The records that are looked at.
pub(crate) enum InputRecords {
    /// Of files.
    Files {
        /// Their beginnings.
        heads: Heads,
        /// The format that was given.
        format: Option<InputFormat>,
        /// The encoding that was given.
        encoding: Option<TextEncoding>,
        /// Log timestamp of all records, ms since 1970.
        now_ms: i64,
    },
    /// Of a topic.
    Topic(TopicRecords),
}

/// Records of a topic.
pub(crate) struct TopicRecords {
    /// Name of the topic.
    pub topic: String,
    /// Number of partitions.
    pub partitions: i32,
    /// The records.
    pub first: FirstRecords,
    registry: Option<Arc<Registry>>,
    /// What the registry said.
    verdicts: Mutex<BTreeMap<SchemaId, SchemaVerdict>>,
}

/// Why records cannot be read under some rules.
pub(crate) enum Unread {
    /// The rules are not valid.
    Rules(DecoderError),
    /// The format of a file does not suit the rules.
    Form(SourceError),
}

impl InputRecords {
    /// Reads the first records of the input.
    ///
    /// # Errors
    /// A file or the topic cannot be read.
    pub(crate) async fn read(request: &InspectRequest) -> anyhow::Result<Self> {
        let InspectRequest { files, settings, .. } = request;
        if files.is_empty() {
            let (brokers, registry) = (settings.brokers()?, settings.registry()?);
            return Self::of_topic(&settings.topic, brokers, registry).await;
        }
        let (files, format, now_ms) = (files.clone(), settings.input_format, settings.now_ms);
        let encoding = settings.encoding;
        // One line more: a table has a header.
        let lines = usize::try_from(MAX_RECORDS).unwrap_or(usize::MAX).saturating_add(1);
        let read = move || Heads::read(&files, MAX_BYTES, lines);
        let heads = tokio::task::spawn_blocking(read).await?;
        Ok(Self::Files { heads: heads?, format, encoding, now_ms })
    }

    /// Reads the first records that a topic has, of each partition alike. Joins no group and
    /// commits nothing. The registry is asked for the schemas that they name.
    async fn of_topic(
        topic: &str,
        brokers: Brokers,
        registry: Option<Arc<Registry>>,
    ) -> anyhow::Result<Self> {
        let topics = Arc::new(Topics::new(&brokers)?);
        let layout = preflight::inspect(&topics, topic).await?;
        let (partitions, name) = (layout.partitions, topic.to_owned());
        let limits = (MAX_RECORDS, MAX_BYTES);
        let read = move || FirstRecords::read(&brokers, &name, &layout.extents, limits);
        let first = tokio::task::spawn_blocking(read).await??;
        let (topic, verdicts) = (topic.to_owned(), Mutex::default());
        Ok(Self::Topic(TopicRecords { topic, partitions, first, registry, verdicts }))
    }

    /// The format of each file that was read, under some rules; `None` if it is not known.
    pub(crate) fn formats(&self, rules: &Rules) -> Vec<Option<InputFormat>> {
        let Self::Files { heads, format, now_ms, .. } = self else { return Vec::new() };
        let Ok(decoder) = Decoder::new(rules) else { return Vec::new() };
        let options = options(decoder, *format, *now_ms);
        heads.formats(&options).into_iter().map(Result::ok).collect()
    }

    /// Whether text of a file is not UTF-8, and nothing says what it is.
    pub(crate) fn is_guessed(&self) -> bool {
        let Self::Files { heads, encoding: None, .. } = self else { return false };
        heads.list.iter().any(Head::is_guessed)
    }

    /// The first rows of the first table.
    pub(crate) fn table(&self) -> Option<TableSample> {
        let Self::Files { heads, encoding, .. } = self else { return None };
        let formats = self.formats(&Rules::default());
        let is_table = |format: &Option<InputFormat>| *format == Some(InputFormat::Csv);
        let table = heads.list.iter().zip(&formats).find(|(_, format)| is_table(format))?.0;
        Some(table.table(*encoding))
    }

    /// Decodes the records under some rules; `on_batch` receives each batch.
    ///
    /// # Errors
    /// The registry does not answer. The inner error says why the rules cannot read the records.
    pub(crate) async fn tally(
        &self,
        rules: &Rules,
        mut on_batch: impl FnMut(&Batch),
    ) -> anyhow::Result<Result<Tally, Unread>> {
        let decoder = match Decoder::new(rules) {
            Ok(decoder) => decoder,
            Err(error) => return Ok(Err(Unread::Rules(error))),
        };
        let mut tally = Tally::new(rules);
        match self {
            Self::Files { heads, format, now_ms, .. } => {
                let options = options(decoder, *format, *now_ms);
                let mut source = FileSource::of_heads(heads, options)?;
                while !tally.is_full() {
                    match source.next().await {
                        Ok(Some(mut batch)) => {
                            drop_cut_end(&mut batch, heads);
                            tally.observe(&batch, |_| batch.origin.to_string());
                            on_batch(&batch);
                        }
                        Ok(None) => break,
                        Err(error @ (SourceError::Form { .. } | SourceError::Header { .. })) => {
                            return Ok(Err(Unread::Form(error)));
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Self::Topic(records) => {
                let mut reader = RecordReader::new(decoder, rules.is_keyed_by_device());
                let completed = reader.fork();
                for (partition, mut batch) in records.first.batches(&mut reader) {
                    if tally.is_full() {
                        break;
                    }
                    records.complete(&mut batch, &completed).await?;
                    tally.observe(&batch, |entry| format!("{partition}@{}", entry.offset));
                    on_batch(&batch);
                }
            }
        }
        tally.sort();
        Ok(Ok(tally))
    }
}

/// How files are read.
fn options(decoder: Decoder, format: Option<InputFormat>, now_ms: i64) -> Options {
    Options {
        format,
        decoder: Arc::new(decoder),
        max_document: MAX_BYTES,
        log_time_ms: LogTime(now_ms),
        first_offset: Offset(0),
        known: Vec::new(),
        redelivers: false,
    }
}

/// Removes the dead letter of the end of a file that was not read to its end.
fn drop_cut_end(batch: &mut Batch, heads: &Heads) {
    let is_cut = heads.list.iter().any(|head| head.is_cut && head.name() == *batch.origin);
    batch.entries.retain(|entry| {
        let error = entry.content.as_ref().err().and_then(NoSample::error);
        !(is_cut && error.is_some_and(|error| error.reason == DeadReason::TruncatedInput))
    });
}

impl TopicRecords {
    /// Looks up the schemas that a batch needs.
    async fn complete(
        &self,
        batch: &mut Batch,
        reader: &RecordReader,
    ) -> Result<(), RegistryError> {
        let mut reader = reader.fork();
        for _ in 0..MAX_SCHEMAS {
            let Some(id) = batch.needs_schema() else { break };
            reader.add_schema(id, &self.verdict(id).await?);
            reader.read_again(batch, 0);
        }
        Ok(())
    }

    async fn verdict(&self, id: SchemaId) -> Result<SchemaVerdict, RegistryError> {
        let known = self.verdicts.lock().expect("no holder panics").get(&id).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let verdict = match &self.registry {
            Some(registry) => registry.verdict(id).await?,
            None => SchemaVerdict::Unusable {
                problem: "no registry is named; pass --schema-registry".into(),
            },
        };
        self.verdicts.lock().expect("no holder panics").insert(id, verdict.clone());
        Ok(verdict)
    }
}

/// Number of records whose names are looked at.
const MAX_OUTLINED: usize = 500;

/// Number of records that are shown.
const MAX_SHOWN: usize = 3;

/// Looks at the names in the records of a batch that are JSON, and keeps the first ones.
pub(super) fn observe_names(
    batch: &Batch,
    outline: &mut Outline,
    outlined: &mut usize,
    lines: &mut Vec<String>,
) {
    for entry in &batch.entries {
        let raw = batch.raw(entry);
        if matches!(raw.trim_ascii_start().first(), Some(b'{' | b'[')) && *outlined < MAX_OUTLINED {
            outline.observe(raw);
            if *outlined < MAX_SHOWN {
                lines.push(String::from_utf8_lossy(raw).into_owned());
            }
            *outlined += 1;
        }
    }
}
