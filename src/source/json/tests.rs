use super::plain::plain_bytes;
use super::*;
use crate::model::reading::ReadingSet;
use crate::model::rules::{Rules, TimeUnit};
use crate::source::{DecodedSample, Decoder, NoSample, RecordContext, Span, parse_map};
use crate::timeline::Sample;
use proptest::prelude::*;

fn decoder(map: &str, change: impl FnOnce(&mut Rules)) -> Decoder {
    let mut rules = Rules::default();
    if !map.is_empty() {
        rules.fields = parse_map(map).unwrap();
    }
    change(&mut rules);
    Decoder::new(&rules).unwrap()
}

type Content = (String, Option<String>, Option<bool>, Sample, ReadingSet);
type Summary = Result<Content, NoSample>;

fn summarize(decoded: Result<DecodedSample, NoSample>, text: &str) -> Summary {
    let part = |span: &Span| text[span.start as usize..span.end as usize].to_owned();
    match decoded {
        Ok(good) => {
            let driver = good.driver.as_ref().map(part);
            Ok((part(&good.device), driver, good.sample.ignition, good.sample, good.unknown))
        }
        Err(fault) => {
            assert_eq!(text, "before", "an error leaves no text");
            Err(fault)
        }
    }
}

const CONTEXT: RecordContext<'_> = RecordContext {
    key: Some(b"k/e\0y"),
    headers: &[],
    topic: Some("samples"),
    file: None,
    order: None,
};

/// Reads all lines with and without the parser, and compares the results. Returns how many lines
/// are plain.
fn compare(decoder: &Decoder, lines: &[Vec<u8>]) -> usize {
    let is_plain = |line: &Vec<u8>| {
        let (mut text, mut parsed) = ("before".to_owned(), "before".to_owned());
        let read = summarize(decoder.decode((None, line), &CONTEXT, &mut text), &text);
        let Ok(line) = std::str::from_utf8(line) else {
            assert_eq!(read.unwrap_err().error().unwrap().reason, DeadReason::BadUtf8);
            return false;
        };
        let (shape, mut fields) = (&decoder.shape, Fields::default());
        let found = parse(line, (shape, &shape.root), &mut fields).map_err(NoSample::from);
        let found = found.and_then(|()| decoder.complete(&mut fields, None, &CONTEXT, &mut parsed));
        assert_eq!(read, summarize(found, &parsed), "{line}");
        let (mut json, mut fields) = (Plain::new(line.as_bytes()), Fields::default());
        shape.may_be_plain && json.object(&shape.root, &mut fields).is_ok() && json.is_at_end()
    };
    lines.iter().filter(|line| is_plain(line)).count()
}

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

const PLAIN: [&str; 3] = [
    r#"{"device_id":"a","time":"2026-11-20T21:38:00.123Z","lat":1.5,"lon":-2.5,"speed":3.25}"#,
    r#"{"device_id":"b","time":"2026-11-20T21:38:01Z","lat":-0.1234567,"lon":170,"speed":null}"#,
    r#"{"device_id":"c","time":"2026-11-20T21:38:02Z","lat":0,"lon":2.5,"speed":31}"#,
];

#[test]
fn plain_records_are_read_without_the_parser() {
    let json = decoder("", |_| ());
    assert_eq!(compare(&json, &lines(&PLAIN)), 3);
    let spaced = PLAIN.map(|line| line.replace(':', " : ").replace(" : 38 : ", ":38:"));
    let spaced = spaced.map(|line| line.replace("T21 : 38", "T21:38"));
    assert_eq!(compare(&json, &lines(&spaced.each_ref().map(String::as_str))), 3);
    let whole = decoder("", |rules| rules.time_unit = TimeUnit::Seconds);
    let times =
        [r#"{"time":1795210680,"lat":1,"lon":2,"device":"x","ignition":true,"n":["\\n"]}"#; 3];
    assert_eq!(compare(&whole, &lines(&times)), 0, "an escape is the parser's");
    let times = [r#"{"time":1795210680,"lat":1,"lon":2,"device":"x","n":[{"a":[]},-0.5]}"#; 3];
    assert_eq!(compare(&whole, &lines(&times)), 3);
    let times = [r#"{"time":1795210680,"lat":1,"lon":2,"device":"x","ignition":true,"n":7}"#; 3];
    assert_eq!(compare(&whole, &lines(&times)), 3);
    let mapped = decoder("device_id=v,lat=/gps/lat", |_| ());
    let nested = [r#"{"v":"x","time":"2026-11-20T21:38:00Z","gps":{"lat":1},"lon":2}"#; 3];
    assert_eq!(compare(&mapped, &lines(&nested)), 3);
}

#[test]
fn device_and_driver_may_be_given() {
    let bare = [r#"{"time":5,"lat":1,"lon":2}"#, r#"{"time":6,"lat":1,"lon":2}"#];
    assert_eq!(compare(&decoder("device_id=@topic", |_| ()), &lines(&bare)), 2);
    for map in [
        "device_id=@topic",
        "device_id==van-1,driver=@topic",
        "device_id=@key/0",
        "device_id=@key",
        "device_id=@header:none",
        "device_id=@file",
        "device_id=@topic,driver=@key",
        "lat==5",
        "speed=@topic",
        "when=none",
        "when=@topic=samples",
        "valid=lat",
        "when=device_id=a",
        "when=!device_id=a",
        "when=lat=1.5",
        "when=time",
        "when=!none",
        "valid=none",
        "samples=none",
        "device_id=device_id|@topic",
        "device_id=@key/5|device_id",
        "device_id=@topic|device_id",
        "open=device_id",
        "open=none",
    ] {
        // What contains JSON is the parser's.
        let expected = if map.starts_with("open") { 0 } else { PLAIN.len() };
        assert_eq!(compare(&decoder(map, |_| ()), &lines(&PLAIN)), expected, "{map}");
    }
    // Names of one field in a list, of which a record has one.
    let texts = [
        r#"{"a":"x","ts":5,"lat":1,"lon":2}"#,
        r#"{"b":"y","ts":5,"lat":1,"lon":2}"#,
        r#"{"a":"x","b":"y","ts":5,"lat":1,"lon":2}"#,
        r#"{"b":"y","a":"x","ts":5,"lat":1,"lon":2}"#,
        r#"{"b":"y","a":null,"ts":5,"lat":1,"lon":2}"#,
        r#"{"b":"y","a":"","ts":5,"lat":1,"lon":2}"#,
        r#"{"b":"","a":"","ts":5,"lat":1,"lon":2}"#,
    ];
    assert_eq!(compare(&decoder("device_id=a|b", |_| ()), &lines(&texts)), texts.len());
}

#[test]
fn optional_names_may_be_missing() {
    let with = |member: &str| format!(r#"{{"device":"a","ts":5,"lat":1,"lon":2{member}}}"#);
    let members = [",\"driver\":\"D\"", "", ",\"speed\":1", ",\"speed\":1,\"driver\":\"D\"", ""];
    let texts: Vec<_> = members.iter().cycle().take(40).map(|member| with(member)).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    assert_eq!(compare(&decoder("", |_| ()), &lines(&texts)), texts.len());
}

#[test]
fn other_records_get_the_result_of_the_parser() {
    let mut texts = PLAIN.to_vec();
    let odd = [
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1.5,"lon":-2.5,"speed":-3}"#,
        r#"{"device_id":"","time":"2026-11-20T21:38:00Z","lat":1.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a\u0000","time":"2026-11-20T21:38:00Z","lat":1.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"ä","time":"2026-11-20T21:38:00Z","lat":1.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":7,"time":"2026-11-20T21:38:00Z","lat":1.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00+01:00","lat":1.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":91,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1e1,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":01,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1.,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":.5,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":-,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":"1","lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":null,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1,"lat":1,"lon":-2.5,"speed":3}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1,"lon":-2.5,"speed":3,"lng":4}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1,"lon":-2.5,"speed":3}}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1,"lon":-2.5,"speed":3,}"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z","lat":1,"lon":-2.5,"speed":3"#,
        r#"{"device_id":"a","time":"2026-11-20T21:38:00Z"}"#,
        r#","lat":1}"#,
        "{}",
        "",
    ];
    texts.extend(odd.iter().flat_map(|odd| [odd, PLAIN[0]]));
    let read = compare(&decoder("", |_| ()), &lines(&texts));
    // Of the others, those whose JSON is plain, whatever the values are.
    assert_eq!(read, PLAIN.len() + odd.len() + 10, "only the plain records");
}

#[test]
fn odd_values_get_the_result_of_the_parser() {
    let values = [
        r#"{"device":"a","ts":5,"lat":1,"lon":2,"speed":-1,"heading":-1,"accuracy":-1}"#,
        r#"{"device":"a","ts":5,"lat":1,"lon":2,"speed":-1.0,"heading":-1.000,"accuracy":-1e0}"#,
        r#"{"device":"a","ts":5,"lat":1,"lon":2,"speed":-1.1,"heading":1,"accuracy":1}"#,
        r#"{"device":"a","ts":5,"lat":1,"lon":2,"altitude":-1}"#,
        r#"{"device":"a","ts":5,"lat":"1","lon":2,"speed":"-1","ignition":"0"}"#,
        r#"{"device":"a","ts":5.5,"lat":1,"lon":2}"#,
        r#"{"device":"a","ts":5e3,"lat":1,"lon":2}"#,
        r#"{"device":"a","ts":"5.5","lat":1,"lon":2}"#,
        r#"{"device":"a","ts":"2026-11-20T21:38:00+0100","lat":1,"lon":2}"#,
        r#"{"device":"a","ts":"2026-11-20 21:38:00","lat":1,"lon":2}"#,
        r#"{"device":"a","ts":" 2026-11-20T21:38:00Z","lat":1,"lon":2}"#,
        r#"{"device":"a","ts":"20261120213800","lat":1,"lon":2}"#,
        r#"{"device":"a","ts":20261120213800,"lat":1,"lon":2}"#,
    ];
    let good = r#"{"device":"a","ts":5,"lat":1,"lon":2,"speed":1,"heading":1,"accuracy":1}"#;
    let texts: Vec<_> = values.iter().flat_map(|value| [good, value, value]).collect();
    for unit in [TimeUnit::Seconds, TimeUnit::Nanos] {
        for format in [None, Some("%Y%m%d%H%M%S")] {
            let json = decoder("", |rules| {
                rules.time_unit = unit;
                rules.time_zone = Some("Europe/Berlin".into());
                rules.zone_tables = Some(crate::source::ZONE_TABLES.into());
                rules.time_format = format.map(str::to_owned);
            });
            compare(&json, &lines(&texts));
        }
    }
    // An unknown value is plain.
    assert_eq!(compare(&decoder("", |_| ()), &lines(&[good, values[0], values[0]])), 3);
}

#[test]
fn the_rest_of_a_partly_read_number_is_not_a_suffix() {
    // An unknown name whose number exceeds every float; the value is skipped.
    let record =
        r#"{"device_id":"a","time":1795210680123,"lat":1,"lon":2,"n":1e9994,"driver":"z"}"#;
    let record = record.as_bytes().to_vec();
    compare(&decoder("", |_| ()), &[record.clone(), record.clone(), record]);
}

#[test]
fn two_names_of_one_field_get_the_result_of_the_parser() {
    // Each name is learnt from a record without the other.
    let texts = [
        r#"{"device":"a","ts":5,"lat":1,"lon":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lng":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"longitude":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"longitude":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lng":3,"lon":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lng":3,"longitude":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lng":null,"longitude":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lon":3,"lon":2}"#,
        r#"{"device":"a","ts":5,"lat":1,"lon":null,"lon":2}"#,
        r#"{"ts":5,"lat":1,"lon":2,"device":"a"}"#,
        r#"{"device":null,"ts":5,"lat":1,"lon":2,"device":"a"}"#,
    ];
    compare(&decoder("", |_| ()), &lines(&texts.repeat(3)));
}

/// Maps, each with a plain record.
const NESTED: [(&str, &str); 5] = [
    (
        "device_id=/d/id,lat=/p/lat,lon=/p/lon,time=/p/t,speed=/p/s/v|/p/w,driver=/d/x/y",
        r#"{"p":{"lat":1.5,"t":5,"lon":2,"s":{"v":3},"w":4},"d":{"x":{},"id":"a","x2":{"y":[]}},"n":null}"#,
    ),
    (
        "when=/p&!/e,valid=/p/ok,device_id=/d|@topic,lat=/p/c/1,lon=/p/c/0,time=/t",
        r#"{"t":"2026-11-20T21:38:00+0100","p":{"ok":true,"c":[1.5,2.5,3]},"d":"a","q":false}"#,
    ),
    (
        "when=/type=fix;old,device_id=/topic/{2}|/tid,lat=/lat,lon=/lon,time=/t",
        r#"{"type":"fix","tid":"x","lat":1,"lon":2,"t":5.25,"topic":"a/b/c"}"#,
    ),
    (
        "samples=/list|/,device_id=/id,lat=/a,lon=/b,time=/t",
        r#"{"id":77,"a":-1,"b":0.5,"t":-5,"other":{"id":"z","list":[]}}"#,
    ),
    ("device_id=/a/b,driver=/a/b,lat=/p/0,lon=/p/1,time=/t", r#"{"a":{"b":"c"},"p":[1,2],"t":7}"#),
];

#[test]
fn nested_values_and_conditions_are_read_without_the_parser() {
    for (map, record) in NESTED {
        assert_eq!(compare(&decoder(map, |_| ()), &lines(&[record; 4])), 4, "{record}");
    }
}

#[test]
fn names_that_occur_twice_get_the_result_of_the_parser() {
    let map = "device_id=/d/id,lat=/p/lat,lon=/p/lon,time=/t";
    // Each of them is learnt; together they name an object twice.
    let texts = [
        r#"{"t":5,"d":{"id":"a"},"p":{"lat":1,"lon":2}}"#,
        r#"{"t":5,"d":{"id":"a"},"p":{"lon":2,"lat":1}}"#,
        r#"{"t":5,"p":{"lat":1,"lon":2},"d":{"id":"a"}}"#,
        r#"{"t":5,"d":{"id":"a"},"p":{"lat":1,"lon":2},"d":{"id":"b"}}"#,
        r#"{"t":5,"d":{"id":"a"},"p":{"lat":1},"p":{"lon":2}}"#,
        r#"{"t":5,"d":{},"p":{"lat":1,"lon":2},"d":{"id":"b"}}"#,
        r#"{"t":5,"x":1,"x":1,"d":{"id":"a","x":2,"x":2},"p":{"lat":1,"lon":2}}"#,
    ];
    compare(&decoder(map, |_| ()), &lines(&texts.repeat(5)));
}

/// One edit of a line.
fn edited(line: &[u8], (at, kind, byte): (usize, u8, u8)) -> Vec<u8> {
    let mut line = line.to_vec();
    let at = at % line.len();
    match kind {
        0 => line[at] = byte,
        1 => line.insert(at, byte),
        2 => drop(line.remove(at)),
        3 => line.truncate(at),
        _ => {
            let copy = line[at..].to_vec();
            line.extend(copy);
        }
    }
    line
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<f64>().prop_map(|number| number.to_string()),
        (-180.0..180.0).prop_map(|number: f64| number.to_string()),
        (-180.0..180.0, 0..12_usize)
            .prop_map(|(number, places): (f64, _)| format!("{number:.places$}")),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("null".to_owned()),
    ]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let device = prop_oneof![4 => "[a-z]{1,12}", 1 => "\\PC{0,4}"];
    (device, any::<i32>(), number(), number(), prop::option::of(number()), 0..4_u8).prop_map(
        |(device, second, lat, lon, speed, form)| {
            let time = i64::from(second).unsigned_abs();
            let device = serde_json::to_string(&device).unwrap();
            let speed = speed.map_or(String::new(), |speed| format!(r#","speed":{speed}"#));
            let text = match form {
                0 => format!(r#"{{"device_id":{device},"time":{time},"lat":{lat},"lon":{lon}{speed}}}"#),
                1 => format!(r#"{{"lat": {lat}, "lon": {lon}, "ts": {time}, "device": {device}}}"#),
                2 => format!(r#"{{"x":{lat},"device":{device},"ts":"2026-11-20T21:38:00.5Z","lat":{lat},"lng":{lon}{speed} }}"#),
                _ => format!(r#"{{"device":{device},"ts":{time},"lat":{lat},"lon":{lon},"heading":{lat}}}"#),
            };
            text.into_bytes()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_plain_reader_never_changes_the_result(
        lines in prop::collection::vec((line(), prop::option::weighted(
            0.3, (any::<usize>(), 0..5_u8, prop_oneof![any::<u8>(), Just(b'"'), Just(b',')]),
        )), 1..30),
    ) {
        let lines: Vec<_> = lines
            .into_iter()
            .map(|(line, edit)| edit.map_or_else(|| line.clone(), |edit| edited(&line, edit)))
            .collect();
        compare(&decoder("", |_| ()), &lines);
    }

    #[test]
    fn the_plain_reader_of_nested_values_never_changes_the_result(
        at in 0..NESTED.len(),
        edits in prop::collection::vec(prop::option::weighted(
            0.7,
            (any::<usize>(), 0..5_u8, prop_oneof![
                any::<u8>(), prop::sample::select(&b"\"{}[],:0a/"[..]),
            ]),
        ), 1..30),
    ) {
        let (map, record) = NESTED[at];
        let line = |edit: Option<_>| {
            edit.map_or_else(|| record.into(), |edit| edited(record.as_bytes(), edit))
        };
        compare(&decoder(map, |_| ()), &edits.into_iter().map(line).collect::<Vec<_>>());
    }

    #[test]
    fn plain_bytes_end_at_the_first_special_byte(
        mut text in prop::collection::vec(0x20..0x7f_u8, 0..40), at in 0..40_usize, byte: u8,
    ) {
        if at < text.len() {
            text[at] = byte;
        }
        let special = |byte: &u8| *byte < 0x20 || *byte >= 0x80 || matches!(byte, b'"' | b'\\');
        prop_assert_eq!(plain_bytes(&text), text.iter().position(special).unwrap_or(text.len()));
    }

    #[test]
    fn numbers_equal_those_of_the_parser(text in prop_oneof![number(), "-?[0-9]{1,20}(\\.[0-9]{0,20})?"]) {
        let mut json = Plain::new(text.as_bytes());
        let number = match json.scalar() {
            Ok(Value::Float(number)) => Some(number),
            Ok(Value::Signed(number)) => Some(number as f64),
            Ok(Value::Unsigned(number)) => Some(number as f64),
            _ => None,
        };
        if let Some(number) = number.filter(|_| json.is_at_end()) {
            let parsed: f64 = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(number.to_bits(), parsed.to_bits(), "{}", text);
        }
    }
}
