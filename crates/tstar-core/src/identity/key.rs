//! The key form: device id, 00, big-endian `t_star_ms`. The sign bit of the time is flipped, so
//! that byte order is time order before 1970 too.

use data_encoding::BASE32HEX_NOPAD;

use super::{DeviceId, DeviceTime, IdError, TripId, shown};

/// Length of the time, bytes.
const TIME_LEN: usize = 8;

pub fn write(device_id: &str, t_star_ms: DeviceTime) -> Vec<u8> {
    let mut key = Vec::with_capacity(device_id.len() + 1 + TIME_LEN);
    key.extend_from_slice(device_id.as_bytes());
    key.push(0);
    key.extend_from_slice(&(t_star_ms.ms() ^ i64::MIN).to_be_bytes());
    key
}

/// Writes the key as base32hex. Its alphabet is in ASCII order, so the text sorts like the bytes.
pub fn write_text(device_id: &str, t_star_ms: DeviceTime) -> String {
    let mut text = BASE32HEX_NOPAD.encode(&write(device_id, t_star_ms));
    text.make_ascii_lowercase();
    text
}

pub fn parse(key: &[u8]) -> Result<TripId, IdError> {
    read(key).map_err(|reason| IdError::Key { given: shown(&String::from_utf8_lossy(key)), reason })
}

/// Length of the shortest key in base32hex: a device of one byte, a NUL and the time.
pub const MIN_TEXT_LEN: usize = (2 + TIME_LEN) * 8 / 5;

/// Parses a key from base32hex.
pub fn parse_text(text: &str) -> Result<TripId, IdError> {
    let wrong = |reason| IdError::Key { given: shown(text), reason };
    if text.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'v')) {
        return Err(wrong("the key form consists of the characters 0-9 and a-v"));
    }
    // Trailing bits must be zero, so that a key has only one spelling.
    let key = BASE32HEX_NOPAD
        .decode(text.to_ascii_uppercase().as_bytes())
        .map_err(|_| wrong("it is truncated or has an extra character"))?;
    read(&key).map_err(wrong)
}

fn read(key: &[u8]) -> Result<TripId, &'static str> {
    let (head, time) = key.split_last_chunk::<TIME_LEN>().ok_or("it is too short")?;
    let (&nul, device_id) = head.split_last().ok_or("it is too short")?;
    if nul != 0 {
        return Err("it has no 00 byte between device and time");
    }
    let device_id = std::str::from_utf8(device_id).map_err(|_| "its device is not UTF-8")?;
    let device_id =
        DeviceId::new(device_id).map_err(|_| "its device is empty, too long, or contains NUL")?;
    let t_star_ms = DeviceTime(i64::from_be_bytes(*time) ^ i64::MIN);
    Ok(TripId { device_id, t_star_ms })
}
