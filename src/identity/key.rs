//! The key form: device id, 00, big-endian `t_star_ms` with its sign bit turned, so that byte order
//! is time order before 1970 too.

use data_encoding::BASE32HEX_NOPAD;

use super::{IdError, TripId, check_device_id, shown};

/// Bytes of the time.
const TIME_LEN: usize = 8;

/// Writes the key.
pub fn write(device_id: &str, t_star_ms: i64) -> Vec<u8> {
    let mut key = Vec::with_capacity(device_id.len() + 1 + TIME_LEN);
    key.extend_from_slice(device_id.as_bytes());
    key.push(0);
    key.extend_from_slice(&(t_star_ms ^ i64::MIN).to_be_bytes());
    key
}

/// Writes the key as base32hex, whose alphabet rises in ASCII.
pub fn write_text(device_id: &str, t_star_ms: i64) -> String {
    let mut text = BASE32HEX_NOPAD.encode(&write(device_id, t_star_ms));
    text.make_ascii_lowercase();
    text
}

/// Reads a key.
pub fn parse(key: &[u8]) -> Result<TripId, IdError> {
    read(key).map_err(|why| IdError::Key { given: shown(&String::from_utf8_lossy(key)), why })
}

/// Reads base32hex.
pub fn parse_text(text: &str) -> Result<TripId, IdError> {
    let wrong = |why| IdError::Key { given: shown(text), why };
    if text.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'v')) {
        return Err(wrong("the key form has only the characters 0-9 and a-v"));
    }
    // Refuses trailing bits that are not zero: one key, one spelling.
    let key = BASE32HEX_NOPAD
        .decode(text.to_ascii_uppercase().as_bytes())
        .map_err(|_| wrong("it is cut or has a character too many"))?;
    read(&key).map_err(wrong)
}

fn read(key: &[u8]) -> Result<TripId, &'static str> {
    let (head, time) = key.split_last_chunk::<TIME_LEN>().ok_or("it is too short")?;
    let (&nul, device_id) = head.split_last().ok_or("it is too short")?;
    if nul != 0 {
        return Err("no 00 stands between device and time");
    }
    let device_id = std::str::from_utf8(device_id).map_err(|_| "its device is not UTF-8")?;
    check_device_id(device_id).map_err(|_| "its device is empty, too long, or has a NUL in it")?;
    let t_star_ms = i64::from_be_bytes(*time) ^ i64::MIN;
    Ok(TripId { device_id: device_id.to_owned(), t_star_ms })
}
