use super::*;

fn claim<'a>() -> Claim<'a> {
    let (device, kind) = (&b"truck-17"[..], &b"forget"[..]);
    Claim { topic: "samples", device, kind, before_ms: DeviceTime(1_740_787_200_000) }
}

/// A key of this name; its secret is the bytes 0 to 31.
fn key(name: &str) -> ControlKey {
    ControlKey { name: name.into(), secret: (0..32).collect() }
}

#[test]
fn encoding_and_signature_match_another_implementation() {
    // Computed by Python's hmac and hashlib.
    let encoded = concat!(
        "0000000000000010",
        "74737461723a636f6e74726f6c3a7631",
        "0000000000000007",
        "73616d706c6573",
        "0000000000000008",
        "747275636b2d3137",
        "0000000000000006",
        "666f72676574",
        "0000000000000008",
        "000001954f00b000",
    );
    assert_eq!(HEXLOWER.encode(&claim().encode()), encoded);
    let code = "00a4d28bb8ba304ae816c008d22834e3b71fd3bd677473ce9db01016b1ea49dd";
    assert_eq!(key("ops-1").sign(&claim()), format!("ops-1:{code}"));
    assert_eq!(key("ops-1").named().fingerprint, "524caa8eb57959f5815dc035b36e02ed");
}

#[test]
fn a_signature_is_valid_for_one_claim_and_one_key_only() {
    let key = key("ops-1");
    let signature = Signature::parse(key.sign(&claim()).as_bytes()).unwrap();
    assert!(key.verifies(&signature, &claim()));
    let others = [
        Claim { topic: "sample", device: b"struck-17", ..claim() },
        Claim { topic: "samples2", ..claim() },
        Claim { device: b"truck-18", ..claim() },
        Claim { device: b"", ..claim() },
        Claim { kind: b"forge", ..claim() },
        Claim { before_ms: claim().before_ms + 1, ..claim() },
        Claim { before_ms: DeviceTime::MAX, ..claim() },
    ];
    for other in others {
        assert!(!key.verifies(&signature, &other), "{other:?}");
    }
    let other = ControlKey { secret: vec![7; 32], ..key.clone() };
    assert!(!other.verifies(&signature, &claim()));
    for header in ["", "ops-1", "ops-1:", "ops-1:00", ":00", "ops 1:00", "ops-1:zz"] {
        assert_eq!(Signature::parse(header.as_bytes()), None, "{header}");
    }
    let upper = key.sign(&claim()).to_uppercase();
    assert_eq!(Signature::parse(upper.as_bytes()), None, "one spelling");
    assert_eq!(Signature::parse(b"ops-1:\xff"), None);
}

const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const IN_BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

#[test]
fn a_file_has_one_key_per_line_and_the_first_one_signs() {
    let text = format!("# ours\n\n new : {HEX}\r\nold:{IN_BASE64}\nolder:{}\n", &IN_BASE64[..43]);
    let keys = ControlKeys::parse(&text).unwrap();
    let names: Vec<_> = keys.named().into_iter().map(|key| key.name).collect();
    assert_eq!(names, ["new", "old", "older"]);
    assert_eq!(keys.signing(), Some(&key("new")));
    assert!(keys.0.iter().all(|key| key.secret == (0..32).collect::<Vec<u8>>()));
    assert_eq!(ControlKeys::parse("# none yet\n"), Ok(ControlKeys::default()));
}

#[test]
fn errors_of_a_key_file_name_the_fault_but_no_secret() {
    for (text, expected) in [
        ("hidden", "line 1: it has no `:`"),
        (&format!("\na b:{HEX}"), "line 2: its name is not"),
        (&format!(":{HEX}"), "line 1: its name is not"),
        ("a:hidden!", "line 1: its secret is neither hex nor base64"),
        (&format!("a:{}", &HEX[2..]), "line 1: its secret is too short"),
        (&format!("a:{HEX}\n#\na:{HEX}"), "line 3: key `a` is defined twice"),
    ] {
        let error = ControlKeys::parse(text).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("hidden") && !text.contains("0203"), "{text}");
    }
    assert!(!format!("{:?}", key("a")).contains("31"), "{:?}", key("a"));
}

#[test]
fn a_generated_key_is_unique_and_round_trips_through_its_line() {
    let (key, other) = (ControlKey::generate("a").unwrap(), ControlKey::generate("a").unwrap());
    assert_ne!(key.named().fingerprint, other.named().fingerprint);
    assert_eq!(ControlKeys::parse(&key.to_line()).unwrap().signing(), Some(&key));
    assert_eq!(ControlKey::generate("a b"), Err(KeyError::Name("a b".into())));
}

#[test]
fn only_keys_of_the_store_are_valid_and_none_may_be_missing() {
    let (one, other) = (key("one"), ControlKey { secret: vec![7; 32], ..key("one") });
    let two = ControlKey { secret: vec![9; 32], ..key("two") };
    let keys = ControlKeys(vec![one.clone(), two.clone()]);
    assert_eq!(keys.agree_with(&[], "s"), Ok(()));
    assert_eq!(keys.agree_with(&[two.named()], "s"), Ok(()));
    assert_eq!(keys.that_count(&[two.named()]), ControlKeys(vec![two.clone()]));
    assert_eq!(keys.that_count(&[other.named()]), ControlKeys::default());
    let missing = ControlKeys(vec![one.clone()]).agree_with(&[one.named(), two.named()], "s");
    let missing = missing.unwrap_err();
    assert!(missing.contains("control_key_file lacks: `two`"), "{missing}");
    let differs = keys.agree_with(&[other.named()], "s").unwrap_err();
    assert!(differs.contains("control key `one` of control_key_file has a different"), "{differs}");
    assert!(differs.contains(&one.named().fingerprint), "{differs}");
}
