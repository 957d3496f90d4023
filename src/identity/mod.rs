//! The forms of a trip id, both ways: text, key, UUID, and the prefixes that select by time.
//!
//! A trip is `<device, t_star>`. Every form has one spelling: a parser accepts what its writer
//! writes and nothing else, so that equal ids are equal bytes wherever they are compared.
//!
//! | form | example | reaches |
//! |---|---|---|
//! | text | `truck-17~20261120T213800.123Z` | years 0000 to 9999 |
//! | key, as bytes or base32hex | `ehp7aorb5koje040000q3un52stg` | every `i64` |
//! | UUID version 8 | `01a1fae5-173b-8152-8ed4-88d4aacc8ddd` | 1970 to the year 10889 |

mod key;
mod prefix;
mod text;
mod uuid;

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

pub use prefix::{date_range, prefix, prefix_range};
pub use uuid::{SHARDS, UuidId, shard};

/// Longest device id, bytes.
pub const MAX_DEVICE_ID_BYTES: usize = 256;

/// Device times that an id can state as text, ms since 1970: the years 0000 to 9999. A sample of
/// any other time is a dead letter, so no trip has an id that cannot be written.
pub const TEXT_TIMES_MS: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// Why an id, or a part of one, is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The device part cannot be a device id.
    #[error("device id {device}: {why}; it takes 1 to 256 bytes of UTF-8 without NUL")]
    Device {
        /// The device id, shortened and escaped.
        device: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// `t_star` lies outside the years 0000 to 9999.
    #[error(
        "t_star {t_star_ms} ms has no text form, which reaches from year 0000 to 9999; \
         use the key form (`--form bytes`)"
    )]
    NoText {
        /// The time, ms since 1970.
        t_star_ms: i64,
    },
    /// `t_star` does not fit 48 bits.
    #[error(
        "t_star {t_star_ms} ms has no UUID form, which reaches from 1970 to {most} ms; \
         use the key form (`--form bytes`)",
        most = uuid::MOST_MS
    )]
    NoUuid {
        /// The time, ms since 1970.
        t_star_ms: i64,
    },
    /// Not a trip id in text form.
    #[error("{given} is not a trip id: {why}; one looks like truck-17~20261120T213800.123Z")]
    Text {
        /// The text, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a trip id in key form.
    #[error(
        "{given} is not a trip id: {why}; one looks like truck-17~20261120T213800.123Z, \
         its key form like ehp7aorb5koje040000q3un52stg"
    )]
    Key {
        /// The key, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a trip id in UUID form.
    #[error(
        "{given} is not a trip's UUID: {why}; one looks like 01a1fae5-173b-8152-8ed4-88d4aacc8ddd"
    )]
    Uuid {
        /// The text, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a year, month, day or hour.
    #[error(
        "{given} is not a date to select by: {why}; one looks like 2026, 2026-11, 2026-11-20 or \
         2026-11-20T21, with or without the dashes"
    )]
    Date {
        /// The text, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a device as it stands in an id.
    #[error("{given} is not a device's token: {why}; the device `a b` has the token a~20b")]
    Token {
        /// The text, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not the beginning of an id in text form.
    #[error("{given} is not a prefix of trip ids: {why}; one looks like truck-17~202611")]
    Prefix {
        /// The text, shortened and escaped.
        given: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// A value as an error names it: quoted, escaped, and short whatever was given.
fn shown(given: &str) -> String {
    const MOST: usize = 80;
    match given.char_indices().nth(MOST) {
        None => format!("{given:?}"),
        Some((cut, _)) => format!("{:?}... ({} bytes)", &given[..cut], given.len()),
    }
}

/// Judges a device id.
///
/// # Errors
/// It is empty, longer than [`MAX_DEVICE_ID_BYTES`], or has a NUL in it (which ends the device in
/// the key form).
pub fn check_device_id(device_id: &str) -> Result<(), IdError> {
    let why = if device_id.is_empty() {
        "it is empty"
    } else if device_id.len() > MAX_DEVICE_ID_BYTES {
        "it is too long"
    } else if device_id.as_bytes().contains(&0) {
        "it has a NUL in it"
    } else {
        return Ok(());
    };
    Err(IdError::Device { device: shown(device_id), why })
}

/// A device id as it stands in a text id, and in a URL: every byte outside of `A-Z a-z 0-9 . _ -`
/// as `~hh`.
#[must_use]
pub fn token_of_device(device_id: &str) -> String {
    text::write_token(device_id)
}

/// The device id of such a token.
///
/// # Errors
/// What is wrong with it, were it only its spelling.
pub fn device_of_token(token: &str) -> Result<String, IdError> {
    text::parse_token(token).map_err(|why| IdError::Token { given: shown(token), why })
}

/// A trip's id: the device, and the device time of the trip's first-arrived sample.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TripId {
    /// Device id, 1 to 256 bytes without NUL.
    pub device_id: String,
    /// Device time of the first-arrived sample, ms since 1970-01-01T00:00:00Z.
    pub t_star_ms: i64,
}

impl TripId {
    /// The id of a device's trip.
    ///
    /// # Errors
    /// As [`check_device_id`].
    pub fn new(device_id: impl Into<String>, t_star_ms: i64) -> Result<Self, IdError> {
        let device_id = device_id.into();
        check_device_id(&device_id)?;
        Ok(Self { device_id, t_star_ms })
    }

    /// The text form, `truck-17~20261120T213800.123Z`. Inside a device, byte order is time order.
    ///
    /// # Errors
    /// `t_star` lies outside the years 0000 to 9999.
    pub fn text(&self) -> Result<String, IdError> {
        text::write(&self.device_id, self.t_star_ms)
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// What is wrong with it, were it only its spelling.
    pub fn parse_text(text: &str) -> Result<Self, IdError> {
        text::parse(text)
    }

    /// The key form: device id, 00, big-endian `t_star_ms` with its sign bit turned. Byte order is
    /// the order of devices by bytes, then of time.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        key::write(&self.device_id, self.t_star_ms)
    }

    /// Reads the key form.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_key(key: &[u8]) -> Result<Self, IdError> {
        key::parse(key)
    }

    /// The key form as lower-case base32hex without padding, which keeps its order.
    #[must_use]
    pub fn key_text(&self) -> String {
        key::write_text(&self.device_id, self.t_star_ms)
    }

    /// Reads the key form from base32hex.
    ///
    /// # Errors
    /// What is wrong with it, were it only its spelling.
    pub fn parse_key_text(text: &str) -> Result<Self, IdError> {
        key::parse_text(text)
    }

    /// The UUID form. It does not tell the device; [`UuidId::matches`] tells whether it is one's.
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
    /// One that tells device and time.
    Trip(TripId),
    /// One that tells the time, and of the device only a hash.
    Uuid(UuidId),
}

impl AnyId {
    /// The device time in it, ms since 1970.
    #[must_use]
    pub fn t_star_ms(&self) -> i64 {
        match self {
            Self::Trip(id) => id.t_star_ms,
            Self::Uuid(id) => id.t_star_ms,
        }
    }

    /// Reads an id in text form, key form (base32hex) or UUID form.
    ///
    /// No text can be meant in two ways: the text form always has a `~`, which neither of the
    /// others ever has; of those the UUID always has a `-`, the key never.
    ///
    /// # Errors
    /// What is wrong with the form that it must be.
    pub fn parse(given: &str) -> Result<Self, IdError> {
        if given.contains('~') {
            text::parse(given).map(Self::Trip)
        } else if given.contains('-') {
            UuidId::parse(given).map(Self::Uuid)
        } else {
            key::parse_text(given).map(Self::Trip)
        }
    }
}
