//! Reads the headers of a record, also those whose names are not UTF-8.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::message::{Headers as _, Message};
use rdkafka_extra::QueuedMessage;

use crate::source::Headers;

/// Maximum number of headers read of a record: an empty one takes a few bytes in the log, and many
/// times that in memory.
const MAX_HEADERS: usize = 10_000;

/// Maximum number of headers that a dead letter adds to those of its record: [`UNREAD`] and the
/// letter's own.
const MAX_LETTER_HEADERS: usize = 32;

/// Header that replaces unread headers: those from the first name on that is not UTF-8, or that is
/// over the limit. Its value is their number.
pub const UNREAD: &str = "tstar-headers-unread";

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread comes from reading headers, and is caught: for panic hooks.
#[must_use]
pub fn is_reading() -> bool {
    READING.get()
}

/// Reads the headers of a record.
///
/// To a broker a name is any bytes; rdkafka panics on a name that is not UTF-8, and has no fallible
/// call. Reading stops at such a name, so that a record costs at most one panic.
pub(super) fn read_headers<M: Message>(message: &M) -> Headers {
    read_at_most(message, MAX_HEADERS)
}

/// Reads the headers of a dead letter: those of its record, up to their limit, followed by the
/// letter's own.
pub(super) fn read_letter_headers<M: Message>(message: &M) -> Headers {
    read_at_most(message, MAX_HEADERS + MAX_LETTER_HEADERS)
}

/// Reads the headers of a record of a queue: the same ones as [`read_headers`], without a panic.
pub(super) fn read_queued_headers(message: &QueuedMessage<'_>) -> Headers {
    let Some(headers) = message.headers() else { return Headers::new() };
    let readable = (0..headers.count().min(MAX_HEADERS)).map_while(|index| {
        let (name, value) = headers.get(index)?;
        let name = std::str::from_utf8(name).ok()?;
        Some((name.to_owned(), value.map(<[u8]>::to_vec)))
    });
    let mut read = readable.collect();
    count_unread(&mut read, headers.count());
    read
}

fn read_at_most<M: Message>(message: &M, max: usize) -> Headers {
    let Some(headers) = message.headers() else { return Headers::new() };
    let count = headers.count();
    let mut read = Headers::with_capacity(count.min(max));
    READING.set(true);
    // Headers read before a panic are kept.
    catch_unwind(AssertUnwindSafe(|| {
        for header in headers.iter().take(max) {
            read.push((header.key.to_owned(), header.value.map(<[u8]>::to_vec)));
        }
    }))
    .ok();
    READING.set(false);
    count_unread(&mut read, count);
    read
}

/// Adds the number of unread headers, if there are any.
fn count_unread(read: &mut Headers, count: usize) {
    if read.len() < count {
        let unread = (count - read.len()).to_string();
        read.push((UNREAD.to_owned(), Some(unread.into_bytes())));
    }
}
