//! What binary formats share: bytes that are taken one by one, limits, and errors.

use std::fmt;

use super::SampleError;
use super::text::clipped;
use crate::model::reason::DeadReason;

/// Maximum nesting depth of a value, as in JSON.
pub(super) const MAX_DEPTH: u8 = 127;

/// Why bytes are not a value of their schema.
#[derive(Debug)]
pub(super) struct WireError(String);

impl WireError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The dead letter of a record with this error.
    pub(super) fn into_sample_error(self, format: &str) -> Box<SampleError> {
        let message = format!("the bytes are not {format}: {}", clipped(&self.0));
        Box::new(SampleError::new(DeadReason::BadRecord, message))
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WireError {}

impl serde::de::Error for WireError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The rest of the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'de>(pub(super) &'de [u8]);

impl<'de> Bytes<'de> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Takes a number of bytes; nothing is allocated for a length that lies.
    #[inline]
    pub(super) fn take_bytes(&mut self, count: u64) -> Result<&'de [u8], WireError> {
        let split = usize::try_from(count).ok().and_then(|count| self.0.split_at_checked(count));
        let Some((taken, rest)) = split else { return Err(self.too_short(count)) };
        self.0 = rest;
        Ok(taken)
    }

    #[cold]
    fn too_short(self, count: u64) -> WireError {
        let left = self.0.len();
        WireError::new(format!("a value of {count} bytes begins where {left} are left"))
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let taken = self.take_bytes(N as u64)?;
        Ok(taken.try_into().expect("it has N bytes"))
    }

    /// Takes a number of seven bits per byte, the lowest first.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for (nth, &byte) in self.0.iter().enumerate().take(10) {
            // The tenth byte has room for one bit.
            if nth == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * nth);
            if byte < 0x80 {
                self.0 = &self.0[nth + 1..];
                return Ok(value);
            }
        }
        Err(self.no_number())
    }

    #[cold]
    fn no_number(self) -> WireError {
        WireError::new(match self.0.len() {
            ..10 => "they end within a number",
            _ => "a number has more than 64 bits",
        })
    }

    /// Takes a number of Avro.
    #[inline]
    pub(super) fn long(&mut self) -> Result<i64, WireError> {
        self.varint().map(unzigzag)
    }

    /// Takes a text or bytes of Avro.
    #[inline]
    pub(super) fn text_bytes(&mut self) -> Result<&'de [u8], WireError> {
        let length = self.long()?;
        self.take_bytes(u64::try_from(length).map_err(|_| negative(length))?)
    }
}

#[cold]
fn negative(length: i64) -> WireError {
    WireError::new(format!("a length is {length}"))
}

/// The integer that a zigzag number encodes.
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// A text, checked.
pub(super) fn text(bytes: &[u8]) -> Result<&str, WireError> {
    std::str::from_utf8(bytes).map_err(|error| {
        WireError::new(format!("byte {} of a text is not UTF-8", error.valid_up_to()))
    })
}
