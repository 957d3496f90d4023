use std::collections::BTreeSet;

use super::*;
use crate::kafka::letter_fixture::letter_with_headers;

fn header(name: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), Some(value.as_bytes().to_vec()))
}

/// A letter whose sample had headers that normally only letters and fates have.
fn letter_with_header_clash() -> DeadLetter {
    letter_with_headers(vec![
        header(FATE, "replayed"),
        header(FATE_OF, "0:0"),
        header(letter_record::TOPIC, "another"),
        header(letter_record::CONNECTOR, "tstar"),
        ("empty".into(), None),
        header(ORIGIN, "samples:1:1"),
    ])
}

fn read(out: &ProducerRecord) -> DlqRecord {
    classify(&Record {
        offset: Offset(5),
        log_time_ms: LogTime(out.timestamp_ms.unwrap_or(0)),
        key: out.key.as_deref(),
        value: Some(&out.value),
        headers: out.headers.clone(),
        ..Record::default()
    })
}

#[test]
fn a_letter_is_read_back_as_it_was_written() {
    let whole = letter_with_header_clash();
    let cut =
        DeadLetter { value_bytes: 5_000_000, sha256: Some([7; 32]), ..letter_with_header_clash() };
    let bare = DeadLetter {
        element: None,
        key: None,
        headers: Arc::default(),
        ..letter_with_header_clash()
    };
    let key_cut = Some(Cut { bytes: 600_000, sha256: [8; 32] });
    let headers_cut = Some(Cut { bytes: 400_000, sha256: [9; 32] });
    let all_cut = DeadLetter { key_cut, headers_cut, ..cut.clone() };
    assert!(!whole.is_cut() && cut.is_cut() && all_cut.is_cut());
    for letter in [whole, cut, all_cut, bare] {
        let read = read(&letter_record::full_record("samples", &letter));
        assert_eq!(read, DlqRecord::Letter(Box::new(letter)));
    }
}

#[test]
fn a_fate_names_its_letter_and_other_records_are_foreign() {
    let fate = Fate::Replayed.record(3, Offset(71));
    assert_eq!(read(&fate), DlqRecord::FateOf(71));
    let foreign = |headers| read(&ProducerRecord { headers, ..ProducerRecord::default() });
    assert_eq!(foreign(vec![]), DlqRecord::Foreign);
    assert_eq!(foreign(vec![header(FATE, "replayed"), header(FATE_OF, "71")]), DlqRecord::Foreign);
    let mut connect = letter_record::full_record("samples", &letter_with_header_clash()).headers;
    for (name, value) in &mut connect {
        if name == letter_record::CONNECTOR {
            *value = Some(b"sink".to_vec());
        }
    }
    assert_eq!(foreign(connect), DlqRecord::Foreign, "another connector");
}

#[test]
fn a_replayed_record_names_its_earlier_position() {
    let letter = letter_with_header_clash();
    let value = (letter.key.as_deref().map(<[u8]>::to_vec), b"[]".to_vec());
    let replayed = replay_record("samples", &letter, value, LogTime(7));
    let origins: Vec<_> = replayed.headers.iter().filter(|(it, _)| it == ORIGIN).collect();
    assert_eq!(origins, [&header(ORIGIN, "samples:3:71:2")]);
    assert_eq!(replayed.headers.len(), letter.headers.len() + 1);
    let mut control = letter.clone();
    let control_headers = [header(CONTROL_HEADER, "forget"), header(SIGNATURE_HEADER, "a:0")];
    Arc::make_mut(&mut control.headers).extend(control_headers);
    let value = (letter.key.as_deref().map(<[u8]>::to_vec), b"[]".to_vec());
    let of_control = replay_record("samples", &control, value, LogTime(7));
    assert_eq!(of_control, replayed, "the control headers are removed");
    // If the replayed record fails again, its headers name the last position and reason alone.
    let failed_again = DeadLetter { headers: replayed.headers.into(), ..letter };
    let again = replay_record("samples", &failed_again, (None, Vec::new()), LogTime(7));
    assert_eq!(again.headers.len(), failed_again.headers.len());
    assert_eq!((replayed.timestamp_ms, replayed.value), (Some(7), b"[]".to_vec()));
}

#[test]
fn fates_are_found_by_position() {
    let mut fates = Fates::default();
    let resolved: BTreeSet<(i32, i64)> =
        (0..5000).map(|n| ((n % 3) as i32, n * n * 7 % 100_003)).collect();
    resolved
        .iter()
        .for_each(|(partition, offset)| fates.record_offset(*partition, Offset(*offset)));
    for position in (0..3).flat_map(|partition| (0..100_100).map(move |offset| (partition, offset)))
    {
        assert_eq!(
            fates.has(position.0, Offset(position.1)),
            resolved.contains(&position),
            "{position:?}"
        );
    }
}
