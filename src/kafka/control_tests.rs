use super::*;
use crate::kafka::record::RecordReader;
use crate::model::control::ControlKey;
use crate::model::rules::Rules;
use crate::model::scalar::{LogTime, Offset};
use crate::source::{Batch, Decoder, Headers};

const TOPIC: &str = "samples";
const HOUR: i64 = 3_600_000;
/// 2026-11-20T21:38:00.123Z
const T: i64 = 1_795_210_680_123;

fn key(name: &str) -> ControlKey {
    let line = format!("{name}:{}", "0a".repeat(32));
    ControlKeys::parse(&line).unwrap().signing().unwrap().clone()
}

fn signed(by: &ControlKey, claim: &Claim<'_>) -> Headers {
    let kind = (CONTROL_HEADER.to_owned(), Some(claim.kind.to_vec()));
    vec![kind, (SIGNATURE_HEADER.to_owned(), Some(by.sign(claim).into_bytes()))]
}

fn claim(before_ms: i64) -> Claim<'static> {
    Claim { topic: TOPIC, device: b"truck-17", kind: b"forget", before_ms: DeviceTime(before_ms) }
}

/// Reads a record with this key, body and headers; the reader knows one control key.
fn read(device: &[u8], body: &str, headers: Headers) -> Result<i64, SampleError> {
    let keys = ControlKeys::parse(&key("ops").to_line()).unwrap();
    let authority = Authority { topic: TOPIC.into(), keys, max_future_ms: HOUR };
    let decoder = Decoder::new(&Rules::default()).unwrap();
    let mut reader = RecordReader::new(decoder, true).allowing(authority);
    let record = Record {
        offset: Offset(7),
        log_time_ms: LogTime(T),
        key: Some(device),
        value: Some(body.as_bytes()),
        headers,
        ..Record::default()
    };
    let mut batch = Batch::default();
    match reader.read(&record, &mut batch) {
        Some(Control::Forget { offset: Offset(7), before_ms, .. }) => Ok(before_ms.ms()),
        Some(other) => panic!("{other:?}"),
        None => {
            assert_eq!(
                *batch.headers[&Offset(7)],
                record.headers,
                "a dead letter keeps the headers"
            );
            let [entry] = &batch.entries[..] else { panic!("{:?}", batch.entries) };
            Err(entry.content.as_ref().unwrap_err().error().unwrap().clone())
        }
    }
}

fn body(before_ms: i64) -> String {
    format!("{{\"before\":{before_ms}}}")
}

#[track_caller]
fn is_refused(result: Result<i64, SampleError>, text: &str) -> SampleError {
    let error = result.unwrap_err();
    assert_eq!(error.reason, DeadReason::NotAuthorised, "{error:?}");
    assert!(error.message.contains(text) && error.message.len() < 600, "{error:?}");
    error
}

#[test]
fn a_signed_record_is_a_forget() {
    let by = key("ops");
    for (text, before_ms) in
        [("5", 5), ("\"2026-11-20T21:38:00.123Z\"", T), ("1795214280123", T + HOUR)]
    {
        let body = format!("{{\"before\": {text}}}");
        assert_eq!(read(b"truck-17", &body, signed(&by, &claim(before_ms))), Ok(before_ms));
    }
}

#[test]
fn without_the_key_every_record_is_a_dead_letter() {
    let (by, valid) = (key("ops"), signed(&key("ops"), &claim(5)));
    let unsigned = valid[..1].to_vec();
    for text in [body(i64::MAX), body(5), String::new(), "no".into(), "x".repeat(9000)] {
        is_refused(read(b"truck-17", &text, unsigned.clone()), "needs the operator's signature");
        is_refused(read(b"", &text, unsigned.clone()), "needs the operator's signature");
    }
    let kind = |kind: &[u8]| vec![(CONTROL_HEADER.into(), Some(kind.to_vec()))];
    is_refused(read(b"truck-17", "x", kind(b"erase")), "needs the operator's signature");
    is_refused(read(b"truck-17", "x", kind(&[b'x'; 9000])), "needs the operator's signature");
    let with = |signature: &[u8]| {
        [&unsigned[..], &[(SIGNATURE_HEADER.into(), Some(signature.to_vec()))]].concat()
    };
    is_refused(read(b"truck-17", &body(5), with(b"ops")), "is not NAME:HEX");
    is_refused(read(b"truck-17", &body(5), with(&[b'x'; 9000])), "is not NAME:HEX");
    // A valid signature of something else.
    let other = "does not match this topic, device, kind and before";
    is_refused(read(b"truck-18", &body(5), valid.clone()), other);
    is_refused(read(b"truck-17", &body(6), valid.clone()), other);
    is_refused(read(b"truck-17", &body(i64::MAX), valid.clone()), other);
    let elsewhere = Claim { topic: "samples2", ..claim(5) };
    is_refused(read(b"truck-17", &body(5), signed(&by, &elsewhere)), other);
    let mut erase = valid.clone();
    erase[0].1 = Some(b"erase".to_vec());
    is_refused(read(b"truck-17", &body(5), erase), other);
    // Bodies that cannot be signed.
    for text in ["", "{}", "[]", "no", r#"{"before":null}"#, r#"{"before":1.5}"#] {
        is_refused(read(b"truck-17", text, valid.clone()), "before");
    }
    let twice = r#"{"before":5,"before":9}"#;
    is_refused(read(b"truck-17", twice, valid.clone()), "duplicate field");
    is_refused(read(b"truck-17", &format!("{}{}", body(5), " ".repeat(2000)), valid), "bytes");
}

#[test]
fn an_unknown_key_is_named() {
    let error = read(b"truck-17", &body(5), signed(&key("new"), &claim(5)));
    let error = is_refused(error, "signed by key `new`, which is not a known control key");
    assert_eq!(error.unknown_key.as_deref(), Some("new"));
}

#[test]
fn a_signed_record_with_invalid_content_is_refused() {
    let by = key("ops");
    is_refused(
        read(b"truck-17", &body(T + HOUR + 1), signed(&by, &claim(T + HOUR + 1))),
        "more than --max-future, 1h, past the record's timestamp 2026-11-20T21:38:00.123Z",
    );
    is_refused(
        read(b"truck-17", &body(i64::MAX), signed(&by, &claim(i64::MAX))),
        "more than --max-future",
    );
    let reason = |result: Result<i64, SampleError>| result.unwrap_err().reason;
    let old = read(b"truck-17", &body(-1), signed(&by, &claim(-1)));
    assert_eq!(reason(old), DeadReason::BadType);
    let erase = Claim { kind: b"erase", ..claim(5) };
    assert_eq!(reason(read(b"truck-17", &body(5), signed(&by, &erase))), DeadReason::BadType);
    let no_device = Claim { device: b"", ..claim(5) };
    assert_eq!(reason(read(b"", &body(5), signed(&by, &no_device))), DeadReason::NoKey);
}
