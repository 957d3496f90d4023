//! The functions of a module as a host calls them. `tests/api.test.mjs` calls them from JavaScript.

use serde_json::{Value, json};

use crate::error::CallError;
use crate::module::{self, MAX_INPUT, Module};

/// 2026-11-20T20:00:00Z.
const EVENING: f64 = 1_795_204_800_000.0;

/// Bit of the column of ignitions.
const IGNITION: u32 = 1 << 7;

/// Calls a function with an input: its answer, or its error message.
fn call(
    module: &mut Module,
    input: &[u8],
    function: impl FnOnce(&mut Module, &[u8]) -> Result<Vec<u8>, CallError>,
) -> Result<Vec<u8>, String> {
    module.prepare(input.len()).expect("it is short").copy_from_slice(input);
    let is_answer = module.call(function);
    let output = module.output().to_vec();
    if is_answer { Ok(output) } else { Err(String::from_utf8(output).expect("it is UTF-8")) }
}

/// A module with one tracker, whose handle is 0.
fn tracker(rules: &Value) -> Module {
    let mut module = Module::default();
    let made = call(&mut module, rules.to_string().as_bytes(), Module::new_tracker);
    assert_eq!(made, Ok(vec![0; 4]));
    module
}

/// Samples of `d` at these minutes, each with its ignition.
fn batch(minutes: &[(u32, u8)]) -> Vec<u8> {
    let times = minutes.iter().map(|(minute, _)| EVENING + f64::from(*minute) * 60_000.0);
    let places = [52.5, 13.4].into_iter().flat_map(|degrees| minutes.iter().map(move |_| degrees));
    let numbers = times.chain(places).flat_map(f64::to_le_bytes);
    let ignitions = minutes.iter().map(|(_, ignition)| *ignition);
    numbers.chain(ignitions).chain(*br#"{"devices":["d"]}"#).collect()
}

fn segments(module: &mut Module) -> Value {
    let text = call(module, b"d", |module, input| module.segments(input, 0)).expect("an answer");
    serde_json::from_slice(&text).expect("it is JSON")
}

#[test]
fn samples_become_trips_and_stops() {
    let mut module = tracker(&json!({}));
    let minutes = [(10, 2), (12, 1), (0, 2), (2, 1), (6, 2), (14, 0)];
    let answer =
        call(&mut module, &batch(&minutes), |module, it| module.absorb(it, (0, 6, IGNITION)));
    // New, end, new, end, merge; a stop is new.
    assert_eq!(answer.expect("an answer"), b"\0\x01\0\x01\x04\0[]");
    let found = segments(&mut module);
    assert_eq!(found[0]["absorbed"], json!(["d~20261120T201000.000Z"]));
    assert_eq!((&found[0]["samples"], &found[1]["kind"]), (&json!(5), &json!("stop")));
    let changes = call(&mut module, b"", |module, _| module.changes(0)).expect("an answer");
    let changes: Value = serde_json::from_slice(&changes).expect("it is JSON");
    assert_eq!(changes[0]["events"][0]["type"], "merged");
    assert_eq!(call(&mut module, b"", |module, _| module.changes(0)), Ok(b"[]".to_vec()));
}

#[test]
fn sums_count_the_part_within_the_span() {
    let mut module = tracker(&json!({ "max_gap_ms": 3_600_000 }));
    let absorbed = call(&mut module, &batch(&[(0, 1), (10, 1)]), |module, input| {
        module.absorb(input, (0, 2, IGNITION))
    });
    assert!(absorbed.is_ok(), "{absorbed:?}");
    let mut sums = |from: f64, upto: f64| -> Value {
        let span = (EVENING + from * 60_000.0, EVENING + upto * 60_000.0 - 1.0);
        let sums = call(&mut module, b"", |module, input| module.sums(input, 0, span));
        serde_json::from_slice(&sums.expect("an answer")).expect("it is JSON")
    };
    let (first, second) = (sums(-5.0, 4.0), sums(4.0, 20.0));
    assert_eq!((&first["trips"], &first["duration_s"]), (&json!(1), &json!(240.0)));
    assert_eq!((&second["trips"], &second["duration_s"]), (&json!(0), &json!(360.0)));
    assert_eq!(sums(11.0, 12.0)["duration_s"], 0.0);
}

#[test]
fn an_input_that_is_not_whole_is_refused_and_changes_nothing() {
    let mut module = tracker(&json!({}));
    let whole = batch(&[(0, 1), (1, 1)]);
    let mut absorb = |input: &[u8], of: (u32, u32, u32)| {
        let answer = call(&mut module, input, |module, input| module.absorb(input, of));
        answer.expect_err("it is refused")
    };
    for (input, of, says) in [
        (&whole[..], (0, 3, IGNITION), "the input ends before 3 rows"),
        (&whole[..20], (0, 2, IGNITION), "lat: the input ends before 2 rows"),
        (&whole[..], (0, u32::MAX, IGNITION), "the input ends before 4294967295 rows"),
        (&whole[..], (0, 2, 1 << 8), "columns: 0x100 has unknown bits"),
        (&whole[..], (0, 2, 0), "names: "),
        (&whole[..whole.len() - 1], (0, 2, IGNITION), "names: "),
        (&whole[..], (1, 2, IGNITION), "no tracker has handle 1"),
    ] {
        let message = absorb(input, of);
        assert!(message.contains(says), "{message}");
    }
    let named = [&[0; 24][..], &7_u32.to_le_bytes(), br#"{"devices":["d"]}"#].concat();
    assert_eq!(absorb(&named, (0, 1, 1 << 5)), "device: row 0 has 7, of 1 names");
    let without = [&[0; 24][..], b"{}"].concat();
    assert_eq!(absorb(&without, (0, 1, 0)), "device: 0 names without a column; name one");
    assert_eq!(segments(&mut module), json!([]));
    assert!(module.prepare(MAX_INPUT + 1).is_none());
}

#[test]
fn a_handle_is_free_again() {
    let mut module = tracker(&json!({}));
    assert_eq!(call(&mut module, b"", |module, _| module.free_tracker(0)), Ok(Vec::new()));
    let again = call(&mut module, b"", |module, _| module.free_tracker(0));
    assert!(again.expect_err("it is gone").contains("no tracker has handle 0"));
    assert_eq!(call(&mut module, b"{}", Module::new_tracker), Ok(vec![0; 4]));
    assert_eq!(call(&mut module, b"{}", Module::new_tracker), Ok(vec![1, 0, 0, 0]));
}

#[test]
fn rules_are_held_to_the_limits_of_tstars_settings() {
    for (rules, says) in [
        (json!({ "max_gap_ms": 21_600_001 }), "max_gap_ms must be 1 to 21600000, not 21600001"),
        (json!({ "min_stop_ms": 0 }), "min_stop_ms must be 1 to 43200000, not 0"),
        (json!({ "max_samples": 2_000_001 }), "max_samples must be 1 to 2000000, not 2000001"),
        (json!({ "min_time_ms": -1 }), "min_time_ms must be 0 to "),
        (json!({ "max_memory": 3e9 }), "max_memory must be 0 to 2147483648, not 3000000000"),
        (json!({ "max_gap": 1 }), "rules: unknown field `max_gap`"),
        (json!([]), "rules: invalid "),
    ] {
        let input = rules.to_string();
        let refused = call(&mut Module::default(), input.as_bytes(), Module::new_tracker);
        let message = refused.expect_err("it is refused");
        assert!(message.starts_with(says), "{message}");
    }
}

#[test]
fn a_trip_is_verified_from_its_records_alone() {
    let evidence = include_bytes!("../tests/evidence.json");
    let verify = |input: &[u8]| {
        call(&mut Module::default(), input, |_, input| module::verify(input))
            .map(|json| serde_json::from_slice::<Value>(&json).expect("it is JSON"))
    };
    let verified = verify(evidence).expect("it is evidence");
    assert_eq!((&verified["differences"], &verified["kept"]), (&json!([]), &json!(5)));
    let refused = verify(b"{").expect_err("it is not");
    assert!(refused.contains("it is not evidence of a trip"), "{refused}");
}
