//! Which part of an input earlier runs have read.

use std::collections::HashMap;
use std::io;
use std::time::UNIX_EPOCH;

use super::input::{Input, Opened};
use crate::model::input_part::{HEAD_BYTES, Part, StoredPart};

/// Bytes hashed in one go.
const CHUNK: usize = 64 << 10;

/// The parts that an input begins with, each going on where the one before ends; never empty.
#[derive(Debug)]
pub(super) struct KnownPrefix {
    parts: Vec<Part>,
    /// The whole input was read by an import that came to its end, so it is read again: as the
    /// records it was, all of them duplicates.
    pub(super) again: bool,
}

impl KnownPrefix {
    /// The last part.
    pub(super) fn last(&self) -> &Part {
        self.parts.last().expect("never empty")
    }

    /// The parts, in their order.
    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
}

/// Tells which of the kept parts an input begins with, if any. Records of another form are not
/// those that were read, so their parts hide none of this one.
///
/// # Errors
/// The input cannot be opened or read. A fault of its compressed form is where its content ends.
pub(super) fn recognise(
    input: &Input,
    kept: &[StoredPart],
    is_csv: bool,
) -> io::Result<Option<KnownPrefix>> {
    if kept.is_empty() || input.bytes().is_none() {
        return Ok(None);
    }
    let mut content = Content { opened: input.open()?, ended: false };
    let mut head = vec![0; HEAD_BYTES];
    let length = content.fill(&mut head)?;
    head.truncate(length);
    let mut heads = HashMap::new();
    let mut has_head = |part: &Part| {
        // Many parts ask for few lengths, so each is hashed once.
        let length = usize::try_from(part.upto_bytes).unwrap_or(usize::MAX).min(HEAD_BYTES);
        let hash = |length| head.get(..length).map(blake3::hash);
        heads
            .entry(length)
            .or_insert_with_key(|&length| hash(length))
            .is_some_and(|it| it == part.head)
    };
    let of_form = kept.iter().filter(|kept| kept.part.is_csv == is_csv);
    let mut candidates: Vec<&StoredPart> = of_form.filter(|kept| has_head(&kept.part)).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    candidates.sort_by_key(|kept| kept.part.upto_bytes);
    let mut found = Vec::new();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    let mut done = head.len() as u64;
    for candidate in candidates {
        let upto = candidate.part.upto_bytes;
        if upto <= head.len() as u64 {
            // Its head is all of it.
            found.push(candidate);
            continue;
        }
        done += content.pass(upto - done, &mut hasher)?;
        if done == upto && hasher.finalize().as_bytes() == &candidate.part.hash {
            found.push(candidate);
        }
    }
    let end = content.is_at_end()?.then_some(done);
    found.retain(|kept| !kept.part.by_end || end == Some(kept.part.upto_bytes));
    Ok(chain(&found, end))
}

/// The longest of the parts found with those before it.
fn chain(found: &[&StoredPart], end: Option<u64>) -> Option<KnownPrefix> {
    // Of two that end at the same byte, one that is finished tells more.
    let last = found.iter().max_by_key(|kept| (kept.part.upto_bytes, kept.part.finished))?;
    let mut parts = vec![last.part.clone()];
    let mut from = last.part.from_bytes;
    while from > 0 {
        let ends_there = |part: &Part| part.upto_bytes == from && part.from_bytes < from;
        let before = found.iter().find(|kept| ends_there(&kept.part))?;
        parts.push(before.part.clone());
        from = before.part.from_bytes;
    }
    parts.reverse();
    let whole = last.part.finished && end == Some(last.part.upto_bytes);
    Some(KnownPrefix { parts, again: whole && last.import_finished })
}

/// The decompressed bytes of an input.
struct Content {
    opened: Opened,
    ended: bool,
}

impl Content {
    /// Fills a buffer as far as there is content.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && !self.ended {
            match self.opened.bytes.read(&mut buffer[filled..]) {
                Ok(read) => {
                    filled += read;
                    self.ended = read == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.opened.progress.has_failed() => return Err(error),
                Err(_) => self.ended = true,
            }
        }
        Ok(filled)
    }

    /// Hashes so many bytes, or as many as there are.
    fn pass(&mut self, bytes: u64, hasher: &mut blake3::Hasher) -> io::Result<u64> {
        let mut buffer = [0; CHUNK];
        let mut passed = 0;
        while passed < bytes && !self.ended {
            let room = usize::try_from(bytes - passed).unwrap_or(CHUNK).min(CHUNK);
            let read = self.fill(&mut buffer[..room])?;
            hasher.update(&buffer[..read]);
            passed += read as u64;
        }
        Ok(passed)
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        // A byte that is read here is of no use to anybody: nothing is hashed after it.
        Ok(self.ended || self.fill(&mut [0])? == 0)
    }
}

/// The clock for the records that follow a part: what was there when the import began is judged as
/// it would have been then, what was written later is not.
pub(super) fn clock_after(input: &Input, part: &Part, now_ms: i64) -> i64 {
    let modified = input.modified().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.and_then(|since| i64::try_from(since.as_millis()).ok());
    match modified_ms {
        Some(modified_ms) if !part.finished && modified_ms <= part.log_time_ms => part.log_time_ms,
        _ => now_ms,
    }
}
