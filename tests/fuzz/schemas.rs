//! Properties of schemas that a stranger registers: none stops a reader, nor does a record by it.

use std::fmt::Write as _;

use tstar::internals::model::rules::Rules;
use tstar::internals::model::schema::{
    Encoding, SchemaId, SchemaReference, SchemaSource, SchemaVerdict,
};
use tstar::internals::source::{Decoder, parse_map};

use super::records::read;

/// Names that fields and types have, so that they meet.
const NAMES: [&str; 10] =
    ["device_id", "time", "lat", "lon", "speed", "a", "x", "value", "StringValue", "Timestamp"];

/// Types of protobuf fields. The others are messages and enums of the schema.
const PROTOBUF: [&str; 12] = [
    "int32",
    "string",
    "double",
    "float",
    "uint64",
    "sint64",
    "fixed32",
    "sfixed64",
    "bool",
    "bytes",
    "google.protobuf.Timestamp",
    "google.protobuf.StringValue",
];

/// What surrounds what is defined, and may not be valid there.
const PROTOBUF_PARTS: [&str; 16] = [
    "/*}*/",
    "// }\n",
    "}",
    "{",
    "option map_entry = true;",
    "option x = {a: [1, {b: '}'}]};",
    "reserved 1 to 5, 9; ",
    "extensions 100 to max;",
    "oneof o { int32 o1 = 70; }",
    "import public \"b.proto\";",
    "import \"google/protobuf/wrappers.proto\";",
    "import \"google/protobuf/timestamp.proto\";",
    "package google.protobuf;",
    "package a.b.c.d;",
    "service S { rpc R (M0) returns (M0); }",
    "extend M0 { optional int32 e = 101; }",
];

/// Types of Avro. The others are records of the schema.
const AVRO: [&str; 12] = [
    "\"null\"",
    "\"int\"",
    "\"long\"",
    "\"string\"",
    "\"double\"",
    "\"bytes\"",
    "\"boolean\"",
    r#"{"type":"long","logicalType":"timestamp-micros"}"#,
    r#"{"type":"bytes","logicalType":"decimal","scale":300}"#,
    r#"{"type":"fixed","name":"F","size":9007199254740993}"#,
    r#"{"type":"enum","name":"E","symbols":["a","b","a"]}"#,
    "{\"type\":{\"type\":\"R0\"}}",
];

/// Choices that the bytes make; 0 at their end.
struct Draw<'a>(&'a [u8]);

impl Draw<'_> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, count: usize) -> usize {
        self.byte() % count.max(1)
    }

    fn one_of<'b>(&mut self, list: &[&'b str]) -> &'b str {
        list[self.below(list.len())]
    }
}

/// A schema that the first bytes choose, or are; and a record by it.
pub fn schema(data: &[u8]) -> bool {
    let mut draw = Draw(data);
    let form = draw.below(4);
    let (encoding, source) = match form {
        0 => (Encoding::Protobuf, protobuf(&mut draw)),
        1 => (Encoding::Avro, avro(&mut draw)),
        _ => {
            let encoding = if form == 2 { Encoding::Protobuf } else { Encoding::Avro };
            let text = String::from_utf8_lossy(draw.0).into_owned();
            (encoding, SchemaSource { text, references: Vec::new() })
        }
    };
    let fields = parse_map("driver=/x/0|/a/x|a").expect("the map is good");
    let rules = Rules { decode: encoding, fields, ..Rules::default() };
    let decoder = Decoder::new(&rules).expect("the rules are good");
    let kind = if encoding == Encoding::Avro { "AVRO" } else { "PROTOBUF" };
    let known = SchemaVerdict::Known { kind: kind.into(), source };
    decoder.add_schema(SchemaId::Number(1), &known);
    let record =
        [&[0, 0, 0, 0, 1][..], &[0][..usize::from(encoding == Encoding::Protobuf)], draw.0];
    let record = record.concat();
    let found = read(&decoder, None, &record);
    assert_eq!(found, read(&decoder, None, &record), "one record, two results");
    let is_refused = |error: &String| error.contains("cannot be used");
    if encoding == Encoding::Protobuf {
        // The second message, and one inside the first.
        for indexes in [&[2, 2][..], &[4, 0, 0]] {
            read(&decoder, None, &[&[0, 0, 0, 0, 1], indexes, draw.0].concat()).ok();
        }
    }
    !found.is_err_and(|error| is_refused(&error))
}

fn protobuf(draw: &mut Draw<'_>) -> SchemaSource {
    let mut text = format!("syntax = \"proto{}\";", 2 + draw.below(2));
    let parts = |draw: &mut Draw<'_>, text: &mut String| {
        for _ in 0..draw.byte().saturating_sub(200) % 4 {
            text.push_str(draw.one_of(&PROTOBUF_PARTS));
        }
    };
    parts(draw, &mut text);
    // Many of them rarely, in a chain or a circle.
    let messages = match draw.byte() {
        255 => 16 * draw.byte(),
        few => few % 12 + 1,
    };
    for at in 0..messages {
        write!(text, "message M{at} {{").expect("a text takes more");
        for number in 1..=draw.below(5) {
            let label = match draw.below(8) {
                0..4 => "optional ",
                4..7 => "repeated ",
                _ => "",
            };
            let name = draw.one_of(&NAMES);
            let of = match draw.below(20) {
                scalar @ 0..12 => PROTOBUF[scalar].to_owned(),
                12 => "E".to_owned(),
                13 => format!("map<string, M{}>", draw.below(messages)),
                _ => format!("M{}", draw.below(messages)),
            };
            write!(text, "{label}{of} {name} = {number};").expect("a text takes more");
        }
        parts(draw, &mut text);
        match draw.below(4) {
            0 => write!(text, "message {} {{ M{at} x = 1; }} ", draw.one_of(&NAMES)),
            1 => write!(text, "M{} next = 9; ", (at + 1) % messages),
            _ => Ok(()),
        }
        .expect("a text takes more");
        text.push('}');
    }
    let values = (1..draw.byte()).fold(String::new(), |text, at| text + &format!("V{at} = {at};"));
    write!(text, "enum E {{ V0 = 0; {values} }}").expect("a text takes more");
    let name = ["b.proto", "the schema"][draw.below(2)].to_owned();
    let other = format!("syntax = \"proto3\"; {} message B {{ }}", draw.one_of(&PROTOBUF_PARTS));
    SchemaSource { text, references: vec![SchemaReference { name, text: other }] }
}

fn avro(draw: &mut Draw<'_>) -> SchemaSource {
    let records = match draw.byte() {
        255 => 16 * draw.byte(),
        few => few % 12 + 1,
    };
    let mut types = Vec::new();
    for at in 0..records {
        let mut fields = Vec::new();
        for _ in 0..draw.below(5) {
            let of = match draw.below(16) {
                scalar @ 0..12 => AVRO[scalar].to_owned(),
                _ => format!("\"R{}\"", draw.below(at + 1)),
            };
            let of = match draw.below(5) {
                0 => format!("{{\"type\":\"array\",\"items\":{of}}}"),
                1 => format!("{{\"type\":\"map\",\"values\":{of}}}"),
                2 => format!("[\"null\",{of}]"),
                _ => of,
            };
            fields.push(format!("{{\"name\":\"{}\",\"type\":{of}}}", draw.one_of(&NAMES)));
        }
        let fields = fields.join(",");
        let space = "n.".repeat(draw.byte().saturating_sub(200));
        types.push(format!(
            "{{\"type\":\"record\",\"namespace\":\"{space}\",\"name\":\"R{at}\",\"fields\":[{fields}]}}"
        ));
    }
    let text = if records == 1 { types.remove(0) } else { format!("[{}]", types.join(",")) };
    SchemaSource { text, references: Vec::new() }
}
