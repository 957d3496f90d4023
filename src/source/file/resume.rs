//! Finds the parts of an input that earlier runs have read, to resume after them.

use std::collections::HashMap;
use std::io;
use std::time::UNIX_EPOCH;

use super::input::{Input, Opened};
use crate::model::input_format::InputFormat;
use crate::model::input_part::{HEAD_BYTES, Part, StoredPart};
use crate::model::scalar::LogTime;

/// Bytes hashed at a time.
const CHUNK: usize = 64 << 10;

/// The known parts at the start of an input, each beginning where the one before ends; never empty.
#[derive(Debug)]
pub(super) struct KnownPrefix {
    parts: Vec<Part>,
    /// Whether a completed import has read the whole input. It is then redelivered with the
    /// original offsets, so that all records are duplicates.
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

/// Finds the stored parts at the start of an input, if any. Parts of another format are ignored:
/// their records are not the ones of this input.
///
/// # Errors
/// The input cannot be opened or read. Damaged compressed data ends the content without an error.
pub(super) fn find_known_prefix(
    input: &Input,
    stored: &[StoredPart],
    format: InputFormat,
) -> io::Result<Option<KnownPrefix>> {
    if stored.is_empty() || input.bytes().is_none() {
        return Ok(None);
    }
    let mut content = Content { opened: input.open()?, ended: false };
    let mut head = vec![0; HEAD_BYTES];
    let length = content.fill(&mut head)?;
    head.truncate(length);
    let mut heads = HashMap::new();
    let mut has_head = |part: &Part| {
        // Many parts share few lengths, so each length is hashed once.
        let length = usize::try_from(part.upto_bytes).unwrap_or(usize::MAX).min(HEAD_BYTES);
        let hash = |length| head.get(..length).map(blake3::hash);
        heads
            .entry(length)
            .or_insert_with_key(|&length| hash(length))
            .is_some_and(|it| it == part.head)
    };
    let same_format = stored.iter().filter(|stored| stored.part.format == format);
    let mut candidates: Vec<&StoredPart> =
        same_format.filter(|stored| has_head(&stored.part)).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    candidates.sort_by_key(|candidate| candidate.part.upto_bytes);
    let mut found = Vec::new();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head);
    let mut done = head.len() as u64;
    for candidate in candidates {
        let upto = candidate.part.upto_bytes;
        if upto <= head.len() as u64 {
            // The whole part is in its head.
            found.push(candidate);
            continue;
        }
        done += content.hash_next(upto - done, &mut hasher)?;
        if done == upto && hasher.finalize().as_bytes() == &candidate.part.hash {
            found.push(candidate);
        }
    }
    let end = content.is_at_end()?.then_some(done);
    found.retain(|found| !found.part.by_end || end == Some(found.part.upto_bytes));
    Ok(longest_chain(&found, end))
}

/// The longest of the found parts, with the parts before it.
fn longest_chain(found: &[&StoredPart], end: Option<u64>) -> Option<KnownPrefix> {
    // Of two parts that end at the same byte, prefer a finished one.
    let last = found.iter().max_by_key(|found| (found.part.upto_bytes, found.part.finished))?;
    let mut parts = vec![last.part.clone()];
    let mut from = last.part.from_bytes;
    while from > 0 {
        let ends_there = |part: &Part| part.upto_bytes == from && part.from_bytes < from;
        let before = found.iter().find(|found| ends_there(&found.part))?;
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
    /// Fills a buffer, up to the end of the content.
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

    /// Hashes the next `bytes` bytes, or fewer at the end of the content. Returns their number.
    fn hash_next(&mut self, bytes: u64, hasher: &mut blake3::Hasher) -> io::Result<u64> {
        let mut buffer = [0; CHUNK];
        let mut done = 0;
        while done < bytes && !self.ended {
            let wanted = usize::try_from(bytes - done).unwrap_or(CHUNK).min(CHUNK);
            let read = self.fill(&mut buffer[..wanted])?;
            hasher.update(&buffer[..read]);
            done += read as u64;
        }
        Ok(done)
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        // Reading a byte here is safe: nothing is hashed after it.
        Ok(self.ended || self.fill(&mut [0])? == 0)
    }
}

/// The log timestamp of the records after a part: the one of the earlier import if the file was not
/// modified since, so that they are decided as they would have been then; otherwise `now`.
pub(super) fn clock_after(input: &Input, part: &Part, now: LogTime) -> LogTime {
    let modified = input.modified().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let modified_ms = modified.and_then(|since| i64::try_from(since.as_millis()).ok().map(LogTime));
    match modified_ms {
        Some(modified_ms) if !part.finished && modified_ms <= part.log_time_ms => part.log_time_ms,
        _ => now,
    }
}
