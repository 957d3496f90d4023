//! Decodes an input, with or without its trips.

use anyhow::bail;
use tstar::internals::pipeline::processor::{Processor, ProcessorConfig};
use tstar::internals::source::Batch;

use crate::encode::Format;
use crate::null::NullStore;
use crate::read::Input;

/// Decodes an input, and returns the number of its samples.
///
/// # Errors
/// A sample cannot be read.
pub fn decode(format: &Format, input: &Input) -> anyhow::Result<u64> {
    let mut samples = 0;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(input.read(format, async |batch: &Batch| {
        for entry in &batch.entries {
            if let Err(error) = &entry.content {
                let record = String::from_utf8_lossy(batch.raw(entry));
                bail!("{error:?}: {record}");
            }
        }
        samples += batch.entries.len() as u64;
        anyhow::Ok(())
    }))?;
    Ok(samples)
}

/// Decodes an input and builds its trips, and returns the number of its samples.
///
/// # Errors
/// A sample cannot be read.
pub fn build_trips(format: &Format, input: &Input) -> anyhow::Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let (rules, config) = (format.rules(), ProcessorConfig::default());
        let mut processor = Processor::new(&NullStore, &rules, config).await?;
        input
            .read(format, async |batch: &Batch| {
                processor.absorb(batch).await?;
                anyhow::Ok(())
            })
            .await?;
        Ok(processor.counts().applied + processor.counts().duplicates)
    })
}
