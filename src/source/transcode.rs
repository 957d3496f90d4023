//! Writes records that are not text as JSON, so that lists in them are split as those of JSON are.

use std::io::{self, Write};

use serde::de::Deserializer;

/// Largest JSON text of a record, bytes.
const MAX_BYTES: usize = 32 << 20;

/// The JSON text of a record of any format whose reader is a deserializer.
///
/// # Errors
/// Why the record cannot be read, or has no JSON text of a usual size.
pub(super) fn to_json<'de, D: Deserializer<'de>>(record: D) -> Result<String, String> {
    let mut out = Bounded(Vec::new());
    let mut json = serde_json::Serializer::new(&mut out);
    serde_transcode::transcode(record, &mut json).map_err(|error| error.to_string())?;
    String::from_utf8(out.0).map_err(|error| error.to_string())
}

/// A few bytes may name a long text many times.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::Error::other(format!("as JSON it has more than {MAX_BYTES} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
