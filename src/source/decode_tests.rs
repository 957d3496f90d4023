use super::*;
use crate::model::rules::{SpeedUnit, TimeUnit};
use crate::model::scalar::DeviceTime;
use crate::source::formats::csv::Columns;
use crate::timeline::Sample;

const GOOD: &str = r#""device_id":"a","time":"2026-11-20T21:38:00.123Z","lat":1.5,"lon":2.5"#;

fn with_map(map: &str, change: impl FnOnce(&mut Rules)) -> Decoder {
    let mut rules = Rules::default();
    if !map.is_empty() {
        rules.fields = crate::source::parse_map(map).unwrap();
    }
    change(&mut rules);
    Decoder::new(&rules).unwrap()
}

fn decoder() -> Decoder {
    with_map("", |_| ())
}

struct Summary {
    device: String,
    driver: Option<String>,
    ignition: Option<bool>,
    sample: Sample,
}

fn read(decoder: &Decoder, line: &[u8]) -> Result<Summary, SampleError> {
    let mut text = "before".to_owned();
    let context = RecordContext::default();
    let decoded = decoder.decode((None, line), &context, &mut text).map_err(|none| {
        assert_eq!(text, "before", "an error leaves no text");
        none.error().expect("nothing is skipped").clone()
    })?;
    let part = |span: &crate::source::Span| text[span.start as usize..span.end as usize].to_owned();
    Ok(Summary {
        device: part(&decoded.device),
        driver: decoded.driver.as_ref().map(part),
        ignition: decoded.sample.ignition,
        sample: decoded.sample,
    })
}

fn good(decoder: &Decoder, line: &str) -> Summary {
    read(decoder, line.as_bytes()).unwrap_or_else(|fault| panic!("{line}: {fault:?}"))
}

#[track_caller]
fn rejects(decoder: &Decoder, line: impl AsRef<[u8]>, reason: DeadReason, why: &str) {
    let line = line.as_ref();
    let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
    let fault = read(decoder, line).err().unwrap_or_else(|| panic!("{shown} is good"));
    assert_eq!(fault.reason, reason, "{shown}: {}", fault.message);
    assert!(fault.message.contains(why), "{shown}: {}", fault.message);
    assert!(fault.message.len() < 600, "{} bytes of message", fault.message.len());
}

/// A good object with one more member, which may repeat a name.
fn plus(member: &str) -> String {
    format!("{{{GOOD},{member}}}")
}

/// A good object with one value changed.
fn but(name: &str, value: &str) -> String {
    let object = |name: &str| match name {
        "device_id" => "\"a\"",
        "time" => "\"2026-11-20T21:38:00.123Z\"",
        "lat" => "1.5",
        _ => "2.5",
    };
    let members = ["device_id", "time", "lat", "lon"]
        .map(|known| format!("\"{known}\":{}", if known == name { value } else { object(known) }));
    format!("{{{}}}", members.join(","))
}

#[test]
fn a_whole_sample_is_read() {
    let line = plus(
        r#""speed":13.5,"heading":90,"altitude":-3.25,"accuracy":4,"driver":"Zoë \"Z\"","ignition":true,"x":{"lat":[1e999]},"y":null"#,
    );
    let read = good(&decoder(), &line);
    assert_eq!((read.device.as_str(), read.driver.as_deref()), ("a", Some("Zoë \"Z\"")));
    assert_eq!(read.ignition, Some(true));
    assert_eq!(read.sample.time_ms, DeviceTime(1_795_210_680_123));
    assert_eq!((read.sample.lat_e7, read.sample.lon_e7), (15_000_000, 25_000_000));
    assert_eq!(read.sample.speed_cmps.get(), Some(1350));
    assert_eq!(read.sample.heading_ddeg.get(), Some(900));
    assert_eq!(read.sample.altitude_dm.get(), Some(-33));
    assert_eq!(read.sample.accuracy_dm.get(), Some(40));
}

/// The trip that starts at an accepted device time has a text id: for JSON and tables.
#[test]
fn every_accepted_time_has_a_text_id() {
    use crate::identity::TripId;
    let (first, last) = (-62_167_219_200_000_i64, 253_402_300_799_999_i64);
    let d = decoder();
    let mut columns = Columns::new(b"device_id,time,lat,lon", None, &d.shape).unwrap();
    for time in [first - 1, first, 0, last, last + 1, i64::MIN, i64::MAX] {
        let line = but("time", &time.to_string());
        let (mut text, context) = (String::new(), RecordContext::default());
        let row = format!("a,{time},1.5,2.5");
        let read = [
            d.decode((None, line.as_bytes()), &context, &mut text),
            d.decode_by(
                |row, shape, fields| columns.read(row, shape, fields),
                row.as_bytes(),
                &context,
                &mut text,
            ),
        ];
        for read in read {
            let is_accepted = (first..=last).contains(&time);
            assert_eq!(read.is_ok(), is_accepted, "{time}");
            match read {
                Ok(decoded) => {
                    let id = TripId::new("a", decoded.sample.time_ms).unwrap();
                    assert!(id.text().is_ok(), "{time}");
                }
                Err(none) => {
                    assert_eq!(none.error().unwrap().reason, DeadReason::OutOfRange, "{time}");
                }
            }
        }
    }
}

#[test]
fn values_are_read_as_devices_send_them() {
    let now = decoder();
    let seconds = with_map("", |rules| rules.time_unit = TimeUnit::Seconds);
    let ms = |decoder: &Decoder, line: &str| good(decoder, line).sample.time_ms.ms();
    let offset = but("time", "\"2026-11-20T21:38:00.123-0700\"");
    assert_eq!(ms(&now, &offset), 1_795_235_880_123);
    let fraction = but("time", "1795210680.123");
    assert_eq!(ms(&seconds, &fraction), 1_795_210_680_123);
    let text = good(&now, &but("lat", "\"1.5\""));
    assert_eq!(text.sample, good(&now, &but("lat", "1.5")).sample);
    let unknown = plus("\"speed\":-1,\"heading\":-1.0,\"accuracy\":\"-1\"");
    assert_eq!(good(&now, &unknown).sample, good(&now, &format!("{{{GOOD}}}")).sample);
    rejects(&now, plus("\"speed\":-2"), DeadReason::OutOfRange, "speed is -2");
    let local = but("time", "\"2026-03-27 06:04:03\"");
    rejects(&now, &local, DeadReason::BadTime, "--time-zone");
    let zoned = |zone: &str| {
        with_map("", |rules| {
            rules.time_zone = Some(zone.into());
            rules.zone_tables = Some(crate::source::ZONE_TABLES.into());
        })
    };
    assert_eq!(ms(&zoned("UTC"), &local), 1_774_591_443_000);
    let berlin = zoned("Europe/Berlin");
    assert_eq!(ms(&berlin, &local), 1_774_587_843_000);
    let twice = but("time", "\"2026-10-25 02:30:00\"");
    rejects(&berlin, &twice, DeadReason::BadTime, "occurs twice");
    let never = but("time", "\"2026-03-29 02:30:00\"");
    rejects(&berlin, &never, DeadReason::BadTime, "does not exist");
}

#[test]
fn each_reason_has_example_lines() {
    use DeadReason as R;
    let d = decoder();
    let deep = format!("{{{GOOD},\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let id257 = but("device_id", &format!("\"{}\"", "x".repeat(257)));
    let cases: &[(&str, R, &str)] = &[
        ("[1]", R::BadJson, "JSON object"),
        ("7", R::BadJson, "JSON object"),
        ("{", R::BadJson, "EOF"),
        (&plus("\"x\":nan"), R::BadJson, "column"),
        (&format!("{{{GOOD}}} x"), R::BadJson, "trailing"),
        (&but("lat", "NaN"), R::BadJson, "column"),
        (&but("device_id", "\"\\ud800\""), R::BadJson, "column"),
        (&deep, R::BadJson, "deeper than 127"),
        (&"[".repeat(100_000), R::BadJson, "deeper than 127"),
        ("{}", R::MissingField, "device_id is absent"),
        (&but("time", "null"), R::MissingField, "time is absent"),
        (r#"{"device_id":"a","time":1,"lon":1}"#, R::MissingField, "lat is absent"),
        (r#"{"device_id":"a","time":1,"lat":1,"Lon":1}"#, R::MissingField, "lon is absent"),
        (&but("device_id", "1.5"), R::BadType, "device_id is 1.5"),
        (&but("device_id", "[]"), R::BadType, "device_id is an array"),
        (&but("lat", "\"1.5 N\""), R::BadType, "lat is the text `1.5 N`"),
        (&but("lon", "{}"), R::BadType, "lon is an object"),
        (&but("time", "true"), R::BadType, "time is true"),
        (&plus("\"driver\":true"), R::BadType, "driver is true"),
        (&plus("\"driver\":\"a\\u0000\""), R::BadType, "NUL"),
        (&but("lat", "91"), R::OutOfRange, "lat is 91, outside of -90 to 90"),
        (&but("lat", "1e999"), R::OutOfRange, "lat is a number that does not fit a float"),
        (&but("lon", "-1e308"), R::OutOfRange, "lon"),
        (&plus("\"speed\":1001"), R::OutOfRange, "speed is 1001"),
        (&but("time", "1e99"), R::BadTime, "--time-unit"),
        (&but("time", "\"\""), R::BadTime, "RFC 3339"),
        (&but("time", "18446744073709551615"), R::BadTime, "too large"),
        (&but("time", "\"2026-11-20\""), R::BadTime, "RFC 3339"),
        (&but("time", "253402300800000"), R::OutOfRange, "time is 253402300800000, outside"),
        (&but("time", "-62167219200001"), R::OutOfRange, "0000 to 9999"),
        (&but("time", "\"9999-12-31T23:59:59-01:00\""), R::OutOfRange, "`9999-12-31T23"),
        (&but("time", "9223372036854775807"), R::OutOfRange, "--time-unit"),
        (&but("device_id", "\"\""), R::BadDeviceId, "0 bytes"),
        (&but("device_id", "\"a\\u0000b\""), R::BadDeviceId, "NUL"),
        (&id257, R::BadDeviceId, "257 bytes"),
        (&plus("\"lat\":1.5"), R::AmbiguousField, "`lat` occurs twice"),
        (&plus("\"latitude\":1,\"latitude\":null"), R::AmbiguousField, "`latitude` occurs twice"),
    ];
    for (line, reason, why) in cases {
        rejects(&d, line, *reason, why);
    }
    rejects(&d, b"{\"device_id\":\"\xff\"}", R::BadUtf8, "byte 14 of the record, 0xff");
    // `out_of_range` only applies if the size of the number is the only error.
    rejects(&d, format!("{}}}", but("lat", "1e999")), R::BadJson, "number out of range");
}

#[test]
fn nesting_in_skipped_values_is_limited() {
    let nested = |depth: usize| plus(&format!("\"x\":{}{}", "[".repeat(depth), "]".repeat(depth)));
    good(&decoder(), &nested(126));
    rejects(&decoder(), nested(127), DeadReason::BadJson, "deeper");
    good(&decoder(), &plus(&format!("\"x\":\"\\\"{}\"", "[".repeat(500))));
}

#[test]
fn the_canonical_name_wins_and_two_aliases_do_not() {
    let d = decoder();
    let read = good(&d, r#"{"deviceId":"a","ts":7,"latitude":1,"lng":2,"bearing":3,"x":1}"#);
    assert_eq!((read.device.as_str(), read.sample.time_ms), ("a", DeviceTime(7)));
    assert_eq!(read.sample.heading_ddeg.get(), Some(30));
    for line in [
        r#"{"device":"a","device_id":"b","deviceId":"c","ts":7,"lat":1,"lon":2}"#,
        r#"{"device_id":"b","deviceId":"c","device":"a","ts":7,"lat":1,"lon":2}"#,
        r#"{"device":"a","deviceId":"c","device_id":"b","timestamp":null,"time":7,"lat":1,"lon":2}"#,
        r#"{"device":"b","deviceId":null,"device_id":null,"ts":7,"lat":1,"lon":2}"#,
    ] {
        assert_eq!(good(&d, line).device, "b", "{line}");
    }
    for (line, why) in [
        (r#"{"device_id":"a","ts":7,"timestamp":7,"lat":1,"lon":2}"#, "`ts` and `timestamp`"),
        (r#"{"device_id":"a","time":7,"lng":7,"lat":1,"longitude":2}"#, "`lng` and `longitude`"),
    ] {
        rejects(&d, line, DeadReason::AmbiguousField, why);
    }
}

#[test]
fn a_map_may_contain_names_and_pointers() {
    let d = with_map(
        "device_id=vehicle,lat=/gps/pos/0,lon=/gps/pos/1,driver=vehicle,speed=/a~1b/m~0n",
        |_| (),
    );
    let line = r#"{"vehicle":17,"device_id":"no","lat":"no","ts":7,"gps":{"pos":[1,2,[3]]},"a/b":{"m~n":4}}"#;
    let read = good(&d, line);
    assert_eq!((read.device.as_str(), read.driver.as_deref()), ("17", Some("17")));
    assert_eq!((read.sample.lat_e7, read.sample.lon_e7), (10_000_000, 20_000_000));
    assert_eq!(read.sample.speed_cmps.get(), Some(400));
    let line = r#"{"vehicle":"v","ts":7,"lat":1,"latitude":1,"gps":{"pos":{"1":2,"01":3}}}"#;
    rejects(&d, line, DeadReason::MissingField, "lat is absent: there is no `/gps/pos/0`");
    let line = r#"{"vehicle":"v","ts":7,"gps":{"pos":{"1":2,"0":3,"1":2}}}"#;
    rejects(&d, line, DeadReason::AmbiguousField, "`1` occurs twice");
    let line = r#"{"vehicle":"v","ts":7,"gps":{"pos":[[1],2]}}"#;
    rejects(&d, line, DeadReason::BadType, "lat is an array");
}

#[test]
fn one_id_for_all_records_is_proposed_if_it_can_be_copied() {
    let mapped = |name: &str| with_map(&format!("device_id={name}"), |_| ());
    let hint = "; for one id in all records, write --map device_id==vehicle";
    rejects(&mapped("vehicle"), "{}", DeadReason::MissingField, hint);
    for name in ["/i\td", &"long".repeat(30)] {
        let SampleError { message, .. } = read(&mapped(name), b"{}").err().unwrap();
        assert!(message.starts_with("device_id is absent: there is no `"), "{message:?}");
        assert!(!message.contains("--map") && !message.contains('\t'), "{message:?}");
    }
}

#[test]
fn units_are_converted() {
    for (unit, cmps) in [
        (SpeedUnit::MetresPerSecond, 10_000),
        (SpeedUnit::KilometresPerHour, 2_778),
        (SpeedUnit::MilesPerHour, 4_470),
        (SpeedUnit::Knots, 5_144),
    ] {
        let read = good(&with_map("", |rules| rules.speed_unit = unit), &plus("\"speed\":100"));
        assert_eq!(read.sample.speed_cmps.get(), Some(cmps), "{unit:?}");
    }
    for (unit, value, ms) in [
        (TimeUnit::Seconds, "1795210680", 1_795_210_680_000),
        (TimeUnit::Seconds, "\"1795210680\"", 1_795_210_680_000),
        (TimeUnit::Millis, "-1", -1),
        (TimeUnit::Micros, "-1", -1),
        (TimeUnit::Nanos, "1795210680123999999", 1_795_210_680_123),
        (TimeUnit::Nanos, "18446744073709551615", 18_446_744_073_709),
        (TimeUnit::Nanos, "\"1970-01-01T01:00:00+01:00\"", 0),
    ] {
        let read = good(&with_map("", |rules| rules.time_unit = unit), &but("time", value));
        assert_eq!(read.sample.time_ms.ms(), ms, "{unit:?} {value}");
    }
}

#[test]
fn some_types_are_converted() {
    let d = decoder();
    for (value, on) in [("1", true), ("0", false), ("\"ON\"", true), ("\"False\"", false)] {
        assert_eq!(good(&d, &plus(&format!("\"ignition\":{value}"))).ignition, Some(on), "{value}");
    }
    assert_eq!(good(&d, &but("device_id", "-17")).device, "-17");
    assert_eq!(good(&d, &but("device_id", "18446744073709551615")).device, "18446744073709551615");
    assert_eq!(good(&d, &but("device_id", "\"\\u00e9\"")).device, "é");
    assert_eq!(good(&d, &but("device_id", &format!("\"{}\"", "x".repeat(256)))).device.len(), 256);
    assert_eq!(good(&d, &plus("\"driver\":9")).driver.as_deref(), Some("9"));
    assert_eq!(good(&d, &plus("\"driver\":\"\"")).driver, None);
    assert_eq!(
        good(&d, "{\"l\\u0061t\":1,\"lon\":2,\"ts\":3,\"device\":4} ").sample.lat_e7,
        10_000_000
    );
}
