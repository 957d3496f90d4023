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

/// What is known of an input.
#[derive(Debug, Default)]
pub(super) struct KnownPrefix {
    /// Parts at its start, each beginning where the one before ends.
    pub(super) parts: Vec<Part>,
    /// Other parts, whose last record was ended by the end of the content, which has grown since.
    pub(super) unfinished: Vec<Part>,
    /// Position at which the content ends, if a completed import has read it to there. It is then
    /// redelivered with the original offsets, so that all records are duplicates.
    pub(super) end: Option<u64>,
}

/// Finds the stored parts at the start of an input. Parts of another format are ignored: their
/// records are not the ones of this input.
///
/// # Errors
/// The input cannot be opened or read. Damaged compressed data ends the content without an error.
pub(super) fn find_known_prefix(
    input: &Input,
    stored: &[StoredPart],
    format: InputFormat,
) -> io::Result<KnownPrefix> {
    if stored.is_empty() || input.bytes().is_none() {
        return Ok(KnownPrefix::default());
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
        return Ok(KnownPrefix::default());
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
    let parts = longest_chain(&found, end);
    let is_whole = |last: &Part| {
        let is_last = |found: &&StoredPart| found.part == *last && found.import_finished;
        last.finished && end == Some(last.upto_bytes) && found.iter().any(is_last)
    };
    let end = end.filter(|_| parts.last().is_some_and(is_whole));
    let others = found.iter().map(|found| &found.part).filter(|part| part.by_end);
    let unfinished = others.filter(|part| !parts.contains(part)).cloned().collect();
    Ok(KnownPrefix { parts, unfinished, end })
}

/// The longest of the found parts, with the parts before it; empty if there is none. A last record
/// that the end of the content ended is complete if the content still ends there, or if a part
/// begins there.
fn longest_chain(found: &[&StoredPart], end: Option<u64>) -> Vec<Part> {
    let is_last = |part: &Part| !part.by_end || end == Some(part.upto_bytes);
    let complete = found.iter().filter(|found| is_last(&found.part));
    // Of two parts that end at the same byte, prefer a finished one.
    let last = complete.max_by_key(|found| (found.part.upto_bytes, found.part.finished));
    let Some(last) = last else { return Vec::new() };
    let mut parts = vec![last.part.clone()];
    let mut from = last.part.from_bytes;
    while from > 0 {
        let ends_there = |part: &Part| part.upto_bytes == from && part.from_bytes < from;
        let Some(before) = found.iter().find(|found| ends_there(&found.part)) else {
            return Vec::new();
        };
        parts.push(before.part.clone());
        from = before.part.from_bytes;
    }
    parts.reverse();
    parts
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
