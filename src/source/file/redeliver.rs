//! Redelivers inputs that were read to their end, with the original offsets.

use std::collections::VecDeque;

use super::InputFormat;
use super::reader::{Reading, Stop};
use super::resume::{KnownPrefix, Stretch};

/// Maximum number of times that a document is read from its start for outgrown parts; if it grew
/// more often, they are left out.
const MAX_GROWTHS: usize = 100;

impl Reading<'_> {
    /// Redelivers the known parts and the outgrown ones among them. `end` is the position at which
    /// the content ends.
    pub(super) fn redeliver(&mut self, known: KnownPrefix, end: u64) -> Result<(), Stop> {
        if !known.last().damaged {
            // What is appended meanwhile is for the next import.
            self.records.end_at(end);
        }
        let is_document = matches!(self.format, InputFormat::Json | InputFormat::Gpx);
        if is_document && known.growths() <= MAX_GROWTHS {
            // Where a scanner is at the first byte of an outgrown part is known only after all that
            // is before it.
            return known.into_stretches().into_iter().try_for_each(|it| self.read_stretch(it));
        }
        if self.format == InputFormat::Csv {
            self.read_header()?;
        }
        let (parts, outgrown) = known.into_parts();
        self.out.log.known = parts.into();
        if !is_document {
            self.outgrown = outgrown.into();
        }
        Ok(())
    }

    /// Redelivers the outgrown parts that begin at the next record, from a copy of their bytes,
    /// which the next record has, too.
    pub(super) fn redeliver_outgrown(&mut self) -> Result<(), Stop> {
        let reached = self.records.content_position();
        while self.outgrown.front().is_some_and(|part| part.from_bytes <= reached)
            && let Some(part) = self.outgrown.pop_front()
        {
            let copied = self.records.copy_upto(part.upto_bytes);
            let copied = copied.map_err(|error| Stop::Failed(self.input.read_error(error)))?;
            // A record larger than the limit was cut, and is not read again.
            let Some(copied) = copied else { continue };
            let records = std::mem::replace(&mut self.records, copied);
            let later = std::mem::take(&mut self.outgrown);
            let log = &mut self.out.log;
            let known = std::mem::replace(&mut log.known, VecDeque::from([part]));
            let in_part = std::mem::take(&mut log.in_part);
            self.read_records()?;
            (self.records, self.outgrown) = (records, later);
            (self.out.log.known, self.out.log.in_part) = (known, in_part);
        }
        Ok(())
    }

    /// Redelivers a stretch: the last one in this reading, another one in a reading of its own,
    /// which ends where the content did.
    fn read_stretch(&mut self, stretch: Stretch) -> Result<(), Stop> {
        let Some(end) = stretch.end else {
            if let Some(after) = &stretch.after {
                self.skip_past(after)?;
            }
            self.out.log.known = stretch.parts.into();
            return Ok(());
        };
        let (input, out) = (self.input.ending_at(end), &mut self.out);
        let reading = Reading::new(&input, self.options, out.sizes, out.sender, &mut *out.log.next);
        let mut reading = reading.map_err(Stop::Failed)?;
        // The same content has the same format as then.
        if reading.detect_format().is_ok_and(|format| format == self.format) {
            reading.format = self.format;
            reading.set_ends();
            reading.read_stretch(Stretch { end: None, ..stretch })?;
            reading.read_records()?;
        }
        reading.send_batch(true)
    }
}
