//! Schemas that cost more than their text, and those whose tables lie about their messages.

use std::fmt::Write as _;
use std::sync::Arc;

use super::tests::{read, source};
use super::*;
use crate::model::schema::SchemaReference;

fn compile(text: &str) -> Result<ProtobufSchema, String> {
    ProtobufSchema::compile(&source(text), &BTreeSet::new())
}

/// Messages of which each holds the next.
fn chain(length: usize) -> String {
    let mut text = "syntax = \"proto3\";".to_owned();
    for at in 1..length {
        write!(text, "message M{} {{ M{at} x = 1; }}", at - 1).unwrap();
    }
    text + &format!("message M{} {{}}", length - 1)
}

#[test]
fn a_chain_of_messages_is_refused_and_never_recursed_along() {
    assert!(compile(&chain(128)).is_ok());
    let why = compile(&chain(129)).unwrap_err();
    assert_eq!(why, "its types refer to each other deeper than 127 levels");
    let why = compile(&chain(4000)).unwrap_err();
    assert_eq!(why, "it has more than 2000 types");
    // As many types as may be, in a circle: of them, values are as deep as records say.
    let circle = chain(2000).replace("message M1999 {}", "message M1999 { M0 x = 1; }");
    assert_eq!(compile(&circle).unwrap().messages.len(), 2000);
}

#[test]
fn fields_share_the_names_of_their_enum() {
    let values = (0..10_000).fold(String::new(), |text, at| text + &format!("V{at} = {at};"));
    let fields = (1..1001).fold(String::new(), |text, at| text + &format!("E f{at} = {at};"));
    let schema = format!("syntax = \"proto3\"; enum E {{ {values} }} message M {{ {fields} }}");
    let schema = compile(&schema).unwrap();
    let names = schema.messages[0].fields.iter().map(|field| match &field.kind {
        Kind::Enum(names) => names,
        other => panic!("{other:?}"),
    });
    let names: Vec<&EnumNames> = names.collect();
    assert_eq!((names.len(), names[0].len()), (1000, 10_000));
    assert!(names.iter().all(|other| Arc::ptr_eq(names[0], other)));
    let aliases = "syntax = \"proto3\"; enum E { option allow_alias = true; A = 0; C = 2; B = 2; }
                   message M { E x = 1; }";
    assert_eq!(
        read(aliases, "driver=x", &[8, 2], TimeUnit::Millis),
        Ok("driver the text `C`".into())
    );
}

#[test]
fn what_a_schema_defines_is_bounded() {
    let fields = |from: usize, to: usize| {
        (from..to).fold(String::new(), |text, at| text + &format!("int32 f{at} = {at};"))
    };
    let values = (0..20_001).fold(String::new(), |text, at| text + &format!("V{at} = {at};"));
    let long = "a".repeat(256);
    for (text, why) in [
        (
            format!("message M {{ {} }}", fields(1, 18_999) + &fields(20_000, 21_003)),
            "20000 fields",
        ),
        (format!("enum E {{ {values} }}"), "20000 values of enums"),
        (format!("package {long}; message M {{}}"), "a name has 256 bytes"),
        (format!("message {long} {{}}"), "a name has 257 bytes"),
        (format!("message M {{ .{long} x = 1; }}"), "a name has 257 bytes"),
    ] {
        let problem = compile(&format!("syntax = \"proto3\"; {text}")).unwrap_err();
        assert!(problem.contains(why), "{problem}");
    }
}

#[test]
fn a_text_that_is_nested_deep_is_refused() {
    for nested in ["message A {", "message A {/*}*/", "message A { optional group G = 1 {"] {
        let problem = compile(&nested.repeat(10_000)).unwrap_err();
        assert!(problem.contains("recursion limit"), "{problem}");
    }
    let deep = ["{ a ".repeat(10_000), "}".repeat(10_000)].concat();
    assert!(compile(&format!("option (x) = {deep}; message M {{}}")).is_ok());
}

#[test]
fn files_that_import_each_other_publicly_are_read_once() {
    // Each imports the two before it: as many ways lead from the last to the first as there are
    // numbers of Fibonacci.
    let name = |at: usize| format!("f{at}.proto");
    let file = |at: usize| {
        let imports = (at.saturating_sub(2)..at)
            .fold(String::new(), |text, of| text + &format!("import public \"{}\";", name(of)));
        format!("syntax = \"proto3\"; {imports} message F{at} {{}}")
    };
    let references = (0..100).map(|at| SchemaReference { name: name(at), text: file(at) });
    let references: Vec<_> = references.collect();
    let imports =
        (0..100).fold(String::new(), |text, at| text + &format!("import \"{}\";", name(at)));
    let text = format!("syntax = \"proto3\"; {imports} message M {{ F0 x = 1; }}");
    let mut whole = SchemaSource { text, references };
    assert!(ProtobufSchema::compile(&whole, &BTreeSet::new()).is_ok());
    whole.references.push(SchemaReference { name: "one.proto".into(), text: String::new() });
    let problem = ProtobufSchema::compile(&whole, &BTreeSet::new()).unwrap_err();
    assert_eq!(problem, "it refers to more than 100 schemas");
}

#[test]
fn a_message_without_the_fields_that_its_name_promises_is_read() {
    let wrapper = "syntax = \"proto3\"; package google.protobuf; message DoubleValue {}
                   message M { DoubleValue x = 1; int32 y = 2; }";
    let found = read(wrapper, "driver=x,lat=y", &[10, 0, 16, 7], TimeUnit::Millis);
    assert_eq!(found, Ok("lat 7".to_owned()));
    let entry = "syntax = \"proto3\"; message E { option map_entry = true; }
                 message M { repeated E x = 1; }";
    let found = read(entry, "driver=/x/0", &[10, 0], TimeUnit::Millis);
    assert_eq!(found, Ok("driver an object".to_owned()));
}

#[test]
fn options_that_decide_no_value_are_not_resolved() {
    let text = "syntax = \"proto2\"; option (mine) = {a: [1, {b: 2}]};
                service S { rpc Get(None) returns (None); } extend None { optional int32 e = 100; }
                message M { option (mine) = 1; reserved 5 to 9; extensions 100 to max;
                            optional int32 x = 5 [(mine) = 'a', deprecated = true]; }";
    assert_eq!(read(text, "driver=x", &[40, 7], TimeUnit::Millis), Ok("driver 7".to_owned()));
}
