//! Writes and parses the forms of a trip id: text, key, UUID, and prefixes that select by time.
//!
//! A trip id is `<device, t_star>`. Each form has one canonical spelling. Parsers accept only what
//! the writers produce, so equal ids are equal bytes everywhere.
//!
//! | form | example | range of `t_star` |
//! |---|---|---|
//! | text | `truck-17~20261120T213800.123Z` | years 0000 to 9999 |
//! | key, as bytes or base32hex | `ehp7aorb5koje040000q3un52stg` | every `i64` |
//! | UUID version 8 | `01a1fae5-173b-8152-8ed4-88d4aacc8ddd` | 1970 to the year 10889 |
//!
//! ```
//! use tstar_core::DeviceTime;
//! use tstar_core::identity::{AnyId, TripId, prefix_range};
//!
//! let id = TripId::new("truck-17", DeviceTime(1_795_210_680_123))?;
//! assert_eq!(id.text()?, "truck-17~20261120T213800.123Z");
//! assert_eq!(AnyId::parse("ehp7aorb5koje040000q3un52stg")?, AnyId::Trip(id.clone()));
//!
//! // The UUID form has only a hash of the device id.
//! let AnyId::Uuid(uuid) = AnyId::parse("01a1fae5-173b-8152-8ed4-88d4aacc8ddd")? else { panic!() };
//! assert!(uuid.matches("truck-17", id.t_star_ms));
//!
//! let (device_id, from_ms, upto_ms) = prefix_range("truck-17~20261120")?;
//! assert_eq!(device_id, id.device_id);
//! assert!((from_ms..=upto_ms).contains(&id.t_star_ms));
//! # Ok::<_, tstar_core::identity::IdError>(())
//! ```

mod device_id;
mod key;
mod prefix;
mod scalar;
mod text;
mod uuid;

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

pub use device_id::{DeviceId, MAX_DEVICE_ID_BYTES, check_device_id};
pub use prefix::{date_range, prefix, prefix_range};
pub use scalar::DeviceTime;
pub(crate) use scalar::scalar;
pub use uuid::{SHARDS, UuidId, shard};

/// Device times that the text form covers, ms since 1970: the years 0000 to 9999. A sample of any
/// other time is a dead letter, so every trip id has a text form.
pub const TEXT_TIMES_MS: RangeInclusive<DeviceTime> =
    DeviceTime(-62_167_219_200_000)..=DeviceTime(253_402_300_799_999);

/// Why text or bytes are not a valid id or part of one, or why an id does not have a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a valid device id.
    #[error("{device} is not a valid device id: {reason}; use 1 to 256 bytes without NUL")]
    Device {
        /// The device id, escaped and shortened.
        device: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// `t_star` lies outside the years 0000 to 9999.
    #[error(
        "t_star {t_star_ms} ms has no text form, which covers the years 0000 to 9999; \
         use the key form (`--form bytes`)"
    )]
    NoText {
        /// `t_star`, ms since 1970.
        t_star_ms: DeviceTime,
    },
    /// `t_star` does not fit 48 bits.
    #[error(
        "t_star {t_star_ms} ms has no UUID form, which covers 0 to {max} ms since 1970; \
         use the key form (`--form bytes`)",
        max = uuid::MAX_MS
    )]
    NoUuid {
        /// `t_star`, ms since 1970.
        t_star_ms: DeviceTime,
    },
    /// Not a trip id in text form.
    #[error(
        "{given} is not a trip id: {reason}; a trip id looks like truck-17~20261120T213800.123Z"
    )]
    Text {
        /// The text, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not a trip id in key form.
    #[error(
        "{given} is not a trip id: {reason}; a trip id looks like \
         truck-17~20261120T213800.123Z, in key form like ehp7aorb5koje040000q3un52stg"
    )]
    Key {
        /// The key, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not a trip id in UUID form.
    #[error(
        "{given} is not the UUID form of a trip id: {reason}; it looks like \
         01a1fae5-173b-8152-8ed4-88d4aacc8ddd"
    )]
    Uuid {
        /// The text, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not a year, month, day or hour.
    #[error(
        "{given} is not a date: {reason}; write 2026, 2026-11, 2026-11-20 or 2026-11-20T21, \
         with or without the dashes"
    )]
    Date {
        /// The text, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not a device token.
    #[error("{given} is not a device token: {reason}; the token of device `a b` is a~20b")]
    Token {
        /// The text, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// Not a prefix of a text id.
    #[error("{given} is not a prefix of trip ids: {reason}; a prefix looks like truck-17~202611")]
    Prefix {
        /// The text, escaped and shortened.
        given: String,
        /// What is wrong.
        reason: &'static str,
    },
}

/// Formats a value for an error: quoted, escaped, and cut to 80 characters.
fn shown(given: &str) -> String {
    const MAX_CHARS: usize = 80;
    match given.char_indices().nth(MAX_CHARS) {
        None => format!("{given:?}"),
        Some((cut, _)) => format!("{:?}... ({} bytes)", &given[..cut], given.len()),
    }
}

/// The token of a device, as in text ids and URLs: the device id with every byte outside of
/// `A-Z a-z 0-9 . _ -` written as `~hh`.
#[must_use]
pub fn token_of_device(device_id: &str) -> String {
    text::write_token(device_id)
}

/// The device id of a token.
///
/// # Errors
/// [`IdError::Token`] if it is not a token in canonical spelling.
pub fn device_of_token(token: &str) -> Result<DeviceId, IdError> {
    text::parse_token(token).map_err(|reason| IdError::Token { given: shown(token), reason })
}

/// A trip's id: the device, and the device time of the trip's first-arrived sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TripId {
    /// Device id.
    pub device_id: DeviceId,
    /// Device time of the first-arrived sample, ms since 1970-01-01T00:00:00Z.
    pub t_star_ms: DeviceTime,
}

impl TripId {
    /// The id of a device's trip.
    ///
    /// # Errors
    /// As [`check_device_id`].
    pub fn new(device_id: impl Into<String>, t_star_ms: DeviceTime) -> Result<Self, IdError> {
        Ok(Self { device_id: DeviceId::new(device_id)?, t_star_ms })
    }

    /// The text form, `truck-17~20261120T213800.123Z`. Within a device, byte order is time order.
    ///
    /// # Errors
    /// `t_star` lies outside the years 0000 to 9999.
    pub fn text(&self) -> Result<String, IdError> {
        text::write(&self.device_id, self.t_star_ms)
    }

    /// Parses the text form.
    ///
    /// # Errors
    /// [`IdError::Text`] if it is not a trip id in canonical spelling.
    pub fn parse_text(text: &str) -> Result<Self, IdError> {
        text::parse(text)
    }

    /// The key form: device id, 00, big-endian `t_star_ms` with its sign bit flipped. Keys sort by
    /// the bytes of the device id, then by time.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        key::write(&self.device_id, self.t_star_ms)
    }

    /// Parses the key form.
    ///
    /// # Errors
    /// [`IdError::Key`] if it is not a valid key.
    pub fn parse_key(key: &[u8]) -> Result<Self, IdError> {
        key::parse(key)
    }

    /// The key form as lower-case base32hex without padding, which sorts like the bytes.
    #[must_use]
    pub fn key_text(&self) -> String {
        key::write_text(&self.device_id, self.t_star_ms)
    }

    /// Parses the key form from base32hex.
    ///
    /// # Errors
    /// [`IdError::Key`] if it is not a key in canonical spelling.
    pub fn parse_key_text(text: &str) -> Result<Self, IdError> {
        key::parse_text(text)
    }

    /// The UUID form. It has only a hash of the device id; see [`UuidId::matches`].
    ///
    /// # Errors
    /// `t_star` lies before 1970 or does not fit 48 bits.
    pub fn uuid(&self) -> Result<::uuid::Uuid, IdError> {
        uuid::write(&self.device_id, self.t_star_ms)
    }
}

/// A trip id in any form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyId {
    /// An id with device and time: text form or key form.
    Trip(TripId),
    /// An id with the time and a hash of the device id.
    Uuid(UuidId),
}

impl AnyId {
    /// `t_star`, ms since 1970.
    #[must_use]
    pub fn t_star_ms(&self) -> DeviceTime {
        match self {
            Self::Trip(id) => id.t_star_ms,
            Self::Uuid(id) => id.t_star_ms,
        }
    }

    /// Parses an id in text form, key form (base32hex) or UUID form.
    ///
    /// The forms cannot be confused: only the text form has a `~`, and of the other two only the
    /// UUID form has a `-`.
    ///
    /// # Errors
    /// What is wrong, for the form that the text looks like.
    pub fn parse(given: &str) -> Result<Self, IdError> {
        if UuidId::is_like(given) {
            UuidId::parse(given).map(Self::Uuid)
        } else if given.contains(['~', '-']) || given.len() < key::MIN_TEXT_LEN {
            text::parse(given).map(Self::Trip)
        } else {
            key::parse_text(given).map(Self::Trip)
        }
    }
}
