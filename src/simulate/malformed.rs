//! Malformed lines: some variants for each dead-letter reason that a line of a file can have.

use super::DeadReason;
use super::line::write_decimal;
use super::random::Random;
use crate::model::time::format_time;
use crate::timeline::Sample;

/// Reasons that malformed lines are generated for.
pub(crate) const REASONS: [DeadReason; 10] = [
    DeadReason::BadUtf8,
    DeadReason::BadJson,
    DeadReason::MissingField,
    DeadReason::BadType,
    DeadReason::OutOfRange,
    DeadReason::BadTime,
    DeadReason::TimeBeforeMin,
    DeadReason::TimeInFuture,
    DeadReason::BadDeviceId,
    DeadReason::AmbiguousField,
];

/// A line that is dead-lettered for `reason`, made from a valid sample; without a line end.
pub(crate) fn line(
    reason: DeadReason,
    device: &str,
    sample: &Sample,
    random: &mut Random,
) -> Vec<u8> {
    let text = |write: &dyn Fn(&mut Vec<u8>) -> std::io::Result<()>| {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("writing to a Vec cannot fail");
        String::from_utf8(bytes).expect("numbers and times are ASCII")
    };
    let id = format!(r#""device_id":"{device}""#);
    let time = format!(r#""time":"{}""#, format_time(sample.time_ms.ms()));
    let lat = format!(r#""lat":{}"#, text(&|out| write_decimal(sample.lat_e7, 7, out)));
    let lon_value = text(&|out| write_decimal(sample.lon_e7, 7, out));
    let lon = format!(r#""lon":{lon_value}"#);
    let object = |fields: &[&str]| format!("{{{}}}", fields.join(",")).into_bytes();
    let (id, time, lat, lon) = (id.as_str(), time.as_str(), lat.as_str(), lon.as_str());
    let variant = random.index(3);
    match reason {
        DeadReason::BadUtf8 => {
            let mut line = object(&[id, time, lat, lon, r#""driver":"J?rgen""#]);
            let at = line.iter().rposition(|&byte| byte == b'?').expect("the driver contains it");
            line[at] = [0xfc, 0xff, 0xc3][variant];
            line
        }
        DeadReason::BadJson => match variant {
            0 => format!("{{{id},{time},\"la").into_bytes(),
            1 => b"connection reset by peer".to_vec(),
            _ => format!("{{{id};{time};{lat};{lon}}}").into_bytes(),
        },
        DeadReason::MissingField => {
            object([&[time, lat, lon][..], &[id, lat, lon], &[id, time, lon]][variant])
        }
        DeadReason::BadType => {
            let lat = [r#""lat":true"#, r#""lat":[1]"#, r#""lat":"north""#][variant];
            object(&[id, time, lat, lon])
        }
        DeadReason::OutOfRange => match variant {
            0 => object(&[id, time, r#""lat":91.5"#, lon]),
            1 => object(&[id, time, lat, r#""lon":-200.25"#]),
            _ => object(&[id, time, lat, lon, r#""speed":-3.5"#]),
        },
        DeadReason::BadTime | DeadReason::TimeBeforeMin | DeadReason::TimeInFuture => {
            object(&[id, &format!(r#""time":"{}""#, wrong_time(reason)[variant]), lat, lon])
        }
        DeadReason::BadDeviceId => {
            let long = format!(r#""device_id":"{}""#, "x".repeat(300));
            object(&[
                [r#""device_id":"""#, r#""device_id":"truck\u0000""#, &long][variant],
                time,
                lat,
                lon,
            ])
        }
        _ => {
            let aliases = format!(r#""lng":0.5,"longitude":{lon_value}"#);
            object(&[id, time, lat, &aliases])
        }
    }
}

/// Times that cannot be parsed, or that the clock guard rejects on any day.
fn wrong_time(reason: DeadReason) -> [&'static str; 3] {
    match reason {
        DeadReason::BadTime => ["yesterday", "2025-02-30T00:00:00Z", "2025-01-01 99:00"],
        // Receivers without a fix send the GPS or Unix epoch; the last is the latest rejected time.
        DeadReason::TimeBeforeMin => {
            ["1980-01-06T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "1999-12-31T23:59:59.999Z"]
        }
        _ => ["2999-01-01T00:00:00.000Z", "2135-08-06T12:30:00.000Z", "9999-12-31T23:59:59.999Z"],
    }
}
