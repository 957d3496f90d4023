//! The text form: device token, `~`, `t_star` in ISO 8601 basic UTC with ms.

use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use std::fmt::Write;

use super::{DeviceId, DeviceTime, IdError, TEXT_TIMES_MS, TripId, shown};

/// Length of `20261120T213800.123Z`.
const TIME_LEN: usize = 20;

/// Whether a byte is written to a token without escaping.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Writes the token of a device id. Ids are also used as file names, so a token is never `.` or
/// `..`.
pub fn write_token(device_id: &str) -> String {
    let dots_alone = device_id.bytes().all(|byte| byte == b'.');
    let mut token = String::with_capacity(device_id.len());
    for byte in device_id.bytes() {
        if is_plain(byte) && !dots_alone {
            token.push(char::from(byte));
        } else {
            write!(token, "~{byte:02x}").expect("a string takes what is written to it");
        }
    }
    token
}

/// The device id of a token, or the reason why the token is not valid.
pub fn parse_token(token: &str) -> Result<DeviceId, &'static str> {
    const ESCAPE: &str = "`~` in a device is not followed by two lower-case hex digits";
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'~' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || match rest.next() {
            Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
            Some(digit @ b'a'..=b'f') => Ok(digit - b'a' + 10),
            _ => Err(ESCAPE),
        };
        bytes.push(16 * digit()? + digit()?);
    }
    let device_id = String::from_utf8(bytes).map_err(|_| "the device is not UTF-8")?;
    let device_id =
        DeviceId::new(device_id).map_err(|_| "the device is empty, too long, or contains NUL")?;
    if write_token(&device_id) != token {
        return Err(
            "the device is not in canonical spelling (bytes are escaped only if necessary)",
        );
    }
    Ok(device_id)
}

pub fn write(device_id: &str, t_star_ms: DeviceTime) -> Result<String, IdError> {
    let time = DateTime::from_timestamp_millis(t_star_ms.ms())
        .filter(|_| TEXT_TIMES_MS.contains(&t_star_ms))
        .ok_or(IdError::NoText { t_star_ms })?;
    let mut text = write_token(device_id);
    write!(
        text,
        "~{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z",
        time.year(),
        time.month(),
        time.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.timestamp_subsec_millis(),
    )
    .expect("a string takes what is written to it");
    Ok(text)
}

/// Parses the text form from the right: a time has no `~`, but a token may have.
pub fn parse(text: &str) -> Result<TripId, IdError> {
    let wrong = |reason| IdError::Text { given: shown(text), reason };
    let (token, time) = text.rsplit_once('~').ok_or_else(|| wrong("it has no `~`"))?;
    let t_star_ms = parse_time(time).ok_or_else(|| {
        wrong("the part after the last `~` is not a time like 20261120T213800.123Z")
    })?;
    let device_id = parse_token(token).map_err(wrong)?;
    Ok(TripId { device_id, t_star_ms })
}

/// Parses `20261120T213800.123Z`.
fn parse_time(time: &str) -> Option<DeviceTime> {
    let bytes = time.as_bytes();
    if bytes.len() != TIME_LEN || bytes[8] != b'T' || bytes[15] != b'.' || bytes[19] != b'Z' {
        return None;
    }
    let day = NaiveDate::from_ymd_opt(
        digits(&bytes[..4])?.cast_signed(),
        digits(&bytes[4..6])?,
        digits(&bytes[6..8])?,
    )?;
    // Second 60 is not valid: `t_star` is ms since 1970, which has no leap seconds.
    let time = day.and_hms_milli_opt(
        digits(&bytes[9..11])?,
        digits(&bytes[11..13])?,
        digits(&bytes[13..15])?,
        digits(&bytes[16..19])?,
    )?;
    Some(DeviceTime(time.and_utc().timestamp_millis()))
}

/// Parses ASCII digits without a sign.
pub fn digits(bytes: &[u8]) -> Option<u32> {
    bytes.iter().try_fold(0_u32, |number, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u32::from(byte - b'0'))
    })
}
