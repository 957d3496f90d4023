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
    let message = "time is absent: there is no `time`, no `ts`, no `timestamp`; map another name \
                   with --map time=NAME";
    let missing = letter(Some("a"), value, DeadReason::MissingField, message);
    assert_eq!(redecode(&DecodeOverrides::default(), &missing), Redecoded::Unchanged);
    assert_eq!(
        redecode(&with_map("time=at"), &missing),
        Redecoded::Unchanged,
        "no further than before"
    );
    let Redecoded::Changed { reason, message } = redecode(&with_map("time=when"), &missing) else {
        panic!("`soon` is not a valid time");
    };
    assert_eq!(reason, DeadReason::BadTime);
    assert!(message.contains("soon"), "{message}");

    let other = letter(Some("b"), GOOD, DeadReason::NoKey, "no key");
    let found = redecode(&DecodeOverrides::default(), &other);
    let reason = DeadReason::KeyMismatch;
    assert!(matches!(found, Redecoded::Changed { reason: it, .. } if it == reason), "{found:?}");
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
    let found = at(None);
    let reason = DeadReason::TimeInFuture;
    assert!(matches!(found, Redecoded::Changed { reason: it, .. } if it == reason), "{found:?}");
    assert_eq!(at(Some(T)), Redecoded::Unchanged, "a later clock alone changes nothing");
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
    assert_eq!(files.redecode(&cut), Redecoded::Unchanged, "the reason stays");
    let value = GOOD.replace("time", "when");
    let fine = letter(None, &value, DeadReason::MissingField, "time is absent");
    assert!(matches!(files.redecode(&fine), Redecoded::Usable { key: None, .. }));
    let mut nested = letter(Some("a"), &format!("[{GOOD}]"), DeadReason::BadJson, "no object");
    nested.element = Some(0);
    assert_eq!(redecode(&DecodeOverrides::default(), &nested), Redecoded::Unchanged);
}
