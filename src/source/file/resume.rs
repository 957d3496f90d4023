//! Finds the parts of an input that earlier runs have read, to resume after them.

use std::collections::HashMap;
use std::io;
use std::time::UNIX_EPOCH;

use super::detect::is_blank;
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
    /// Position at which the content ends, if a completed import has read it to there. It is then
    /// redelivered with the original offsets, so that all records are duplicates.
    pub(super) end: Option<u64>,
    /// Parts whose last record was ended by the end of the content, which has grown since: a part
    /// of the prefix has read the same bytes again. By position; empty unless `end` is known.
    outgrown: Vec<Part>,
}

/// A stretch of an input to redeliver.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// The part at whose end it begins; `None` for the start of the input.
    pub(super) after: Option<Part>,
    /// The parts in it.
    pub(super) parts: Vec<Part>,
    /// Content position at which the input ended when it was read; `None` if it still does.
    pub(super) end: Option<u64>,
}

impl KnownPrefix {
    /// The last part.
    pub(super) fn last(&self) -> &Part {
        self.parts.last().expect("never empty")
    }

    /// Adds those of the found parts whose bytes a part of the prefix has read again later.
    fn with_outgrown(mut self, found: &[&StoredPart]) -> Self {
        if self.end.is_some() {
            let begun = self.parts.iter().map(|part| (part.from_bytes, part.first_offset));
            let begun: HashMap<_, _> = begun.collect();
            let is_outgrown = |part: &&Part| {
                let later = begun.get(&part.from_bytes).copied();
                part.finished && !part.damaged && later > Some(part.first_offset)
            };
            let outgrown = found.iter().map(|found| &found.part).filter(is_outgrown);
            self.outgrown = outgrown.cloned().collect();
            self.outgrown.sort_by_key(|part| (part.from_bytes, part.first_offset));
        }
        self
    }

    /// Number of outgrown parts.
    pub(super) fn growths(&self) -> usize {
        self.outgrown.len()
    }

    /// The parts of the prefix, and the outgrown ones, both by position.
    pub(super) fn into_parts(self) -> (Vec<Part>, Vec<Part>) {
        (self.parts, self.outgrown)
    }

    /// All parts in log order, by stretches of the input. The bytes of an outgrown part are in two
    /// of them: as the content ended then, and as it continues now.
    pub(super) fn into_stretches(self) -> Vec<Stretch> {
        let mut parts = self.parts.into_iter().peekable();
        let (mut after, mut stretches) = (None, Vec::new());
        for outgrown in self.outgrown {
            let mut read = Vec::new();
            let mut begins_at = after.clone();
            while let Some(part) = parts.next_if(|part| part.upto_bytes <= outgrown.from_bytes) {
                begins_at = Some(part.clone());
                read.push(part);
            }
            let end = Some(outgrown.upto_bytes);
            read.push(outgrown);
            stretches.push(Stretch { after, parts: read, end });
            after = begins_at;
        }
        stretches.push(Stretch { after, parts: parts.collect(), end: None });
        stretches
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
    let mut content = Content::new(input.open()?, format);
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
    let end = content.find_end()?;
    let (found, outgrown): (Vec<&StoredPart>, Vec<&StoredPart>) =
        found.iter().partition(|found| !found.part.by_end || end == Some(found.part.upto_bytes));
    let Some(parts) = longest_chain(&found) else { return Ok(None) };
    let last = parts.last().expect("never empty");
    // The beginning of a line that is blank so far is in no part.
    let is_whole = |end| end == last.upto_bytes || content.text_end <= last.upto_bytes;
    let import_finished = found.iter().any(|it| it.part == *last && it.import_finished);
    let end = end.filter(|end| last.finished && import_finished && is_whole(*end));
    Ok(Some(KnownPrefix { parts, end, outgrown: Vec::new() }.with_outgrown(&outgrown)))
}

/// The longest of the found parts, with the parts before it.
fn longest_chain(found: &[&StoredPart]) -> Option<Vec<Part>> {
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
    Some(parts)
}

/// The decompressed bytes of an input.
struct Content {
    opened: Opened,
    format: InputFormat,
    ended: bool,
    /// Number of bytes read.
    position: u64,
    /// Position after the last byte that is not blank.
    text_end: u64,
}

impl Content {
    fn new(opened: Opened, format: InputFormat) -> Self {
        Self { opened, format, ended: false, position: 0, text_end: 0 }
    }

    /// Fills a buffer, up to the end of the content.
    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && !self.ended {
            match self.opened.bytes.read(&mut buffer[filled..]) {
                Ok(read) => {
                    let is_text = |byte| !is_blank(std::slice::from_ref(byte), self.format);
                    if let Some(last) = buffer[filled..filled + read].iter().rposition(is_text) {
                        self.text_end = self.position + last as u64 + 1;
                    }
                    self.position += read as u64;
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

    /// The position at which the content ends, if the rest of it is blank. Nothing can be hashed
    /// after that.
    fn find_end(&mut self) -> io::Result<Option<u64>> {
        let (reached, mut buffer) = (self.position, [0; CHUNK]);
        while !self.ended && self.text_end <= reached {
            self.fill(&mut buffer)?;
        }
        Ok(self.ended.then_some(self.position).filter(|_| self.text_end <= reached))
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
