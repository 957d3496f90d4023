use super::*;
use crate::model::scalar::Offset;
use crate::source::parse_map;

/// 2026-11-20T21:38:00.123Z
const T: i64 = 1_795_210_680_123;

fn letter(key: Option<&str>, value: &str, reason: DeadReason, message: &str) -> DeadLetter {
    DeadLetter {
        partition: 2,
        offset: Offset(7),
        element: None,
        count: 1,
        reason,
        message: message.to_owned(),
        origin: "samples".into(),
        line: 0,
        log_time_ms: LogTime(T),
        key: key.map(|key| key.as_bytes().into()),
        key_cut: None,
        headers_cut: None,
        headers: std::sync::Arc::default(),
        value: value.into(),
        value_bytes: value.len() as u64,
        sha256: None,
    }
}

fn with_map(map: &str) -> DecodeOverrides {
    DecodeOverrides { fields: parse_map(map).unwrap(), ..DecodeOverrides::default() }
}

fn redecode(overrides: &DecodeOverrides, letter: &DeadLetter) -> Redecoded {
    Redecoder::new(LogKind::Topic, &Rules::default(), overrides, None).unwrap().redecode(letter)
}

fn good(key: &str, value: &str) -> Redecoded {
    Redecoded::Usable { key: Some(key.into()), value: value.into() }
}

const GOOD: &str = r#"{"device_id":"a","time":1795210680000,"lat":1.5,"lon":2}"#;

#[test]
fn a_letter_that_the_rules_accept_is_replayed_unchanged() {
    let full = letter(Some("a"), GOOD, DeadReason::TripFull, "it is full");
    assert_eq!(redecode(&DecodeOverrides::default(), &full), good("a", GOOD));
    assert_eq!(
        redecode(&with_map("time=when"), &full),
        good("a", GOOD),
        "the rules accept it without overrides"
    );
    let keyless = letter(None, GOOD, DeadReason::NoKey, "no key");
    assert_eq!(
        redecode(&DecodeOverrides::default(), &keyless),
        good("a", GOOD),
        "the value names the device"
    );
    let two = format!("[{GOOD}, 7]");
    let array = letter(None, &two, DeadReason::NoKey, "no key");
    assert_eq!(
        redecode(&DecodeOverrides::default(), &array),
        good("a", &two),
        "the bad element fails again when it is read"
    );
}

#[test]
fn a_control_record_is_never_replayed() {
    for value in ["{}", r#"{"before":5}"#, GOOD] {
        let mut forget = letter(Some("a"), value, DeadReason::NotAuthorised, "not signed");
        forget.headers = vec![(CONTROL_HEADER.into(), Some(b"forget".to_vec()))].into();
        assert_eq!(
            redecode(&DecodeOverrides::default(), &forget),
            Redecoded::Never(Unrecoverable::Control),
            "{value}"
        );
    }
}

#[test]
fn a_letter_that_overrides_decode_is_reencoded_by_the_rules() {
    let reencoded = r#"{"device_id":"a","lat":1.5,"lon":2.0,"time":"2026-11-20T21:38:00.000Z"}"#;
    let value = GOOD.replace("time", "when");
    let other = letter(Some("a"), &value, DeadReason::MissingField, "time is absent");
    assert_eq!(redecode(&with_map("time=when"), &other), good("a", reencoded));
    let keyless = letter(None, &value, DeadReason::NoKey, "no key");
    assert_eq!(redecode(&with_map("time=when"), &keyless), good("a", reencoded));
    let array = letter(None, &format!("[{value}]"), DeadReason::NoKey, "no key");
    assert_eq!(redecode(&with_map("time=when"), &array), good("a", &format!("[{reencoded}]")));

    let seconds = GOOD.replace("1795210680000", "1795210680");
    let early = letter(Some("a"), &seconds, DeadReason::TimeBeforeMin, "before --min-time");
    let in_seconds =
        DecodeOverrides { time_unit: Some(TimeUnit::Seconds), ..DecodeOverrides::default() };
    assert_eq!(redecode(&in_seconds, &early), good("a", reencoded));
}

#[test]
fn a_failure_reports_the_error_of_the_attempt_that_got_further() {
    let value = r#"{"device_id":"a","when":"soon","lat":1.5,"lon":2}"#;
    let missing = letter(Some("a"), value, DeadReason::MissingField, "time is absent");
    let failing = Redecoded::Failing;
    let found = ["time=at", "time=when"].map(|map| redecode(&with_map(map), &missing));
    let reasons = [DeadReason::MissingField, DeadReason::BadTime];
    assert_eq!(found, reasons.map(failing));
    assert_eq!(redecode(&DecodeOverrides::default(), &missing), failing(DeadReason::MissingField));

    let other = letter(Some("b"), GOOD, DeadReason::NoKey, "no key");
    let found = redecode(&DecodeOverrides::default(), &other);
    assert_eq!(found, failing(DeadReason::KeyMismatch));
}

#[test]
fn a_device_time_is_checked_against_the_timestamp_of_the_record() {
    let ahead = GOOD.replace("1795210680000", &(T + 90_000_000).to_string());
    let early = letter(Some("a"), &ahead, DeadReason::TimeInFuture, "ahead");
    let at = |now_ms| {
        let mut redecoder =
            Redecoder::new(LogKind::Topic, &Rules::default(), &DecodeOverrides::default(), now_ms);
        redecoder.as_mut().unwrap().redecode(&early)
    };
    assert_eq!(at(None), Redecoded::Failing(DeadReason::TimeInFuture));
    assert_eq!(at(Some(T + 90_000_000)), good("a", &ahead));
}

#[test]
fn cut_letters_and_csv_rows_are_never_replayed() {
    let mut long = letter(Some("a"), GOOD, DeadReason::Oversize, "too long");
    long.sha256 = Some([0; 32]);
    assert_eq!(redecode(&DecodeOverrides::default(), &long), Redecoded::Never(Unrecoverable::Cut));

    let mut files =
        Redecoder::new(LogKind::Files, &Rules::default(), &with_map("time=when"), None).unwrap();
    let row = letter(None, "a,soon,1.5,2", DeadReason::BadTime, "`soon` is not a valid time");
    assert_eq!(files.redecode(&row), Redecoded::Never(Unrecoverable::Row));
    let cut = letter(None, r#"{"device_id":"a","#, DeadReason::TruncatedInput, "it ends there");
    let truncated = Redecoded::Failing(DeadReason::TruncatedInput);
    assert_eq!(files.redecode(&cut), truncated, "the reason stays");
    let value = GOOD.replace("time", "when");
    let fine = letter(None, &value, DeadReason::MissingField, "time is absent");
    assert!(matches!(files.redecode(&fine), Redecoded::Usable { key: None, .. }));
    let mut nested = letter(Some("a"), &format!("[{GOOD}]"), DeadReason::BadJson, "no object");
    nested.element = Some(0);
    let found = redecode(&DecodeOverrides::default(), &nested);
    assert_eq!(found, Redecoded::Failing(DeadReason::BadJson));
}

/// The rules of a store with a field map, whose records have keys of any kind.
fn rules(map: &str) -> Rules {
    let fields = parse_map(map).unwrap();
    Rules { fields, key: "any".into(), ..Rules::default() }
}

fn by_rules(map: &str, letter: &DeadLetter) -> Redecoded {
    let overrides = DecodeOverrides::default();
    Redecoder::new(LogKind::Topic, &rules(map), &overrides, None).unwrap().redecode(letter)
}

#[test]
fn what_is_around_a_record_is_read_from_its_letter() {
    let value = r#"{"time":1795210680000,"lat":1.5,"lon":2}"#;
    let mut full = letter(Some("owntracks/fleet/van-1"), value, DeadReason::TripFull, "it is full");
    full.headers = vec![("X-Limit-D".to_owned(), Some(b"phone".to_vec()))].into();
    for (source, device) in
        [("@key/2", "van-1"), ("@header:x-limit-d", "phone"), ("@topic", "samples")]
    {
        let map = format!("device_id={source}");
        assert_eq!(by_rules(&map, &full), good("owntracks/fleet/van-1", value), "{source}");
        let overrides = DecodeOverrides::default();
        let mut redecoder = Redecoder::new(LogKind::Topic, &rules(&map), &overrides, None).unwrap();
        assert_eq!(redecoder.device_of(&full).unwrap().as_str(), device);
    }
    let found = by_rules("device_id=@header:other", &full);
    assert_eq!(found, Redecoded::Failing(DeadReason::MissingField));
    // Its file names the device of a line.
    full.origin = "days/van-7.ndjson".into();
    (full.line, full.key) = (3, None);
    let (map, overrides) = (rules("device_id=@file"), DecodeOverrides::default());
    let mut files = Redecoder::new(LogKind::Files, &map, &overrides, None).unwrap();
    assert_eq!(files.device_of(&full).unwrap().as_str(), "van-7");
    let found = files.redecode(&full);
    assert_eq!(found, Redecoded::Usable { key: None, value: value.into() });
}

#[test]
fn a_letter_of_several_samples_is_replayed_once_all_are_usable() {
    let map = "samples=/s,device_id=/d";
    let record = |lats: &[&str]| {
        let sample = |lat: &&str| format!(r#"{{"time":1795210680000,"lat":{lat},"lon":2}}"#);
        let samples: Vec<_> = lats.iter().map(sample).collect();
        format!(r#"{{"d":"a","s":[{}]}}"#, samples.join(","))
    };
    let full = |value: &str| letter(Some("k"), value, DeadReason::TripFull, "it is full");
    let value = record(&["1", "2"]);
    assert_eq!(by_rules(map, &full(&value)), good("k", &value));
    let found = by_rules(map, &full(&record(&["1", "95"])));
    assert_eq!(found, Redecoded::Failing(DeadReason::OutOfRange));
    // Overrides may find several samples, but cannot write them for such a map.
    let list = redecode(&with_map(map), &letter(Some("a"), &value, DeadReason::BadJson, "odd"));
    let Redecoded::Usable { value: list, .. } = list else { panic!("{list:?}") };
    assert_eq!(serde_json::from_slice::<Vec<serde_json::Value>>(&list).unwrap().len(), 2);
    let (rules, overrides) = (rules(&format!("{map},lat=/y")), with_map("lat=/lat"));
    let mut redecoder = Redecoder::new(LogKind::Topic, &rules, &overrides, None).unwrap();
    let found = redecoder.redecode(&full(&value));
    assert_eq!(found, Redecoded::Failing(DeadReason::TripFull));
}

#[test]
fn a_list_on_a_line_is_replayed() {
    let list = format!("[{GOOD}]");
    let letter = letter(None, &list, DeadReason::BadJson, "odd");
    let (rules, overrides) = (Rules::default(), DecodeOverrides::default());
    let mut redecoder = Redecoder::new(LogKind::Files, &rules, &overrides, None).unwrap();
    let expected = Redecoded::Usable { key: None, value: list.into() };
    assert_eq!(redecoder.redecode(&letter), expected);
}
