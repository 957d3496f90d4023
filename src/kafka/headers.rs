//! The headers of a record, whatever their names.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::message::{Headers as _, Message};

use crate::source::Headers;

/// Headers read of a record, at most: an empty one takes a few bytes in the log, and many times
/// that in memory.
const MAX_HEADERS: usize = 10_000;

/// Headers of a dead letter besides those of its record, at most: the one that stands for what was
/// not read of these, and what the letter says itself.
const LETTER_HEADERS: usize = 32;

/// Header that stands for those that are not read: from the first one on whose name is not UTF-8,
/// or that is over the limit. Its value is how many they are.
pub const UNREAD: &str = "tstar-headers-unread";

thread_local! {
    static READING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread is the client's about the name of a header, which ends nothing:
/// for panic hooks.
#[must_use]
pub fn is_reading() -> bool {
    READING.get()
}

/// The headers of a record of the client.
///
/// A name is any bytes to a broker; the client panics where they are not UTF-8, and has no other
/// way to ask. Headers behind such a name are left unread, so that a record costs one panic however
/// many it has.
pub(super) fn headers_of<M: Message>(message: &M) -> Headers {
    first(message, MAX_HEADERS)
}

/// The headers of a dead letter: those of its record, as many as were read of that, and its own,
/// which stand behind them.
pub(super) fn of_letter<M: Message>(message: &M) -> Headers {
    first(message, MAX_HEADERS + LETTER_HEADERS)
}

fn first<M: Message>(message: &M, most: usize) -> Headers {
    let Some(headers) = message.headers() else { return Headers::new() };
    let count = headers.count();
    let mut read = Headers::with_capacity(count.min(most));
    READING.set(true);
    // What was read before a panic counts.
    catch_unwind(AssertUnwindSafe(|| {
        for header in headers.iter().take(most) {
            read.push((header.key.to_owned(), header.value.map(<[u8]>::to_vec)));
        }
    }))
    .ok();
    READING.set(false);
    if read.len() < count {
        let unread = (count - read.len()).to_string();
        read.push((UNREAD.to_owned(), Some(unread.into_bytes())));
    }
    read
}
