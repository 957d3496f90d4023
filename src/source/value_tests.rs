use super::*;
use crate::model::reading::LostValue;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
use crate::source::formats::csv::Columns;
use crate::source::local_time::TimeRulesError;
use crate::source::{Decoder, DecoderError, NoSample, RecordContext, ZONE_TABLES};
use crate::timeline::Reading;

fn decoder(change: impl FnOnce(&mut Rules)) -> Decoder {
    let mut rules = Rules::default();
    change(&mut rules);
    Decoder::new(&rules).unwrap()
}

fn in_zone(zone: &str, format: Option<&str>) -> Decoder {
    decoder(|rules| {
        rules.time_zone = Some(zone.into());
        rules.zone_tables = Some(ZONE_TABLES.into());
        rules.time_format = format.map(str::to_owned);
    })
}

fn read(decoder: &Decoder, line: &str) -> Result<DecodedSample, SampleError> {
    let context = RecordContext::default();
    decoder.decode((None, line.as_bytes()), &context, &mut String::new()).map_err(dead)
}

fn dead(fault: NoSample) -> SampleError {
    match fault {
        NoSample::Dead(error) => *error,
        other => panic!("{other:?}"),
    }
}

/// A record with these members besides the device, as JSON.
fn record(members: &str) -> String {
    format!(r#"{{"device_id":"a","lat":52.0,"lon":13.0,{members}}}"#)
}

/// The time of a record, ms since 1970, or the reason and the message of its error.
fn time_of(decoder: &Decoder, time: &str) -> Result<i64, (DeadReason, String)> {
    let read = read(decoder, &record(&format!(r#""time":{time}"#)));
    read.map(|decoded| decoded.sample.time_ms.ms()).map_err(|error| (error.reason, error.message))
}

fn in_table(decoder: &Decoder, header: &str, row: &str) -> Result<DecodedSample, SampleError> {
    let mut columns = Columns::new(header.as_bytes(), None, &decoder.shape).unwrap();
    let context = RecordContext::default();
    decoder
        .decode_by(
            |row, shape, fields| columns.read(row, shape, fields),
            row.as_bytes(),
            &context,
            &mut String::new(),
        )
        .map_err(dead)
}

const ODD: &str = include_str!("../../tests/data/formats/odd/odd.ndjson");

#[test]
fn the_odd_values_of_other_systems_are_read() {
    let rows: Vec<_> = ODD.lines().collect();
    let millis = decoder(|_| ());
    assert_eq!(read(&millis, rows[0]).unwrap().sample.time_ms.ms(), 1_795_183_200_000);
    let seconds = decoder(|rules| rules.time_unit = TimeUnit::Seconds);
    assert_eq!(read(&seconds, rows[1]).unwrap().sample.time_ms.ms(), 1_795_158_000_500);
    let without = read(&millis, rows[2]).unwrap();
    assert_eq!(without.sample.readings(), [Reading::ABSENT; 4]);
    let unknown: Vec<_> = without.unknown.iter().map(LostValue::name).collect();
    assert_eq!(unknown, ["speed", "heading", "accuracy"]);
    let text = read(&millis, rows[3]).unwrap();
    assert_eq!((text.sample.lat_e7, text.sample.speed_cmps.get()), (520_000_000, Some(350)));
    assert!(text.unknown.iter().next().is_none());
    let local = read(&millis, rows[4]).unwrap_err();
    assert_eq!(local.reason, DeadReason::BadTime);
    assert!(local.message.contains("--time-zone, such as Europe/Berlin"), "{}", local.message);
    let utc = read(&in_zone("UTC", None), rows[4]).unwrap();
    assert_eq!(utc.sample.time_ms.ms(), 1_795_158_003_000);
}

#[test]
fn only_minus_one_is_an_unknown_value() {
    let d = decoder(|_| ());
    let with = |member: &str| read(&d, &record(&format!(r#""time":1,{member}"#)));
    for value in ["-1", "-1.0", "-1e0", r#""-1""#, r#""-1.0""#, r#"" -1 ""#] {
        for name in ["speed", "heading", "course", "bearing", "accuracy"] {
            let decoded = with(&format!(r#""{name}":{value}"#)).unwrap();
            assert_eq!(decoded.sample.readings(), [Reading::ABSENT; 4], "{name} {value}");
            assert_eq!(decoded.unknown.iter().count(), 1, "{name} {value}");
        }
        let altitude = with(&format!(r#""altitude":{value}"#)).unwrap();
        assert_eq!(altitude.sample.altitude_dm.get(), Some(-10), "{value}");
        assert!(altitude.unknown.iter().next().is_none(), "{value}");
        let line = format!(r#"{{"device_id":"a","time":1,"lat":{value},"lon":{value}}}"#);
        let position = read(&d, &line).unwrap();
        assert_eq!((position.sample.lat_e7, position.sample.lon_e7), (-10_000_000, -10_000_000));
    }
    for value in ["-2", "-0.9", "-1.01", "-10", r#""-1m""#, "-1e1"] {
        with(&format!(r#""speed":{value}"#)).unwrap_err();
    }
    // -1 km/h, too: the unit does not matter.
    let kmh = decoder(|rules| rules.speed_unit = SpeedUnit::KilometresPerHour);
    assert_eq!(read(&kmh, &record(r#""time":1,"speed":-1"#)).unwrap().unknown.iter().count(), 1);
}

#[test]
fn text_is_read_as_a_number_or_a_switch() {
    let d = decoder(|_| ());
    let ignition = |value: &str| {
        read(&d, &record(&format!(r#""time":1,"ignition":{value}"#)))
            .map(|read| read.sample.ignition)
    };
    for on in ["1", "1.0", r#""1""#, r#""TRUE""#, r#""t""#, r#""yes""#, r#""Y""#, r#"" on""#] {
        assert_eq!(ignition(on), Ok(Some(true)), "{on}");
    }
    for off in ["0", "0.0", "-0.0", r#""0""#, r#""f""#, r#""No""#, r#""n""#, r#""off ""#] {
        assert_eq!(ignition(off), Ok(Some(false)), "{off}");
    }
    for (word, on) in [
        ("Ein", true),
        ("AN", true),
        ("aus", false),
        ("oui", true),
        ("n\u{e3}o", false),
        ("På", true),
    ] {
        assert_eq!(ignition(&format!("\"{word}\"")), Ok(Some(on)), "{word}");
    }
    // It loses the ignition, not the sample.
    for neither in ["2", "0.5", r#""2""#, r#""-1""#, r#""maybe""#, "[]"] {
        let sample = read(&d, &record(&format!(r#""time":1,"ignition":{neither}"#))).unwrap();
        assert_eq!((sample.sample.ignition, sample.unknown.has_ignition()), (None, true));
        assert_eq!(sample.unknown.iter().collect::<Vec<_>>(), [LostValue::Ignition], "{neither}");
    }
    for text in ["", "N52", "52.0.0", "5,2", "0x34", "52°"] {
        let line = format!(r#"{{"device_id":"a","time":1,"lat":"{text}","lon":1}}"#);
        assert_eq!(read(&d, &line).unwrap_err().reason, DeadReason::BadType, "{text}");
    }
    for text in ["NaN", "inf", "-infinity", "1e999", "91"] {
        let line = format!(r#"{{"device_id":"a","time":1,"lat":"{text}","lon":1}}"#);
        assert_eq!(read(&d, &line).unwrap_err().reason, DeadReason::OutOfRange, "{text}");
    }
}

#[test]
fn an_empty_text_leaves_an_optional_field_without_a_value() {
    for field in ["speed", "heading", "altitude", "accuracy", "ignition", "driver"] {
        for empty in [r#""""#, r#"" ""#] {
            // A name may consist of spaces.
            if (field, empty) == ("driver", r#"" ""#) {
                continue;
            }
            let line = record(&format!(r#""time":1,"{field}":{empty}"#));
            let read_now = read(&decoder(|_| ()), &line).unwrap();
            let expected = read(&decoder(|_| ()), &record(r#""time":1"#)).unwrap();
            assert_eq!(format!("{read_now:?}"), format!("{expected:?}"), "{line}");
        }
    }
    for field in ["device_id", "time", "lat", "lon"] {
        let line = record(r#""time":1"#).replace(&format!(r#""{field}":"#), r#""was":"#);
        let line = line.replacen('{', &format!(r#"{{"{field}":"","#), 1);
        let error = read(&decoder(|_| ()), &line).unwrap_err();
        assert!(error.message.contains(field), "{line}: {}", error.message);
    }
}

#[test]
fn a_latitude_that_may_be_a_longitude_is_an_error_that_says_so() {
    for (lat, is_hinted) in [("151.2", true), ("-100", true), ("181", false)] {
        let line = format!(r#"{{"device_id":"a","time":1,"lat":{lat},"lon":-33.9}}"#);
        let error = read(&decoder(|_| ()), &line).unwrap_err();
        assert_eq!(error.reason, DeadReason::OutOfRange);
        assert_eq!(error.message.contains("may be swapped"), is_hinted, "{}", error.message);
    }
}

#[test]
fn decimal_commas_are_those_of_tables() {
    let d = decoder(|rules| rules.time_unit = TimeUnit::Seconds);
    let header = "device_id;time;lat;lon;speed";
    let good = in_table(&d, header, "a,b;1795158000,5;52,52;-13,25;-1,0").unwrap();
    assert_eq!(good.sample.time_ms.ms(), 1_795_158_000_500);
    assert_eq!((good.sample.lat_e7, good.sample.lon_e7), (525_200_000, -132_500_000));
    assert_eq!(good.unknown.iter().collect::<Vec<_>>(), [LostValue::Reading(ReadingKind::Speed)]);
    assert_eq!(good.device, 0..3, "a comma in an id stays");
    let points = in_table(&d, header, "a;1795158000.5;52.52; 13 ;1e0").unwrap();
    assert_eq!((points.sample.lat_e7, points.sample.lon_e7), (525_200_000, 130_000_000));
    for number in ["1.234,5", "1,234,5", "1,234.5", ",5", "5,", "1e0,5", "--1,5", "1 234,5"] {
        let error = in_table(&d, header, &format!("a;1;2;3;{number}")).unwrap_err();
        assert_eq!(error.reason, DeadReason::BadType, "{number}: {}", error.message);
    }
    for (header, row) in [
        ("device_id,time,lat,lon", "a,1,\"52,52\",13"),
        ("device_id\ttime\tlat\tlon\tspeed", "a\t1\t52,52\t13\t1,234"),
    ] {
        assert_eq!(in_table(&d, header, row).unwrap_err().reason, DeadReason::BadType, "{row}");
    }
    // Between tabs, three digits may be thousands, but not of degrees.
    let header = "device_id\ttime\tlat\tlon\tspeed";
    let tabs = in_table(&d, header, "a\t1795158000,5\t52,521\t13,41\t1,5").unwrap();
    assert_eq!((tabs.sample.lat_e7, tabs.sample.lon_e7), (525_210_000, 134_100_000));
    assert_eq!(
        (tabs.sample.time_ms.ms(), tabs.sample.speed_cmps.get()),
        (1_795_158_000_500, Some(150))
    );
}

#[test]
fn a_time_may_be_joined_of_several_values() {
    let joined = |map: &str, format: Option<&str>| {
        decoder(|rules| {
            rules.fields = crate::source::parse_map(map).unwrap();
            rules.time_zone = Some("Europe/Berlin".into());
            rules.zone_tables = Some(ZONE_TABLES.into());
            rules.time_format = format.map(str::to_owned);
        })
    };
    let ms = 1_774_587_843_000;
    let german = joined("time=Datum+Uhrzeit", Some("%d.%m.%Y %H:%M:%S"));
    let header = "Datum;Uhrzeit;device_id;lat;lon";
    let row = in_table(&german, header, "27.03.2026;06:04:03;a;1;2").unwrap();
    assert_eq!(row.sample.time_ms.ms(), ms);
    let days = joined("time=Datum+Uhrzeit", Some("excel"));
    let row = in_table(&days, header, "46108;0,252812;a;1;2").unwrap();
    assert_eq!(row.sample.time_ms.ms(), ms);
    for row in ["27.03.2026;;a;1;2", ";;a;1;2"] {
        let error = in_table(&german, header, row).unwrap_err();
        assert_eq!(error.reason, DeadReason::MissingField, "{row}");
        assert!(error.message.contains("no `Datum+Uhrzeit`"), "{}", error.message);
    }
    // In nested values, and after another source.
    let nested = joined("time=/at|/t/date+/t/clock", None);
    for (record, expected) in [
        (r#"{"device_id":"a","lat":1,"lon":2,"t":{"date":"2026-03-27","clock":"06:04:03"}}"#, ms),
        (
            r#"{"device_id":"a","lat":1,"lon":2,"t":{"date":"2026-03-27","clock":"06:04:03"},"at":5}"#,
            5,
        ),
    ] {
        assert_eq!(read(&nested, record).unwrap().sample.time_ms.ms(), expected, "{record}");
    }
    let plus = joined("time=/UTC+1", None);
    let read_plus = read(&plus, r#"{"device_id":"a","lat":1,"lon":2,"UTC+1":5}"#).unwrap();
    assert_eq!(read_plus.sample.time_ms.ms(), 5);
    let long = crate::source::parse_map("time=a+b+c+d+e").unwrap_err().to_string();
    assert!(long.contains("the limit is 4"), "{long}");
    assert!(crate::source::parse_map("time=a+").is_err());
}

#[test]
fn a_time_has_one_of_several_formats() {
    let d = in_zone("Europe/Berlin", Some("%d.%m.%Y %H:%M:%S|%d.%m.%Y %H:%M|excel"));
    for (text, ms) in [
        (r#""27.03.2026 06:04:03""#, 1_774_587_843_000),
        (r#""27.03.2026 06:04""#, 1_774_587_840_000),
        ("46108.252812", 1_774_587_843_000),
        ("46108", 1_774_566_000_000),
        (r#""46108.25281""#, 1_774_587_843_000),
    ] {
        let read = read(&d, &record(&format!(r#""time":{text}"#))).unwrap();
        assert_eq!(read.sample.time_ms.ms(), ms, "{text}");
    }
    for text in ["-5", "3000000", "1e9", r#""46108.2x""#] {
        assert!(read(&d, &record(&format!(r#""time":{text}"#))).is_err(), "{text}");
    }
    let us = in_zone("America/New_York", Some("%m/%d/%y %I:%M %p"));
    let read = read(&us, &record(r#""time":"3/27/26 6:04 AM""#)).unwrap();
    assert_eq!(read.sample.time_ms.ms(), 1_774_605_840_000);
}

#[test]
fn the_hour_that_autumn_repeats_is_chosen_by_a_rule() {
    use crate::model::rules::AmbiguousTime::{Earlier, Later, Order};
    let first = 1_792_888_200_000;
    for (rule, expected) in [
        (None, None),
        (Some(Earlier), Some(first)),
        (Some(Later), Some(first + 3_600_000)),
        (Some(Order), None),
    ] {
        let d = decoder(|rules| {
            rules.time_zone = Some("Europe/Berlin".into());
            rules.zone_tables = Some(ZONE_TABLES.into());
            rules.time_ambiguous = rule;
        });
        let read = read(&d, &record(r#""time":"2026-10-25 02:30:00""#));
        match expected {
            Some(ms) => assert_eq!(read.unwrap().sample.time_ms.ms(), ms, "{rule:?}"),
            // Without the records before it.
            None => assert!(read.unwrap_err().message.contains("--time-ambiguous"), "{rule:?}"),
        }
    }
    let order = Rules { time_ambiguous: Some(Order), ..Rules::default() };
    let error = Decoder::check_topic_rules(&order).unwrap_err().to_string();
    assert!(error.contains("the order of a file"), "{error}");
}

#[test]
fn local_times_are_those_of_the_zone() {
    let berlin = in_zone("Europe/Berlin", None);
    for (text, ms) in [
        ("2026-03-27 06:04:03", 1_774_587_843_000),
        ("2026-03-27T06:04:03.5", 1_774_587_843_500),
        ("2026-03-27T06:04:03.9999", 1_774_587_843_999),
        // A text with an offset is what it says.
        ("2026-03-27T06:04:03Z", 1_774_591_443_000),
        ("2026-03-27 06:04:03 +0000", 1_774_591_443_000),
        ("2026-07-27T06:04:03", 1_785_125_043_000),
        ("2026-03-29T01:59:59", 1_774_745_999_000),
        ("2026-03-29T03:00:00", 1_774_746_000_000),
        ("1774587843000", 1_774_587_843_000),
    ] {
        assert_eq!(time_of(&berlin, &format!("\"{text}\"")), Ok(ms), "{text}");
    }
    let skipped = time_of(&berlin, r#""2026-03-29 02:30:00""#).unwrap_err();
    assert_eq!(
        skipped,
        (
            DeadReason::BadTime,
            "time `2026-03-29 02:30:00` does not exist in Europe/Berlin, as the clocks went from \
             2026-03-29 02:00:00 to 2026-03-29 03:00:00: it may be 2026-03-29T01:30:00.000Z \
             (by +01:00) or 2026-03-29T00:30:00.000Z (by +02:00); write it with an offset, such \
             as 2026-03-29T02:30:00+02:00"
                .into()
        )
    );
    let twice = time_of(&berlin, r#""2026-10-25T02:30:00""#).unwrap_err();
    assert_eq!(
        twice,
        (
            DeadReason::BadTime,
            "time `2026-10-25T02:30:00` occurs twice in Europe/Berlin, as the clocks were put \
             back: it may be 2026-10-25T00:30:00.000Z (by +02:00) or 2026-10-25T01:30:00.000Z \
             (by +01:00); choose with --time-ambiguous earlier, later or order, or write it with \
             an offset, such as 2026-10-25T02:30:00+01:00"
                .into()
        )
    );
}

#[test]
fn a_format_describes_times_that_are_text() {
    let german = in_zone("Europe/Berlin", Some("%d.%m.%Y %H:%M:%S"));
    assert_eq!(time_of(&german, r#""27.03.2026 06:04:03""#), Ok(1_774_587_843_000));
    assert_eq!(time_of(&german, "1774587843000"), Ok(1_774_587_843_000), "a number is a number");
    assert_eq!(time_of(&german, r#""1774587843000""#), Ok(1_774_587_843_000));
    assert_eq!(time_of(&german, r#""2026-03-27 06:04:03""#), Ok(1_774_587_843_000));
    for bad in ["27.03.2026", "32.03.2026 06:04:03", "27.03.2026 06:04:03 x", "27/03/2026 6:4:3"] {
        let (reason, message) = time_of(&german, &format!("\"{bad}\"")).unwrap_err();
        assert_eq!(reason, DeadReason::BadTime);
        assert!(message.contains("the --time-format `%d.%m.%Y %H:%M:%S`"), "{message}");
    }
    let (reason, message) = time_of(&german, r#""25.10.2026 02:30:00""#).unwrap_err();
    assert_eq!(reason, DeadReason::BadTime);
    assert!(message.contains("occurs twice in Europe/Berlin"), "{message}");
    // Digits only: the format wins over the unit.
    let digits = in_zone("UTC", Some("%Y%m%d%H%M%S"));
    assert_eq!(time_of(&digits, r#""20260327060403""#), Ok(1_774_591_443_000));
    let american = decoder(|rules| rules.time_format = Some("%m/%d/%y %I:%M %p %z".into()));
    assert_eq!(time_of(&american, r#""03/27/26 06:04 PM -0500""#), Ok(1_774_652_640_000));
    let local = time_of(&american, r#""2026-03-27 06:04:03""#).unwrap_err();
    assert!(local.1.contains("--time-zone"), "{}", local.1);
}

#[test]
fn a_format_that_cannot_be_read_is_an_error_at_the_start() {
    for (format, zone, why) in [
        ("%d.%m.%Y %H:%M:%S", None, "--time-zone is needed"),
        ("%d.%m.%Y", Some("UTC"), "needs a date, hours and minutes"),
        ("%H:%M:%S", Some("UTC"), "needs a date, hours and minutes"),
        ("%d.%m.%Y %I:%M", Some("UTC"), "needs a date, hours and minutes"),
        ("%d.%m.%Y %H:%M:%S.%f", Some("UTC"), "write %.f"),
        ("%d.%m.%Y %H:%M:%S %Z", Some("UTC"), "the name of a zone is not read"),
        ("%s", Some("UTC"), "--time-unit s"),
        ("%Q", Some("UTC"), "not known"),
        ("%", Some("UTC"), "not known"),
        ("", Some("UTC"), "needs a date"),
    ] {
        let rules = Rules {
            time_format: Some(format.into()),
            time_zone: zone.map(str::to_owned),
            zone_tables: zone.map(|_| ZONE_TABLES.to_owned()),
            ..Rules::default()
        };
        let error = Decoder::new(&rules).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains(&format!("`{format}`")), "{error}");
    }
    for format in ["%d.%m.%Y %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%c", "%F %T%.3f %#z", "%+"] {
        in_zone("Europe/Berlin", Some(format));
    }
}

#[test]
fn other_zone_tables_are_refused() {
    let rules = |zone: &str, tables: Option<&str>| Rules {
        time_zone: Some(zone.into()),
        zone_tables: tables.map(str::to_owned),
        ..Rules::default()
    };
    let error = Decoder::new(&rules("Europe/Berlin", Some("1999a"))).unwrap_err();
    let stored = "1999a".to_owned();
    assert_eq!(error, DecoderError::Times(TimeRulesError::Tables { stored }));
    let message = error.to_string();
    assert!(message.contains("1999a") && message.contains(ZONE_TABLES), "{message}");
    Decoder::new(&rules("Europe/Berlin", None)).unwrap_err();
    let error = Decoder::new(&rules("europe/berlin", Some(ZONE_TABLES))).unwrap_err().to_string();
    assert!(error.contains("did you mean `Europe/Berlin`?"), "{error}");
}
