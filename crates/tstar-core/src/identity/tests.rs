use std::collections::HashSet;

use super::*;
use proptest::prelude::*;

const TIME: DeviceTime = DeviceTime(1_795_210_680_123);
const YEAR_0: DeviceTime = DeviceTime(-62_167_219_200_000);
const YEAR_9999_END: DeviceTime = DeviceTime(253_402_300_799_999);

fn id(device_id: &str, t_star_ms: DeviceTime) -> TripId {
    TripId::new(device_id, t_star_ms).unwrap()
}

#[test]
fn test_vectors_of_the_contract() {
    let truck = id("truck-17", TIME);
    assert_eq!(truck.text().unwrap(), "truck-17~20261120T213800.123Z");
    assert_eq!(truck.key_text(), "ehp7aorb5koje040000q3un52stg");
    assert_eq!(truck.uuid().unwrap().to_string(), "01a1fae5-173b-8152-8ed4-88d4aacc8ddd");
    assert_eq!(id("a~b", TIME).text().unwrap(), "a~7eb~20261120T213800.123Z");
    assert_eq!(id("..", TIME).text().unwrap(), "~2e~2e~20261120T213800.123Z");
    for text in ["truck-17~20261120T213800.123Z", "ehp7aorb5koje040000q3un52stg"] {
        assert_eq!(AnyId::parse(text), Ok(AnyId::Trip(truck.clone())));
    }
    let Ok(AnyId::Uuid(uuid)) = AnyId::parse("01a1fae5-173b-8152-8ed4-88d4aacc8ddd") else {
        panic!("the vector is a UUID");
    };
    assert_eq!(uuid.t_star_ms, TIME);
    assert!(uuid.matches("truck-17", TIME));
    assert!(!uuid.matches("truck-17", TIME + 1));
    assert!(!uuid.matches("truck-18", TIME));
    assert_eq!((uuid.shard(), shard("truck-17")), (2, 2));
}

#[test]
fn what_is_not_an_id_is_refused_as_what_it_looks_like() {
    for (given, expected) in [
        (
            "truck-17",
            "\"truck-17\" is not a trip id: it has no `~`; a trip id looks like truck-17~",
        ),
        ("a~b", "\"a~b\" is not a trip id: the part after the last `~` is not a time"),
        ("4711", "\"4711\" is not a trip id: it has no `~`"),
        ("c5q6qpr95prn4000", "\"c5q6qpr95prn4000\" is not a trip id: it has no 00 byte"),
        ("01a1fae5-173b", "\"01a1fae5-173b\" is not the UUID form of a trip id: it is not a UUID"),
        ("01A1FAE5-173B-8152-8ED4-88D4AACC8DDD", "it is not written in lower case with hyphens"),
        ("{01a1fae5-173b-8152-8ed4-88d4aacc8ddd}", "it is not written in lower case with hyphens"),
        ("01a1fae5-173b-4152-8ed4-88d4aacc8ddd", "its version is not 8"),
    ] {
        let error = AnyId::parse(given).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn range_of_each_form() {
    assert_eq!(id("a", YEAR_0).text().unwrap(), "a~00000101T000000.000Z");
    assert_eq!(id("a", YEAR_9999_END).text().unwrap(), "a~99991231T235959.999Z");
    for t_star_ms in [YEAR_0 - 1, YEAR_9999_END + 1, DeviceTime::MIN, DeviceTime::MAX] {
        assert_eq!(id("a", t_star_ms).text(), Err(IdError::NoText { t_star_ms }));
    }
    assert!(
        id("a", DeviceTime(0)).uuid().is_ok() && id("a", DeviceTime((1 << 48) - 1)).uuid().is_ok()
    );
    for t_star_ms in [-1, 1 << 48, i64::MIN, i64::MAX].map(DeviceTime) {
        assert_eq!(id("a", t_star_ms).uuid(), Err(IdError::NoUuid { t_star_ms }));
    }
}

#[test]
fn device_ids() {
    for good in ["a", ".", "é", &"x".repeat(256)] {
        assert_eq!(check_device_id(good), Ok(()));
        assert_eq!(DeviceId::new(good).map(DeviceId::into_string), Ok(good.to_owned()));
    }
    for bad in ["", "\0", "a\0b", &"x".repeat(257), &"é".repeat(129)] {
        let error = TripId::new(bad, DeviceTime(0)).unwrap_err().to_string();
        assert!(error.contains("1 to 256 bytes"), "{error}");
        assert!(error.len() < 250, "{error}");
    }
}

#[test]
fn a_device_id_is_compared_found_and_printed_as_its_text() {
    let text = "van \"1\"";
    let device_id = DeviceId::new(text).unwrap();
    assert!(device_id == text && device_id != "van 1");
    assert!(device_id == *text && device_id != *"van 1");
    assert_eq!(AsRef::<str>::as_ref(&device_id), text);
    assert_eq!(format!("{device_id}, {device_id:?}"), "van \"1\", \"van \\\"1\\\"\"");
    let known = HashSet::from([device_id]);
    assert!(known.contains(text) && !known.contains("van 1"));
}

#[test]
fn refuses_every_other_spelling() {
    for wrong in [
        "",
        "~",
        "truck-17",
        "truck-17~",
        "truck-17~20261120T213800.123",
        "truck-17~20261120T213800.123z",
        "truck-17~20261120t213800.123Z",
        "truck-17~20261120T213800,123Z",
        "truck-17~20261120T213800Z",
        "truck-17~2026-11-20T21:38:00.123Z",
        "truck-17~20261320T213800.123Z",
        "truck-17~20260020T213800.123Z",
        "truck-17~20261131T213800.123Z",
        "truck-17~20260229T213800.123Z",
        "truck-17~20261120T243800.123Z",
        "truck-17~20261120T216000.123Z",
        "truck-17~20261120T213860.123Z",
        "truck-17~20261120T213800.123Z ",
        " truck-17~20261120T213800.123Z",
        "truck-17~+0261120T213800.123Z",
        "truck-17~20261120T213800.1234Z",
        "~20261120T213800.123Z",
        "a~7Eb~20261120T213800.123Z",
        "a~61~20261120T213800.123Z",
        "a b~20261120T213800.123Z",
        "é~20261120T213800.123Z",
        "a~7~20261120T213800.123Z",
        "a~zz~20261120T213800.123Z",
        "a~ff~20261120T213800.123Z",
        "a~00~20261120T213800.123Z",
        "..~20261120T213800.123Z",
        "~2e.~20261120T213800.123Z",
        "a~2e~20261120T213800.123Z",
        "EHP7AORB5KOJE040000Q3UN52STG",
        "ehp7aorb5koje040000q3un52stg=",
        "ehp7aorb5koje040000q3un52stg0",
        "ehp7aorb5koje040000q3un52st",
        "ehp7aorb5koje040000q3un52sth",
        "01A1FAE5-173B-8152-8ED4-88D4AACC8DDD",
        "01a1fae5173b81528ed488d4aacc8ddd",
        "{01a1fae5-173b-8152-8ed4-88d4aacc8ddd}",
        "urn:uuid:01a1fae5-173b-8152-8ed4-88d4aacc8ddd",
        "01a1fae5-173b-7152-8ed4-88d4aacc8ddd",
        "01a1fae5-173b-8152-ced4-88d4aacc8ddd",
        "01a1fae5-173b-8152-0ed4-88d4aacc8ddd",
        "01a1fae5-173b-8152-8ed4-88d4aacc8dd",
    ] {
        let error = AnyId::parse(wrong).expect_err(wrong).to_string();
        assert!(error.contains("looks like"), "{error}");
        assert!(error.contains(&format!("{wrong:?}")), "{error}");
    }
}

#[test]
fn prefixes_of_a_date() {
    for (date, text) in [
        ("2026", "truck-17~2026"),
        ("2026-11", "truck-17~202611"),
        ("202611", "truck-17~202611"),
        ("2026-11-20", "truck-17~20261120"),
        ("20261120", "truck-17~20261120"),
        ("2026-11-20T21", "truck-17~20261120T21"),
        ("20261120T21", "truck-17~20261120T21"),
    ] {
        assert_eq!(prefix("truck-17", date).unwrap(), text);
        let (from_ms, upto_ms) = date_range(date).unwrap();
        assert_eq!(
            prefix_range(text).unwrap(),
            (DeviceId::from_store("truck-17"), from_ms, upto_ms)
        );
    }
    assert_eq!(prefix("..", "2026").unwrap(), "~2e~2e~2026");
    assert_eq!(prefix_range("a~7eb~2026").unwrap().0, "a~b");
    assert_eq!(date_range("1970").unwrap(), (DeviceTime(0), DeviceTime(365 * 86_400_000 - 1)));
    assert_eq!(date_range("1969-12").unwrap(), (DeviceTime(-31 * 86_400_000), DeviceTime(-1)));
    assert_eq!(date_range("19700101T00").unwrap(), (DeviceTime(0), DeviceTime(3_599_999)));
    assert_eq!(date_range("0000").unwrap().0, YEAR_0);
    assert_eq!(date_range("9999-12-31T23").unwrap().1, YEAR_9999_END);
}

#[test]
fn refuses_other_dates_and_prefixes() {
    for wrong in [
        "",
        "202",
        "20261",
        "2026-1",
        "2026-1120",
        "202611-20",
        "2026-13",
        "2026-00",
        "2026-02-29",
        "2026-11-20T24",
        "2026-11-20T2",
        "2026-11-20T21:38",
        "2026-11-20t21",
        "+026",
        "2026 ",
        "2026-11-20 21",
        "é026",
    ] {
        assert!(date_range(wrong).unwrap_err().to_string().contains("2026-11-20T21"), "{wrong}");
        assert!(prefix("a", wrong).is_err(), "{wrong}");
        assert!(prefix_range(&format!("a~{wrong}")).is_err(), "{wrong}");
    }
    for wrong in ["2026", "~2026", "a~2026-11", "a~61~2026", "a b~2026", "a~7E~2026", "..~2026"] {
        assert!(prefix_range(wrong).is_err(), "{wrong}");
    }
    assert!(prefix("", "2026").is_err());
}

/// Device ids of every kind: plain, dots, escapes, several scripts.
fn device_id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zA-Z0-9._-]{1,20}", "[.~]{1,5}", "[^\\x00]{1,40}", "[a~é \u{1}]{1,10}"]
}

fn in_text() -> impl Strategy<Value = DeviceTime> {
    (YEAR_0.ms()..=YEAR_9999_END.ms()).prop_map(DeviceTime)
}

fn any_time() -> impl Strategy<Value = DeviceTime> {
    any::<i64>().prop_map(DeviceTime)
}

proptest! {
    #[test]
    fn text_round_trips(device_id in device_id(), t_star_ms in in_text()) {
        let trip = id(&device_id, t_star_ms);
        let text = trip.text().unwrap();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(AnyId::parse(&text), Ok(AnyId::Trip(trip)));
    }

    #[test]
    fn key_round_trips(device_id in device_id(), t_star_ms in any_time()) {
        let trip = id(&device_id, t_star_ms);
        prop_assert_eq!(&TripId::parse_key(&trip.key()).unwrap(), &trip);
        prop_assert_eq!(AnyId::parse(&trip.key_text()), Ok(AnyId::Trip(trip)));
    }

    #[test]
    fn uuid_round_trips(
        device_id in device_id(), t_star_ms in (0..1_i64 << 48).prop_map(DeviceTime)
    ) {
        let uuid = id(&device_id, t_star_ms).uuid().unwrap();
        let parsed = UuidId::parse(&uuid.to_string()).unwrap();
        prop_assert_eq!(parsed.uuid(), uuid);
        prop_assert_eq!(parsed.to_string(), uuid.to_string());
        prop_assert_eq!(parsed.t_star_ms, t_star_ms);
        prop_assert_eq!(parsed.shard(), shard(&device_id));
        prop_assert!(parsed.matches(&device_id, t_star_ms));
        let other = device_id + "x";
        prop_assert!(!parsed.matches(&other, t_star_ms));
    }

    #[test]
    fn time_order_is_byte_order(
        device_id in device_id(), a in in_text(), b in in_text(), c in any_time(), d in any_time()
    ) {
        let (first, second) = (id(&device_id, a), id(&device_id, b));
        prop_assert_eq!(first.text().unwrap().cmp(&second.text().unwrap()), a.cmp(&b));
        let (first, second) = (id(&device_id, c), id(&device_id, d));
        prop_assert_eq!(first.key().cmp(&second.key()), c.cmp(&d));
        prop_assert_eq!(first.key_text().cmp(&second.key_text()), c.cmp(&d));
    }

    #[test]
    fn keys_order_devices_by_bytes(
        a in device_id(), b in device_id(), c in any_time(), d in any_time()
    ) {
        let order = (a.as_bytes(), c).cmp(&(b.as_bytes(), d));
        prop_assert_eq!(id(&a, c).key().cmp(&id(&b, d).key()), order);
        prop_assert_eq!(id(&a, c).key_text().cmp(&id(&b, d).key_text()), order);
    }

    /// A parser accepts only the canonical spelling.
    #[test]
    fn one_changed_character_is_refused_or_canonical(
        device_id in device_id(),
        t_star_ms in (0..1_i64 << 47).prop_map(DeviceTime),
        form in 0..3,
        at: prop::sample::Index,
        to in "[ -~é]"
    ) {
        let trip = id(&device_id, t_star_ms);
        let text = match form {
            0 => trip.text().unwrap(),
            1 => trip.key_text(),
            _ => trip.uuid().unwrap().to_string(),
        };
        let at = at.index(text.len());
        let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
        match AnyId::parse(&changed) {
            Err(_) => {}
            Ok(AnyId::Trip(trip)) if changed.contains('~') => {
                prop_assert_eq!(trip.text().unwrap(), changed);
            }
            Ok(AnyId::Trip(trip)) => prop_assert_eq!(trip.key_text(), changed),
            Ok(AnyId::Uuid(uuid)) => prop_assert_eq!(uuid.to_string(), changed),
        }
    }

    #[test]
    fn any_text_is_refused_or_canonical(text in "[a-v0-9~T.Z-]{0,40}|\\PC{0,30}") {
        if let Ok(AnyId::Trip(trip)) = AnyId::parse(&text) {
            prop_assert!(trip.key_text() == text || trip.text() == Ok(text));
        }
    }

    /// A trip id starts with the prefixes of its own time only.
    #[test]
    fn a_prefix_selects_its_time(
        t_star_ms in in_text(),
        len in prop::sample::select(vec![4, 6, 8, 11]),
    ) {
        let text = id("a~b", t_star_ms).text().unwrap();
        let (_, time) = text.rsplit_once('~').unwrap();
        let date = &time[..len];
        let start = prefix("a~b", date).unwrap();
        prop_assert!(text.starts_with(&start));
        let (device_id, from_ms, upto_ms) = prefix_range(&start).unwrap();
        prop_assert_eq!(device_id, "a~b");
        prop_assert!((from_ms..=upto_ms).contains(&t_star_ms));
        for outside in [from_ms - 1, upto_ms + 1] {
            if let Ok(text) = id("a~b", outside).text() {
                prop_assert!(!text.starts_with(&start));
            }
        }
    }
}
