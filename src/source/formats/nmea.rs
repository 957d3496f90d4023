//! Sentences of NMEA 0183. Only RMC has a time with a date, so it alone is a sample.
//!
//! Read here rather than by a crate: those for it have speeds of 32 bits, or take a bad value for
//! an absent one, or do not say what is wrong with a sentence, which its dead letter has to.

use super::{Format, Framing};
use crate::model::reason::{DeadReason, DropReason};
use crate::model::rules::SpeedUnit;
use crate::source::record::Fields;
use crate::source::shape::Shape;
use crate::source::text::short;
use crate::source::value::Value;
use crate::source::{NoSample, SampleError};

pub(super) const FORMAT: Format = Format {
    framing: Framing::Lines,
    is_record: is_sentence,
    body: |record| record,
    read: Some(read),
    preset: Some("nmea"),
};

/// Whether a line is a sentence, bad or not.
fn is_sentence(line: &[u8]) -> bool {
    let Some((b'$' | b'!', rest)) = line.split_first() else { return false };
    let address = rest.split(|byte| *byte == b',').next().unwrap_or_default();
    rest.len() > address.len()
        && (4..=10).contains(&address.len())
        && address.iter().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Collects the values of a sentence. One that is not a position is skipped.
///
/// # Errors
/// `bad_record`: the checksum or the form is wrong. Without a fix, it is dropped.
fn read<'r>(line: &'r str, shape: &Shape, fields: &mut Fields<'r>) -> Result<(), NoSample> {
    let bad = |problem: String| {
        let message = format!("not a sentence of NMEA 0183: {problem}");
        Box::new(SampleError::new(DeadReason::BadRecord, message))
    };
    let cells = checked_cells(line.trim_ascii()).map_err(bad)?;
    if !cells[0].ends_with("RMC") {
        return Err(NoSample::Skipped(1));
    }
    let cell = |at: usize| cells.get(at).copied().unwrap_or_default();
    match cell(2) {
        "A" => {}
        "V" => return Err(NoSample::Dropped(DropReason::BadFix, 1)),
        other => return Err(bad(format!("its status is {}, not A or V", short(other))).into()),
    }
    let time = time(cell(1), cell(9)).ok_or_else(|| {
        bad(format!("its time is {}, its date {}", short(cell(1)), short(cell(9))))
    })?;
    let targets = |name: &str| {
        let child = shape.root.child(name);
        child.map_or(&[][..], |at| &shape.root.children[at].node.targets)
    };
    fields.offer_copy(targets("time"), &time, false);
    let mut offer = |name: &str, value| fields.offer(targets(name), value);
    for (name, at, signs) in [("lat", 3, ["N", "S"]), ("lon", 5, ["E", "W"])] {
        let degrees = degrees(cell(at), cell(at + 1), signs);
        let shown =
            || format!("its {name} is {}", short(&format!("{},{}", cell(at), cell(at + 1))));
        offer(name, Value::Float(degrees.ok_or_else(|| bad(shown()))?));
    }
    for (name, at) in [("speed", 7), ("heading", 8)] {
        if cell(at).is_empty() {
            continue;
        }
        let number = cell(at).parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| bad(format!("its {name} is {}", short(cell(at)))))?;
        offer(
            name,
            Value::Float(if name == "speed" {
                from_knots(number, shape.speed_unit)
            } else {
                number
            }),
        );
    }
    Ok(())
}

/// Knots in another unit, which the decoder converts to m/s.
fn from_knots(knots: f64, unit: SpeedUnit) -> f64 {
    SpeedUnit::Knots.metres_per_second(knots) / unit.metres_per_second(1.0)
}

/// The cells of a sentence, after its checksum was checked; at least one.
fn checked_cells(line: &str) -> Result<Vec<&str>, String> {
    // Loggers write a time before the sentence.
    let start = line.find(['$', '!']).ok_or_else(|| format!("{} has no `$`", short(line)))?;
    let sentence = &line[start + 1..];
    let (content, checksum) =
        sentence.rsplit_once('*').ok_or_else(|| "it has no checksum".to_owned())?;
    let sum = content.bytes().fold(0, |sum, byte| sum ^ byte);
    match u8::from_str_radix(checksum, 16) {
        Ok(stated) if stated == sum && checksum.len() == 2 => Ok(content.split(',').collect()),
        _ => Err(format!("its checksum is {sum:02X}, not {}", short(checksum))),
    }
}

/// `hhmmss.sss` and `ddmmyy` in UTC as RFC 3339. Receivers older than 1980 have no clock.
fn time(time: &str, date: &str) -> Option<String> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if clock.len() != 6 || date.len() != 6 || !digits(clock) || !digits(date) || !digits(fraction) {
        return None;
    }
    let century = if &date[4..] < "80" { "20" } else { "19" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!(
        "{century}{}-{}-{}T{}:{}:{}{point}{}Z",
        &date[4..],
        &date[2..4],
        &date[..2],
        &clock[..2],
        &clock[2..4],
        &clock[4..],
        &fraction[..fraction.len().min(9)]
    ))
}

/// Degrees of `ddmm.mmmm`, or `dddmm.mmmm`, in a hemisphere.
fn degrees(text: &str, hemisphere: &str, [positive, negative]: [&str; 2]) -> Option<f64> {
    let whole = text.find('.').unwrap_or(text.len()).checked_sub(2)?;
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let minutes: f64 = text.get(whole..).filter(|_| is_number)?.parse().ok()?;
    let degrees: f64 = if whole == 0 { 0.0 } else { text[..whole].parse().ok()? };
    let degrees = (minutes < 60.0).then_some(degrees + minutes / 60.0)?;
    match hemisphere {
        _ if hemisphere == positive => Some(degrees),
        _ if hemisphere == negative => Some(-degrees),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;
    use crate::source::{Decoder, RecordContext, parse_map};

    fn with_checksum(content: &str) -> String {
        format!("${content}*{:02x}", content.bytes().fold(0, |sum, byte| sum ^ byte))
    }

    /// The values of a sentence as a sample with its time as the device, or why there is none.
    fn decode(line: &str, unit: SpeedUnit) -> Result<crate::timeline::Sample, String> {
        let fields = parse_map("device_id=time").unwrap();
        let rules = Rules { fields, speed_unit: unit, ..Rules::default() };
        let (decoder, context) = (Decoder::new(&rules).unwrap(), RecordContext::default());
        match decoder.decode_by(read, line.as_bytes(), &context, &mut String::new()) {
            Ok(read) => Ok(read.sample),
            Err(NoSample::Dead(error)) => Err(format!("{}: {}", error.reason, error.message)),
            Err(NoSample::Dropped(reason, 1)) => Err(reason.to_string()),
            Err(NoSample::Skipped(1)) => Err("skipped".into()),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn rmc_is_a_sample_in_any_unit() {
        let line = "$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*68";
        for unit in [SpeedUnit::MetresPerSecond, SpeedUnit::Knots, SpeedUnit::MilesPerHour] {
            let sample = decode(line, unit).unwrap();
            assert_eq!((sample.lat_e7, sample.lon_e7), (492_741_667, -1_231_853_333));
            assert_eq!(sample.speed_cmps.get(), Some(26));
            assert_eq!(sample.heading_ddeg.get(), Some(547));
        }
        for talker in ["GN", "BD", "GL"] {
            let line =
                with_checksum(&format!("{talker}RMC,225446.5,A,0000.5,S,00000.5,E,,,191126,,,D"));
            let sample = decode(&format!("07:00 {line}"), SpeedUnit::Knots).unwrap();
            assert_eq!((sample.lat_e7, sample.lon_e7), (-83_333, 83_333));
            assert_eq!(sample.speed_cmps.get(), None);
        }
    }

    #[test]
    fn times_have_a_century() {
        assert_eq!(time("225446", "191194").unwrap(), "1994-11-19T22:54:46Z");
        assert_eq!(time("225446.123", "010279").unwrap(), "2079-02-01T22:54:46.123Z");
        for (clock, date) in [("2254", "191194"), ("225446", ""), ("225446.x", "191194")] {
            assert_eq!(time(clock, date), None, "{clock} {date}");
        }
    }

    #[test]
    fn sentences_without_a_position_are_not_samples() {
        let gga = "GPGGA,225446,4916.45,N,12311.12,W,1,08,0.9,545.4,M,46.9,M,,";
        for (content, outcome) in
            [(gga, "skipped"), ("GPTXT", "skipped"), ("GPRMC,225446,V,,,,,,,191194,,", "bad_fix")]
        {
            let error = decode(&with_checksum(content), SpeedUnit::Knots).unwrap_err();
            assert_eq!(error, outcome, "{content}");
        }
    }

    #[test]
    fn a_bad_sentence_has_a_reason() {
        let bad = |content: &str| with_checksum(content);
        for (line, why) in [
            (
                "$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*69",
                "is 68, not `69`",
            ),
            ("$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*+8", "not `+8`"),
            ("$GPRMC,225446,A", "it has no checksum"),
            ("hello", "has no `$`"),
            (&bad("GPRMC,225446,X,,,,,,,,,"), "its status is `X`"),
            (&bad("GPRMC,,A,1.0,N,1.0,E,,,191126"), "its time is ``, its date `191126`"),
            (&bad("GPRMC,225446,A,4960.00,N,00100.0,E,,,191126"), "its lat is `4960.00,N`"),
            (&bad("GPRMC,225446,A,4910.00,E,00100.0,E,,,191126"), "its lat is `4910.00,E`"),
            (&bad("GPRMC,225446,A,4910.00,N,,,,,191126"), "its lon is `,`"),
            (&bad("GPRMC,225446,A,4910.00,N,é1.0,E,,,191126"), "its lon is"),
            (&bad("GPRMC,225446,A,4910.00,N,00100.0,E,fast,,191126"), "its speed is `fast`"),
            (&bad("GPRMC,225446,A,4910.00,N,00100.0,E,,nan,191126"), "its heading is `nan`"),
        ] {
            let message = decode(line, SpeedUnit::Knots).unwrap_err();
            assert!(
                message.starts_with("bad_record") && message.contains(why),
                "{line}: {message}"
            );
        }
        let late = decode(&bad("GPRMC,256146,A,4910.00,N,00100.0,E,,,191126"), SpeedUnit::Knots);
        assert!(late.unwrap_err().starts_with("bad_time"));
    }

    #[test]
    fn sentences_are_recognised() {
        for line in ["$GPRMC,1", "!AIVDM,1,1,,A,x,0*5C", "$PGRME,15.0,M", "$GNGGA,"] {
            assert!(is_sentence(line.as_bytes()), "{line}");
        }
        for line in ["$id,lat,lon", "$GPRMC", "GPRMC,1", "", "$,a", "$price,X"] {
            assert!(!is_sentence(line.as_bytes()), "{line}");
        }
    }
}
