use super::*;
use crate::source::parse_map;

/// 2026-11-20T21:38:00.123Z
const T: i64 = 1_795_210_680_123;

fn letter(key: Option<&str>, value: &str, reason: DeadReason, message: &str) -> DeadLetter {
    DeadLetter {
        partition: 2,
        offset: 7,
        element: None,
        reason,
        message: message.to_owned(),
        origin: "samples".into(),
        line: 0,
        log_time_ms: T,
        key: key.map(|key| key.as_bytes().into()),
        key_cut: None,
        headers_cut: None,
        headers: std::sync::Arc::default(),
        value: value.into(),
        value_bytes: value.len() as u64,
        sha256: None,
    }
}

fn fix(map: &str) -> DecodeOverrides {
    DecodeOverrides { fields: parse_map(map).unwrap(), ..DecodeOverrides::default() }
}

fn redecode(fix: &DecodeOverrides, letter: &DeadLetter) -> Outcome {
    Redecoder::new(Origin::Topic, &Rules::default(), fix, None).unwrap().redecode(letter)
}

fn good(key: &str, value: &str) -> Outcome {
    Outcome::Good { key: Some(key.into()), value: value.into() }
}

const GOOD: &str = r#"{"device_id":"a","time":1795210680000,"lat":1.5,"lon":2}"#;

#[test]
fn what_the_rules_take_now_goes_back_as_it_came() {
    let full = letter(Some("a"), GOOD, DeadReason::TripFull, "it is full");
    assert_eq!(redecode(&DecodeOverrides::default(), &full), good("a", GOOD));
    assert_eq!(redecode(&fix("time=when"), &full), good("a", GOOD), "a fix is for the others");
    let keyless = letter(None, GOOD, DeadReason::NoKey, "no key");
    assert_eq!(
        redecode(&DecodeOverrides::default(), &keyless),
        good("a", GOOD),
        "its body says whose it is"
    );
    let two = format!("[{GOOD}, 7]");
    let array = letter(None, &two, DeadReason::NoKey, "no key");
    assert_eq!(
        redecode(&DecodeOverrides::default(), &array),
        good("a", &two),
        "the bad one is found again"
    );
}

#[test]
fn a_control_record_never_comes_to_life_again() {
    for value in ["{}", r#"{"before":5}"#, GOOD] {
        let mut forget = letter(Some("a"), value, DeadReason::NotAuthorised, "not signed");
        forget.headers = vec![(CONTROL_HEADER.into(), Some(b"forget".to_vec()))].into();
        assert_eq!(
            redecode(&DecodeOverrides::default(), &forget),
            Outcome::Never(Unrecoverable::Control),
            "{value}"
        );
    }
}

#[test]
fn what_the_fix_makes_a_sample_of_goes_back_as_the_rules_say_it() {
    let restated = r#"{"device_id":"a","lat":1.5,"lon":2.0,"time":"2026-11-20T21:38:00.000Z"}"#;
    let value = GOOD.replace("time", "when");
    let other = letter(Some("a"), &value, DeadReason::MissingField, "time is absent");
    assert_eq!(redecode(&fix("time=when"), &other), good("a", restated));
    let keyless = letter(None, &value, DeadReason::NoKey, "no key");
    assert_eq!(redecode(&fix("time=when"), &keyless), good("a", restated));
    let array = letter(None, &format!("[{value}]"), DeadReason::NoKey, "no key");
    assert_eq!(redecode(&fix("time=when"), &array), good("a", &format!("[{restated}]")));

    let seconds = GOOD.replace("1795210680000", "1795210680");
    let early = letter(Some("a"), &seconds, DeadReason::TimeBeforeMin, "before --min-time");
    let in_seconds =
        DecodeOverrides { time_unit: Some(TimeUnit::Seconds), ..DecodeOverrides::default() };
    assert_eq!(redecode(&in_seconds, &early), good("a", restated));
}

#[test]
fn what_still_fails_says_why_by_the_try_that_got_further() {
    let value = r#"{"device_id":"a","when":"soon","lat":1.5,"lon":2}"#;
    let message = "time is absent: there is no `time`, no `ts`, no `timestamp`; map another name \
                   with --map time=NAME";
    let missing = letter(Some("a"), value, DeadReason::MissingField, message);
    assert_eq!(redecode(&DecodeOverrides::default(), &missing), Outcome::AsBefore);
    assert_eq!(redecode(&fix("time=at"), &missing), Outcome::AsBefore, "no further than before");
    let Outcome::Otherwise { reason, message } = redecode(&fix("time=when"), &missing) else {
        panic!("it is no time");
    };
    assert_eq!(reason, DeadReason::BadTime);
    assert!(message.contains("soon"), "{message}");

    let other = letter(Some("b"), GOOD, DeadReason::NoKey, "no key");
    let found = redecode(&DecodeOverrides::default(), &other);
    let reason = DeadReason::KeyMismatch;
    assert!(matches!(found, Outcome::Otherwise { reason: it, .. } if it == reason), "{found:?}");
}

#[test]
fn a_device_time_is_judged_by_the_time_that_the_record_gets() {
    let ahead = GOOD.replace("1795210680000", &(T + 90_000_000).to_string());
    let early = letter(Some("a"), &ahead, DeadReason::TimeInFuture, "ahead");
    let at = |now_ms| {
        let mut retry =
            Redecoder::new(Origin::Topic, &Rules::default(), &DecodeOverrides::default(), now_ms);
        retry.as_mut().unwrap().redecode(&early)
    };
    let found = at(None);
    let reason = DeadReason::TimeInFuture;
    assert!(matches!(found, Outcome::Otherwise { reason: it, .. } if it == reason), "{found:?}");
    assert_eq!(at(Some(T)), Outcome::AsBefore, "that the clock went on is no news");
    assert_eq!(at(Some(T + 90_000_000)), good("a", &ahead));
}

#[test]
fn what_is_not_whole_is_never_tried() {
    let mut long = letter(Some("a"), GOOD, DeadReason::Oversize, "too long");
    long.sha256 = Some([0; 32]);
    assert_eq!(redecode(&DecodeOverrides::default(), &long), Outcome::Never(Unrecoverable::Cut));

    let mut files =
        Redecoder::new(Origin::Files, &Rules::default(), &fix("time=when"), None).unwrap();
    let row = letter(None, "a,soon,1.5,2", DeadReason::BadTime, "time is no time");
    assert_eq!(files.redecode(&row), Outcome::Never(Unrecoverable::Row));
    let cut = letter(None, r#"{"device_id":"a","#, DeadReason::TruncatedInput, "it ends there");
    assert_eq!(files.redecode(&cut), Outcome::AsBefore, "the better reason stays");
    let value = GOOD.replace("time", "when");
    let fine = letter(None, &value, DeadReason::MissingField, "time is absent");
    assert!(matches!(files.redecode(&fine), Outcome::Good { key: None, .. }));
    let mut nested = letter(Some("a"), &format!("[{GOOD}]"), DeadReason::BadJson, "no object");
    nested.element = Some(0);
    assert_eq!(redecode(&DecodeOverrides::default(), &nested), Outcome::AsBefore);
}
