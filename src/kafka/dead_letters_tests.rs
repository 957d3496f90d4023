use std::collections::BTreeSet;

use super::*;

fn header(name: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), Some(value.as_bytes().to_vec()))
}

/// A letter whose sample came with headers that only letters and fates should have.
fn tricky() -> DeadLetter {
    DeadLetter {
        partition: 3,
        offset: 71,
        element: Some(2),
        reason: DeadReason::BadTime,
        message: "time is no time".into(),
        origin: "samples".into(),
        line: 0,
        log_time_ms: 1_795_210_680_123,
        key: Some(b"truck-17"[..].into()),
        key_cut: None,
        headers_cut: None,
        headers: Arc::new(vec![
            header(FATE, "replayed"),
            header(FATE_OF, "0:0"),
            header(letter_limit::TOPIC, "another"),
            header(letter_limit::CONNECTOR, "tstar"),
            ("empty".into(), None),
            header(ORIGIN, "samples:1:1"),
        ]),
        value: b"{}".to_vec(),
        value_bytes: 2,
        sha256: None,
    }
}

fn read(out: &ProducerRecord) -> DlqRecordKind {
    found(&Record {
        offset: 5,
        log_time_ms: out.timestamp_ms.unwrap_or(0),
        key: out.key.as_deref(),
        value: Some(&out.value),
        headers: out.headers.clone(),
        ..Record::default()
    })
}

#[test]
fn a_letter_is_read_back_as_it_was_written() {
    let whole = tricky();
    let cut = DeadLetter { value_bytes: 5_000_000, sha256: Some([7; 32]), ..tricky() };
    let bare = DeadLetter { element: None, key: None, headers: Arc::default(), ..tricky() };
    let key_cut = Some(Cut { bytes: 600_000, sha256: [8; 32] });
    let headers_cut = Some(Cut { bytes: 400_000, sha256: [9; 32] });
    let all_cut = DeadLetter { key_cut, headers_cut, ..cut.clone() };
    assert!(!whole.is_cut() && cut.is_cut() && all_cut.is_cut());
    for letter in [whole, cut, all_cut, bare] {
        let read = read(&letter_limit::whole("samples", &letter));
        assert_eq!(read, DlqRecordKind::Letter(Box::new(letter)));
    }
}

#[test]
fn a_fate_names_its_letter_and_what_is_neither_is_foreign() {
    let topic = LetterTopic {
        brokers: Brokers::new("b:1", BTreeMap::new()).unwrap(),
        input: "samples".into(),
        name: "samples.dlq".into(),
        extents: vec![],
    };
    let fate = topic.fate(3, 71, Fate::Replayed);
    assert_eq!((fate.topic.as_str(), fate.partition), ("samples.dlq", Some(3)));
    assert_eq!(read(&fate.record), DlqRecordKind::FateOf(71));
    let foreign = |headers| read(&ProducerRecord { headers, ..ProducerRecord::default() });
    assert_eq!(foreign(vec![]), DlqRecordKind::Foreign);
    assert_eq!(
        foreign(vec![header(FATE, "replayed"), header(FATE_OF, "71")]),
        DlqRecordKind::Foreign
    );
    let mut connect = letter_limit::whole("samples", &tricky()).headers;
    for (name, value) in &mut connect {
        if name == letter_limit::CONNECTOR {
            *value = Some(b"sink".to_vec());
        }
    }
    assert_eq!(foreign(connect), DlqRecordKind::Foreign, "of another connector");
}

#[test]
fn a_record_that_goes_back_names_where_it_stood() {
    let letter = tricky();
    let value = (letter.key.as_deref().map(<[u8]>::to_vec), b"[]".to_vec());
    let placed = replay_record("samples", &letter, value, 7, None);
    let origins: Vec<_> = placed.record.headers.iter().filter(|(it, _)| it == ORIGIN).collect();
    assert_eq!(origins, [&header(ORIGIN, "samples:3:71:2")]);
    assert_eq!(placed.record.headers.len(), letter.headers.len() + 1);
    let mut control = letter.clone();
    let of_control = [header(CONTROL_HEADER, "forget"), header(SIGNATURE_HEADER, "a:0")];
    Arc::make_mut(&mut control.headers).extend(of_control);
    let value = (letter.key.as_deref().map(<[u8]>::to_vec), b"[]".to_vec());
    assert_eq!(replay_record("samples", &control, value, 7, None), placed, "no order goes back");
    // Where it comes again, it has those headers; what became of it is known by them.
    let again = DeadLetter { headers: placed.record.headers.into(), ..letter.clone() };
    let other = DeadLetter { reason: DeadReason::TripFull, ..again.clone() };
    assert_eq!([&letter, &again, &other].map(came_again), [false, true, false]);
    let back_again = replay_record("samples", &other, (None, Vec::new()), 7, None).record.headers;
    assert_eq!(back_again.len(), again.headers.len(), "the last place and reason alone");
    let other = DeadLetter { headers: back_again.into(), ..other };
    assert!(came_again(&other));
    assert_eq!((placed.record.timestamp_ms, placed.record.value), (Some(7), b"[]".to_vec()));
}

#[test]
fn fates_are_kept_by_place() {
    let mut fates = Fates::default();
    let noted: BTreeSet<(i32, i64)> =
        (0..5000).map(|n| ((n % 3) as i32, n * n * 7 % 100_003)).collect();
    noted.iter().for_each(|(partition, offset)| fates.record_offset(*partition, *offset));
    for place in (0..3).flat_map(|partition| (0..100_100).map(move |offset| (partition, offset))) {
        assert_eq!(fates.has(place.0, place.1), noted.contains(&place), "{place:?}");
    }
}
