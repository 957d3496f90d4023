//! Reads samples in a format as the sources of tstar do: records as that of a topic, files by the
//! source of files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tstar::internals::model::scalar::{LogTime, Offset};
use tstar::internals::source::file::{FileSource, Options};
use tstar::internals::source::{
    Batch, Decoder, RawJson, RecordContext, RecordPosition, Source as _, SourceError,
};

use super::encode::{Form, Format, Point};

/// Entries of a batch, as in the source of files.
const BATCH: usize = 4096;

/// All samples are from before it.
const LOG_TIME: LogTime = LogTime(1_800_000_000_000);

/// A record of a topic.
struct Record {
    key: String,
    value: Vec<u8>,
}

/// Samples in a format.
pub struct Input {
    records: Vec<Record>,
    files: Vec<PathBuf>,
    /// Size of all records or files.
    pub bytes: u64,
}

impl Input {
    /// Writes samples in a format, without what it cannot say; files into a folder.
    ///
    /// # Errors
    /// The disk fails.
    pub fn new(format: &Format, points: &[Point], folder: &Path) -> std::io::Result<Self> {
        let reduced: Vec<Point> = points.iter().map(|it| it.reduced(format.carries)).collect();
        let mut input = Self { records: Vec::new(), files: Vec::new(), bytes: 0 };
        match format.form {
            Form::Records(each) => {
                for points in reduced.chunks(each) {
                    let (key, value) = ((format.key)(&points[0]), format.bytes(points));
                    input.bytes += value.len() as u64;
                    input.records.push(Record { key, value });
                }
            }
            Form::Files(extension) => {
                fs::create_dir_all(folder)?;
                let mut devices: Vec<&str> = reduced.iter().map(|it| &*it.device).collect();
                devices.sort_unstable();
                devices.dedup();
                for device in devices {
                    let own: Vec<_> =
                        reduced.iter().filter(|it| it.device == device).cloned().collect();
                    let path = folder.join(format!("{device}.{extension}"));
                    let bytes = format.bytes(&own);
                    input.bytes += bytes.len() as u64;
                    fs::write(&path, bytes)?;
                    input.files.push(path);
                }
            }
        }
        Ok(input)
    }

    /// Decodes all records or files, and passes on each batch.
    ///
    /// # Errors
    /// A file cannot be read, or a batch is not taken.
    pub async fn read<E: From<SourceError>>(
        &self,
        format: &Format,
        mut take: impl AsyncFnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let decoder = format.decoder();
        match format.form {
            Form::Records(_) => self.read_records(&decoder, &mut take).await,
            Form::Files(_) => self.read_files(decoder, &mut take).await,
        }
    }

    async fn read_records<E>(
        &self,
        decoder: &Decoder,
        take: &mut impl AsyncFnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = Batch::default();
        for (offset, record) in (0..).map(Offset).zip(&self.records) {
            let key = record.key.as_bytes();
            let position = RecordPosition {
                offset,
                log_time_ms: LOG_TIME,
                key: Some(batch.push_raw(key)),
                ..RecordPosition::default()
            };
            let raw = RawJson {
                value: &record.value,
                context: RecordContext { key: Some(key), ..RecordContext::default() },
                schema_id: None,
                check: &|_| Ok(()),
            };
            decoder.split(&raw, &position, &mut batch);
            if batch.entries.len() >= BATCH {
                take(&batch).await?;
                batch = Batch::default();
            }
        }
        take(&batch).await
    }

    async fn read_files<E: From<SourceError>>(
        &self,
        decoder: Decoder,
        take: &mut impl AsyncFnMut(&Batch) -> Result<(), E>,
    ) -> Result<(), E> {
        let options = Options {
            format: None,
            decoder: Arc::new(decoder),
            max_document: 1 << 26,
            log_time_ms: LOG_TIME,
            first_offset: Offset(0),
            known: Vec::new(),
            redelivers: false,
        };
        let mut source = FileSource::open(&self.files, options)?;
        while let Some(batch) = source.next().await? {
            take(&batch).await?;
        }
        Ok(())
    }
}
