//! Rows (b) and (c): the source and the processor of tstar over a null store. The only module of
//! this bench that drives the processor.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tstar::internals::model::rules::Rules;
use tstar::internals::model::scalar::{LogTime, Offset};
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::source::file::{FileSource, Options};
use tstar::internals::source::{Decoder, Source as _};

use crate::null::NullStore;

/// Reads a file into trips, and returns the number of applied samples. With `encode`, every trip is
/// encoded to a row at the end, once, and discarded.
///
/// # Errors
/// The file cannot be read.
pub fn trips(file: &Path, encode: bool) -> anyhow::Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let rules = Rules::default();
        let options = Options {
            format: None,
            decoder: Arc::new(Decoder::new(&rules)?),
            max_document: 1 << 26,
            log_time_ms: LogTime(i64::try_from(now.as_millis())?),
            first_offset: Offset(0),
            known: Vec::new(),
            redelivers: false,
        };
        let mut processor = Processor::new(&NullStore, &rules, ProcessorConfig::default()).await?;
        let mut source = FileSource::open(&[file.to_owned()], options)?;
        // Not `run`, which flushes periodically: rows are encoded at the end or not at all.
        while let Some(batch) = source.next().await? {
            processor.absorb(&batch).await?;
        }
        if encode {
            processor.flush().await?;
        }
        Ok(processor.counts().applied)
    })
}
