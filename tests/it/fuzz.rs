//! The bodies of the fuzz targets, run on random bytes and on damaged valid inputs: a short version
//! of `tests/fuzz`, which runs for as long as one likes.

use proptest::prelude::*;
use proptest::sample::Index;

#[path = "../fuzz/bodies.rs"]
mod bodies;
#[path = "../fuzz/records.rs"]
mod records;
#[path = "../fuzz/schemas.rs"]
mod schemas;

const JSON: [&[u8]; 3] = [
    include_bytes!("../fuzz/seeds/json/whole.json"),
    include_bytes!("../fuzz/seeds/json/aliases.json"),
    include_bytes!("../fuzz/seeds/json/mapped.json"),
];
const CSV: [&[u8]; 3] = [
    include_bytes!("../fuzz/seeds/csv/comma.csv"),
    include_bytes!("../fuzz/seeds/csv/semicolon.csv"),
    include_bytes!("../fuzz/seeds/csv/lines.ndjson"),
];
const DOCUMENT: [&[u8]; 4] = [
    include_bytes!("../fuzz/seeds/document/array"),
    include_bytes!("../fuzz/seeds/document/track"),
    include_bytes!("../fuzz/seeds/document/sentences"),
    include_bytes!("../fuzz/seeds/document/recorder"),
];
const ID: [&[u8]; 4] = [
    include_bytes!("../fuzz/seeds/id/text"),
    include_bytes!("../fuzz/seeds/id/prefix"),
    include_bytes!("../fuzz/seeds/id/key"),
    include_bytes!("../fuzz/seeds/id/uuid"),
];

const AVRO: [&[u8]; 2] =
    [include_bytes!("../fuzz/seeds/avro/datum"), include_bytes!("../fuzz/seeds/avro/framed")];
const PROTOBUF: [&[u8]; 2] = [
    include_bytes!("../fuzz/seeds/protobuf/message"),
    include_bytes!("../fuzz/seeds/protobuf/feed"),
];
const SCHEMA: [&[u8]; 4] = [
    include_bytes!("../fuzz/seeds/schema/generated-protobuf"),
    include_bytes!("../fuzz/seeds/schema/generated-avro"),
    include_bytes!("../fuzz/seeds/schema/protobuf"),
    include_bytes!("../fuzz/seeds/schema/avro"),
];
const MAP: [&[u8]; 3] = [
    include_bytes!("../fuzz/seeds/map/nested"),
    include_bytes!("../fuzz/seeds/map/lists"),
    include_bytes!("../fuzz/seeds/map/unnamed"),
];
const PRESET: [&[u8]; 17] = [
    include_bytes!("../fuzz/seeds/preset/emqx"),
    include_bytes!("../fuzz/seeds/preset/flespi"),
    include_bytes!("../fuzz/seeds/preset/geojson"),
    include_bytes!("../fuzz/seeds/preset/geotab"),
    include_bytes!("../fuzz/seeds/preset/gtfs-rt"),
    include_bytes!("../fuzz/seeds/preset/hfp"),
    include_bytes!("../fuzz/seeds/preset/kafka-connect"),
    include_bytes!("../fuzz/seeds/preset/mds"),
    include_bytes!("../fuzz/seeds/preset/namma-yatri"),
    include_bytes!("../fuzz/seeds/preset/overland"),
    include_bytes!("../fuzz/seeds/preset/owntracks"),
    include_bytes!("../fuzz/seeds/preset/samsara"),
    include_bytes!("../fuzz/seeds/preset/samsara-history"),
    include_bytes!("../fuzz/seeds/preset/tesla"),
    include_bytes!("../fuzz/seeds/preset/traccar"),
    include_bytes!("../fuzz/seeds/preset/traccar-api"),
    include_bytes!("../fuzz/seeds/preset/traccar-client"),
];

/// Bytes that are significant to one of the readers.
const TOKENS: [&[u8]; 32] = [
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b";",
    b"\n",
    b"\r\n",
    b"\t",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"null",
    b"true",
    b"-",
    b"1e999",
    b"91",
    b"~",
    b"~7e",
    b"\"lat\":1,",
    b"<trkpt ",
    b"</trkpt>",
    b"<!--",
    b"-->",
    b"]]>",
    b"&a;",
    b"/>",
    b"*00",
    b"\xff",
    b"\xef\xbb\xbf",
];

#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Put(Index, u8),
    Token(Index, Index),
    Remove(Index, Index),
    Repeat(Index, Index),
    Cut(Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        3 => (at(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        3 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Put(at, byte)),
        4 => (at(), at()).prop_map(|(at, token)| Edit::Token(at, token)),
        2 => (at(), at()).prop_map(|(from, to)| Edit::Remove(from, to)),
        2 => (at(), at()).prop_map(|(from, to)| Edit::Repeat(from, to)),
        1 => at().prop_map(Edit::Cut),
    ]
}

/// A range of at most 12 bytes.
fn piece(bytes: &[u8], from: &Index, length: &Index) -> std::ops::Range<usize> {
    let from = from.index(bytes.len() + 1);
    from..from + length.index(12.min(bytes.len() - from) + 1)
}

fn damaged(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for edit in edits {
        let last = bytes.len();
        match edit {
            Edit::Flip(at, bit) if last > 0 => bytes[at.index(last)] ^= 1 << bit,
            Edit::Put(at, byte) if last > 0 => bytes[at.index(last)] = *byte,
            Edit::Flip(..) | Edit::Put(..) => {}
            Edit::Token(at, token) => {
                let at = at.index(last + 1);
                bytes.splice(at..at, token.get(&TOKENS).iter().copied());
            }
            Edit::Remove(from, length) => {
                let piece = piece(&bytes, from, length);
                bytes.drain(piece);
            }
            Edit::Repeat(from, length) => {
                let piece = piece(&bytes, from, length);
                let again = bytes[piece.clone()].to_vec();
                bytes.splice(piece.end..piece.end, again);
            }
            Edit::Cut(at) => bytes.truncate(at.index(last + 1)),
        }
    }
    bytes
}

fn damaged_seed(seeds: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(seeds), prop::collection::vec(edit(), 0..5))
        .prop_map(|(seed, edits)| damaged(seed, &edits))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn json(random in bytes(), seed in damaged_seed(&JSON)) {
        bodies::json(&random);
        bodies::json(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn id(random in bytes(), seed in damaged_seed(&ID)) {
        bodies::id(&random);
        bodies::id(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn avro(random in bytes(), seed in damaged_seed(&AVRO)) {
        records::avro(&random);
        records::avro(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn protobuf(random in bytes(), seed in damaged_seed(&PROTOBUF)) {
        records::protobuf(&random);
        records::protobuf(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn schema(random in bytes(), seed in damaged_seed(&SCHEMA)) {
        schemas::schema(&random);
        schemas::schema(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn map(seed in damaged_seed(&MAP)) {
        records::map(&seed);
    }

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn preset(seed in damaged_seed(&PRESET)) {
        records::preset(&seed);
    }

    /// The body builds its own valid paths from the bytes.
    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn blob(random in bytes()) {
        bodies::blob(&random);
    }
}

proptest! {
    // Each case reads eight files or more.
    #![proptest_config(ProptestConfig::with_cases(2500))]

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn csv(random in bytes(), seed in damaged_seed(&CSV)) {
        bodies::csv(&random);
        bodies::csv(&seed);
    }
}

proptest! {
    // Each case reads six files.
    #![proptest_config(ProptestConfig::with_cases(8000))]

    #[test]
    #[ignore = "at night: tests/nightly/long"]
    fn document(random in bytes(), format in any::<u8>(), mut seed in damaged_seed(&DOCUMENT)) {
        bodies::document(&random);
        bodies::document(&seed);
        // Of one format, read as any.
        seed.splice(..1.min(seed.len()), [format]);
        bodies::document(&seed);
    }
}

#[test]
fn what_the_runs_start_from_is_good() {
    for (seeds, body) in [
        (&JSON[..], bodies::json as fn(&[u8]) -> bool),
        (&CSV, bodies::csv),
        (&DOCUMENT[..1], bodies::document),
        (&ID, bodies::id),
        (&AVRO[..1], records::avro),
        (&PROTOBUF, records::protobuf),
        (&SCHEMA, schemas::schema),
        (&MAP, records::map),
        (&PRESET, records::preset),
    ] {
        for seed in seeds {
            assert!(body(seed), "{:?}", String::from_utf8_lossy(seed));
        }
        assert!(!body(b"nothing"));
    }
    assert!(bodies::blob(&[7; 30]) && !bodies::blob(&[7; 3]));
}
