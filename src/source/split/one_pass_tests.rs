use proptest::prelude::*;

use crate::model::rules::Rules;
use crate::source::{Batch, Decoder, NoSample, RawJson, RecordContext, RecordPosition, parse_map};

/// Maps with arrays of samples, each with a record.
const RECORDS: [(&str, &str); 4] = [
    (
        "samples=/r/list|/list|/,device_id=/d/id,lat=/lat,lon=/lon,time=/t,when=/ok",
        r#"{"v":"1","r":{"n":[{}],"list":[ {"d":{"id":"a"},"lat":1,"lon":2,"t":5,"ok":1} ,
            {"d":{"id":"b"},"lat":1,"lon":2,"t":6},{"d":{"id":"b"},"lat":1,"lon":2,"t":6}],
            "x":2}}"#,
    ),
    (
        "samples=/list,device_id=/id,lat=/lat,lon=/lon,time=/t",
        r#"{"list":[{"id":"a","lat":1,"lon":2,"t":5},{"id":"a","lat":"n\u002f","lon":2,"t":5},
            {"id":"a","lat":1,"lon":2,"t":7}], "current":{"id":"x","list":[]}, "id2":"b"}"#,
    ),
    (
        "samples=/list,lat=/lat,lon=/lon,time=/t",
        r#"{"list":[{"lat":1,"lon":2,"t":5},{"lat":1,"lon":2,"t":6}],"device_id":"a"}"#,
    ),
    (
        "device_id=/id,lat=/lat,lon=/lon,time=/t,valid=/ok",
        r#"[{"id":"a","lat":1,"lon":2,"t":5,"ok":true},{"id":"a","lat":1,"lon":2,"t":6,"ok":false},
            {"id":"a","lat":1,"lon":2,"t":6,"ok":false},{"id":"a","lat":1,"lon":2,"t":6}]"#,
    ),
];

/// An entry as text: its element, its bytes, and its content.
fn entries(decoder: &Decoder, value: &[u8]) -> Vec<String> {
    let mut batch = Batch::default();
    let raw =
        RawJson { value, context: RecordContext::default(), schema_id: None, check: &|_| Ok(()) };
    decoder.split(&raw, &RecordPosition::default(), &mut batch);
    let shown = |entry: &crate::source::Entry| {
        let raw = String::from_utf8_lossy(batch.raw(entry));
        let content = match &entry.content {
            Ok(read) => format!("{} {:?}", batch.text(&read.device), read.sample),
            // Positions in messages count from the begin of what is parsed.
            Err(NoSample::Dead(error)) => error.reason.to_string(),
            Err(none) => format!("{none:?}"),
        };
        // Of a record that is an error as a whole, the bytes are those of the record.
        let is_whole = entry.element.is_none() || entry.raw.len() >= value.len() - 1;
        format!("{:?} {} {content}", entry.element, if is_whole { "" } else { &raw })
    };
    batch.entries.iter().map(shown).collect()
}

fn decoder(map: &str) -> Decoder {
    Decoder::new(&Rules { fields: parse_map(map).unwrap(), ..Rules::default() }).unwrap()
}

/// The record with a name that is not plain: a parser reads it.
fn parsed(record: &[u8]) -> Option<Vec<u8>> {
    let rest = record.strip_prefix(b"{")?;
    let is_empty = rest.trim_ascii_start().starts_with(b"}");
    let name: &[u8] = if is_empty { br#"{"\u007e":0"# } else { br#"{"\u007e":0,"# };
    Some([name, rest].concat())
}

fn check(map: &str, records: &[Vec<u8>]) {
    let decoder = decoder(map);
    for record in records {
        let found = entries(&decoder, record);
        let text = String::from_utf8_lossy(record);
        if let Some(parsed) = parsed(record) {
            assert_eq!(found, entries(&decoder, &parsed), "{text}");
        }
    }
}

#[test]
fn arrays_are_split_as_by_the_parser() {
    for (map, record) in RECORDS {
        let found = entries(&decoder(map), record.as_bytes());
        assert!(found.len() >= 2, "{found:?}");
        check(map, &vec![record.into(); 4]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn edited_arrays_are_split_as_by_the_parser(
        at in 0..RECORDS.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8, prop_oneof![
            any::<u8>(), prop::sample::select(&b"\"{}[],:0a"[..]),
        ]), 0..10),
    ) {
        let (map, record) = RECORDS[at];
        let edited = edits.into_iter().map(|(index, kind, byte)| {
            let mut record = record.as_bytes().to_vec();
            let at = index.index(record.len());
            match kind {
                0 => record[at] = byte,
                1 => record.insert(at, byte),
                2 => drop(record.remove(at)),
                _ => {
                    let copy = record[at..].to_vec();
                    record.extend(copy);
                }
            }
            record
        });
        let records: Vec<_> = [record.into(), record.into()].into_iter().chain(edited).collect();
        check(map, &records);
    }
}
