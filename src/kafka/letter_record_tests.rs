use std::sync::Arc;

use super::*;
use crate::kafka::letter_fixture::letter_with_headers;

fn sample_letter() -> DeadLetter {
    letter_with_headers(vec![("trace".into(), Some(vec![0xff])), ("empty".into(), None)])
}

fn record_limit(record: usize) -> Limit {
    Limit { record, content: usize::MAX }
}

fn header<'a>(out: &'a ProducerRecord, name: &str) -> Option<&'a str> {
    let found = out.headers.iter().rfind(|(known, _)| known == name)?;
    std::str::from_utf8(found.1.as_deref()?).ok()
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

#[test]
fn a_dead_letter_keeps_its_record_and_the_reason() {
    let letter = sample_letter();
    for out in
        [full_record("samples", &letter), fitting_record("samples", &letter, record_limit(2000))]
    {
        assert_eq!(out.key.as_deref(), letter.key.as_deref());
        assert_eq!(out.timestamp_ms, Some(letter.log_time_ms.ms()));
        assert_eq!(out.value, b"{}");
        assert_eq!(out.headers[..2], letter.headers[..]);
        for (name, value) in [
            ("__connect.errors.topic", "samples"),
            ("__connect.errors.partition", "3"),
            ("__connect.errors.offset", "71"),
            ("__connect.errors.exception.class.name", "bad_time"),
            ("__connect.errors.exception.message", "time has no value"),
            ("tstar-element", "2"),
        ] {
            assert_eq!(header(&out, name), Some(value), "{name}");
        }
        assert!(out.headers.iter().all(|(name, _)| !name.ends_with("sha256")));
    }
}

#[test]
fn the_largest_part_is_cut_first_with_length_and_hash() {
    let (key, value) = (vec![b'k'; 600_000], vec![b'v'; 5000]);
    let letter = DeadLetter { key: Some(key[..].into()), value: value.clone(), ..sample_letter() };
    let out = fitting_record("samples", &letter, record_limit(100_000));
    assert_eq!((out.key.unwrap().len(), out.value.len()), (1 << 10, 5000));
    let out = fitting_record("samples", &letter, record_limit(4000));
    assert_eq!(out.key.as_deref(), Some(&key[..1 << 10]));
    assert_eq!(out.value, value[..1 << 10]);
    assert_eq!(header(&out, "tstar-key-length"), Some("600000"));
    assert_eq!(header(&out, "tstar-key-sha256"), Some(&hex(&key)[..]));
    assert_eq!(header(&out, "tstar-length"), Some("5000"));
    assert_eq!(header(&out, "tstar-sha256"), Some(&hex(&value)[..]));
    assert_eq!(out.headers[..2], letter.headers[..], "small parts stay");
    assert_eq!(header(&out, "tstar-headers-sha256"), None);
}

#[test]
fn the_client_counts_only_key_and_value() {
    let letter = DeadLetter { value: vec![b'v'; 9_995], ..sample_letter() };
    let limit = |content| Limit { record: usize::MAX, content };
    assert_eq!(fitting_record("samples", &letter, limit(10_003)), full_record("samples", &letter));
    assert_eq!(fitting_record("samples", &letter, limit(10_002)).value.len(), 1 << 10);
}

#[test]
fn headers_are_cut_to_the_heads_of_the_first_ones() {
    let long = |name: &str| (name.to_owned(), Some(vec![7; 400_000]));
    let headers: Headers = vec![long("one"), ("x".repeat(90_000), None), long("two")];
    let letter = DeadLetter { headers: Arc::new(headers), ..sample_letter() };
    let out = fitting_record("samples", &letter, record_limit(3000));
    assert_eq!(out.headers[0], ("one".to_owned(), Some(vec![7; 256])));
    assert_eq!(out.headers[1], ("x".repeat(256), None));
    assert_eq!(header(&out, "tstar-headers-length"), Some("890006"));
    let mut hash = Sha256::new();
    for (name, value) in letter.headers.iter() {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
        hash.update(value.as_ref().map_or(u64::MAX, |it| it.len() as u64).to_be_bytes());
        hash.update(value.clone().unwrap_or_default());
    }
    let hash = data_encoding::HEXLOWER.encode(&hash.finalize());
    assert_eq!(header(&out, "tstar-headers-sha256"), Some(&hash[..]));
    // Even empty headers take bytes.
    let letter =
        DeadLetter { headers: Arc::new(vec![(String::new(), None); 100_000]), ..sample_letter() };
    assert!(size(&fitting_record("samples", &letter, record_limit(3000))) <= 3000);
}

#[test]
fn a_letter_fits_whatever_is_large_in_it() {
    let sizes = [0, 100, 5000, 700_000];
    let combinations = sizes.len().pow(4);
    for nth in 0..combinations {
        let size_of = |part: u32| sizes[nth / sizes.len().pow(part) % sizes.len()];
        let letter = DeadLetter {
            key: Some(vec![b'k'; size_of(0)].into()),
            value: vec![b'v'; size_of(1)],
            headers: Arc::new(vec![("h".repeat(size_of(2)), Some(vec![1; size_of(2)])); 3]),
            message: "é".repeat(size_of(3) / 2),
            ..sample_letter()
        };
        for limit in [1200, 2000, 20_000, 1_000_000] {
            let out = fitting_record(&"t".repeat(100), &letter, record_limit(limit));
            assert!(size(&out) <= limit, "{nth}: {} of {limit}", size(&out));
            let is_small = size(&full_record(&"t".repeat(100), &letter)) <= limit;
            assert!(header(&out, "tstar-key-sha256").is_none() || !is_small, "{nth}");
        }
        let smallest = size(&fitting_record(&"t".repeat(249), &letter, record_limit(0)));
        assert!(smallest < 1500, "{smallest}");
    }
}

#[test]
fn a_part_that_was_cut_before_keeps_its_length_and_hash() {
    let cut = |byte| Some(Cut { bytes: 5_000_000, sha256: [byte; 32] });
    let letter = DeadLetter {
        value: vec![b'v'; 1024],
        value_bytes: 9_000_000,
        sha256: Some([7; 32]),
        key_cut: cut(8),
        headers_cut: cut(9),
        ..sample_letter()
    };
    let out = fitting_record("samples", &letter, record_limit(0));
    assert_eq!((header(&out, "tstar-length"), out.value.len()), (Some("9000000"), 0));
    for (name, byte) in
        [("tstar-sha256", 7_u8), ("tstar-key-sha256", 8), ("tstar-headers-sha256", 9)]
    {
        let known = data_encoding::HEXLOWER.encode(&[byte; 32]);
        assert_eq!(header(&out, name), Some(&known[..]));
    }
}
