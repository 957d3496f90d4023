//! The headers of a record, whatever their names.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rdkafka::message::{Headers as _, Message};

use crate::source::Headers;

/// Header that stands for those from the first one on whose name is not UTF-8; its value is how
/// many they are.
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
pub(super) fn of<M: Message>(message: &M) -> Headers {
    let Some(headers) = message.headers() else { return Headers::new() };
    let count = headers.count();
    let mut read = Headers::with_capacity(count);
    READING.set(true);
    let whole = catch_unwind(AssertUnwindSafe(|| {
        for header in headers.iter() {
            read.push((header.key.to_owned(), header.value.map(<[u8]>::to_vec)));
        }
    }));
    READING.set(false);
    if whole.is_err() {
        let unread = (count - read.len()).to_string();
        read.push((UNREAD.to_owned(), Some(unread.into_bytes())));
    }
    read
}
