//! Reads the records of a request: by the rules of the store, or as a preset does. What the rules
//! of the store do not read as the preset does is re-encoded for them.

use std::sync::Arc;

use super::{IngestError, MAX_SAMPLES};
use crate::model::preset::Preset;
use crate::model::rules::Rules;
use crate::source::{
    Batch, Decoder, DecoderError, NoSample, RawJson, RecordContext, RecordPosition, TooManySamples,
    ZONE_TABLES,
};

/// Reads the records of a request.
pub(super) struct Reader {
    /// Reads what is in the log.
    store: Arc<Decoder>,
    /// The preset of records that `store` does not read as they are meant.
    foreign: Option<(Decoder, &'static Preset)>,
}

impl Reader {
    /// A reader of records of a preset, or of the store itself.
    ///
    /// # Errors
    /// The rules of the store cannot be used.
    pub(crate) fn new(
        rules: &Rules,
        store: Arc<Decoder>,
        preset: Option<&'static Preset>,
    ) -> Result<Self, DecoderError> {
        let foreign = match preset.map(|preset| (rules_of(preset, rules), preset)) {
            Some((of_preset, preset)) if of_preset != *rules => {
                Some((Decoder::new(&of_preset)?, preset))
            }
            _ => None,
        };
        Ok(Self { store, foreign })
    }

    /// The decoder of the request's records.
    fn decoder(&self) -> &Decoder {
        self.foreign.as_ref().map_or(&self.store, |(decoder, _)| decoder)
    }

    /// Whether a header is read.
    pub(crate) fn names_header(&self, name: &str) -> bool {
        self.store.names_header(name) || self.decoder().names_header(name)
    }

    /// Whether samples reach the log with the whole record that they are in.
    pub(crate) fn needs_whole_records(&self) -> bool {
        self.foreign.is_none() && self.store.needs_whole_records()
    }

    /// The device id of a record, even if the record is otherwise invalid.
    pub(crate) fn device_of(&self, record: &[u8], context: &RecordContext<'_>) -> Option<String> {
        self.decoder().device_of(record, context)
    }

    /// Adds the samples and errors of a record to a batch, at most `left` of them, and returns
    /// their number. The bytes of a re-encoded sample are those of its new record, in a log whose
    /// records have these headers and, if the context names a topic, the device as key.
    ///
    /// # Errors
    /// The rules of the store cannot express a sample, or there are too many.
    pub(crate) fn split(
        &self,
        (record, context): (&[u8], &RecordContext<'_>),
        (position, left): (&RecordPosition, usize),
        batch: &mut Batch,
    ) -> Result<usize, IngestError> {
        let decoder = self.decoder();
        let (schema_id, check) = (None, &|_: &str| Ok(()));
        let json = RawJson { value: record, context: *context, schema_id, check };
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let split = decoder.split_at_most(left, &json, position, batch);
        let count = split.map_err(|TooManySamples| IngestError::TooMany)?;
        if let Some((_, preset)) = &self.foreign {
            self.reencode(batch, context, preset)?;
        }
        Ok(count as usize)
    }

    fn reencode(
        &self,
        batch: &mut Batch,
        context: &RecordContext<'_>,
        preset: &Preset,
    ) -> Result<(), IngestError> {
        for nth in 0..batch.entries.len() {
            let Ok(decoded) = &batch.entries[nth].content else { continue };
            let device = batch.text(&decoded.device).as_bytes();
            let context = RecordContext { key: context.topic.map(|_| device), ..*context };
            let record = self.store.restate((decoded, &batch.text), &context);
            let record = record.map_err(|problem| {
                let preset = preset.name;
                IngestError::NotExpressible { preset, problem }
            })?;
            batch.entries[nth].raw = batch.push_raw(record.as_bytes());
        }
        // Each element can be decoded alone: no preset that is read here has values around them.
        batch.arrays.values_mut().for_each(|array| array.is_needed = false);
        Ok(())
    }

    /// Whether the log reads a record as dead letters alone.
    pub(crate) fn is_dead_in_log(&self, record: &[u8], context: &RecordContext<'_>) -> bool {
        if self.foreign.is_none() {
            return true;
        }
        let (schema_id, check) = (None, &|_: &str| Ok(()));
        let json = RawJson { value: record, context: *context, schema_id, check };
        let mut batch = Batch::default();
        let position = RecordPosition::default();
        let split = self.store.split_at_most(MAX_SAMPLES as u32, &json, &position, &mut batch);
        let mut entries = batch.entries.iter();
        split.is_ok()
            && !batch.entries.is_empty()
            && entries.all(|entry| matches!(entry.content, Err(NoSample::Dead(_))))
    }
}

/// The rules of a store, but with the records of a preset.
fn rules_of(preset: &Preset, store: &Rules) -> Rules {
    let mut rules = Rules { schema: None, message: None, ..store.clone() };
    preset.expand(&mut rules, ZONE_TABLES);
    // These say nothing about how a record is read.
    (rules.preset, rules.key) = (store.preset.clone(), store.key.clone());
    rules
}
