//! Reads the headers of a record, also those whose names are not UTF-8.

use rdkafka_extra::QueuedMessage;

use crate::source::Headers;

/// Maximum number of headers read of a record: an empty one takes a few bytes in the log, and many
/// times that in memory.
pub(super) const MAX_HEADERS: usize = 10_000;

/// Maximum number of headers read of a dead letter: those of its record, [`UNREAD`] and its own.
pub(super) const MAX_LETTER_HEADERS: usize = MAX_HEADERS + 32;

/// Header that replaces unread headers: those from the first name on that is not UTF-8, or that is
/// over the limit. Its value is their number.
pub(crate) const UNREAD: &str = "tstar-headers-unread";

/// Reads at most `max` headers of a record.
pub(super) fn read_headers(message: &QueuedMessage<'_>, max: usize) -> Headers {
    let Some(headers) = message.headers() else { return Headers::new() };
    let count = headers.count();
    let readable = (0..count.min(max)).map_while(|index| {
        let (name, value) = headers.get(index)?;
        let name = std::str::from_utf8(name).ok()?;
        Some((name.to_owned(), value.map(<[u8]>::to_vec)))
    });
    let mut read: Headers = readable.collect();
    if read.len() < count {
        let unread = (count - read.len()).to_string();
        read.push((UNREAD.to_owned(), Some(unread.into_bytes())));
    }
    read
}
