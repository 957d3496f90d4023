use super::*;

fn name(name: &str) -> Token {
    Token::Name(name.into())
}

fn parsed(text: &str) -> FieldMap {
    FieldMap::new(&parse_map(text).unwrap()).unwrap()
}

fn list(map: &str, field: Field) -> Vec<Source> {
    parsed(map).sources(field).unwrap().list.clone()
}

#[test]
fn a_map_is_parsed() {
    let map = parse_map("device_id=vehicle, lat=/gps/lat,driver=a=b").unwrap();
    assert_eq!(map["device_id"], "vehicle");
    assert_eq!(map["lat"], "/gps/lat");
    assert_eq!(map["driver"], "a=b");
    assert_eq!(list("driver=a=b", Field::Driver), [Source::Record(vec![name("a=b")])]);
    let path = vec![name("a/b"), name("~"), name("")];
    assert_eq!(list("lat=/a~1b/~0/", Field::Lat), [Source::Record(path)]);
}

#[test]
fn each_source_is_parsed() {
    let around = |around| vec![Source::Around(around)];
    for (text, expected) in [
        ("@key", around(Around::Key)),
        ("@key/2", around(Around::KeyPart(2))),
        ("@header:X-Limit-D", around(Around::Header("X-Limit-D".into()))),
        ("@topic", around(Around::Topic)),
        ("@file", around(Around::File)),
        ("=van-1", vec![Source::Constant("van-1".into())]),
        ("/@key", vec![Source::Record(vec![name("@key")])]),
        ("[a=b]", vec![Source::Record(vec![name("[a=b]")])]),
        (
            "/data/[key=Lo~1c]/v",
            vec![Source::Record(vec![
                name("data"),
                Token::Member { name: "key".into(), value: "Lo/c".into() },
                name("v"),
            ])],
        ),
        (
            "/p/id | @header:D|=x",
            vec![
                Source::Record(vec![name("p"), name("id")]),
                Source::Around(Around::Header("D".into())),
                Source::Constant("x".into()),
            ],
        ),
    ] {
        assert_eq!(list(&format!("device_id={text}"), Field::DeviceId), expected, "{text}");
    }
}

#[test]
fn samples_conditions_and_validity_are_parsed() {
    let map = parsed("samples=/data/*/gps,open=payload,when=/t=a;b&/p&@key/1=x,valid=/ok|ok");
    let arrays = vec![vec![name("data")], vec![name("gps")]];
    let samples = map.samples.unwrap();
    assert_eq!((samples.list, samples.or_record), (vec![arrays], false));
    let samples = parsed("samples=/a|/|/b/*/c").samples.unwrap();
    let lists = vec![vec![vec![name("a")]], vec![vec![name("b")], vec![name("c")]]];
    assert_eq!((samples.list, samples.or_record), (lists, true));
    assert_eq!(map.open.unwrap().1, [name("payload")]);
    assert_eq!(map.valid.unwrap().list.len(), 2);
    let shown = map.when.iter().map(|condition| (&condition.sources[0], &condition.values[..]));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            (&Source::Record(vec![name("t")]), &["a".into(), "b".into()][..]),
            (&Source::Record(vec![name("p")]), &[]),
            (&Source::Around(Around::KeyPart(1)), &["x".into()]),
        ]
    );
    let map = parsed("when=/d/[key=T]/value=5");
    let member = Token::Member { name: "key".into(), value: "T".into() };
    let path = vec![name("d"), member, name("value")];
    let (source, values) = (Source::Record(path), vec!["5".into()]);
    let text = "/d/[key=T]/value=5".into();
    assert_eq!(map.when, [Condition { text, sources: vec![source], is_negated: false, values }]);
}

#[test]
fn conditions_are_negated_and_have_alternatives() {
    let map = parsed("when=!/event&/Lat|/lat&!/t=a;b,device_id=/topic/{2}|/{2}|{2}");
    let shown = map.when.iter().map(|it| (it.is_negated, it.sources.len(), it.values.len()));
    assert_eq!(shown.collect::<Vec<_>>(), [(true, 1, 0), (false, 2, 0), (true, 1, 2)]);
    let part = Source::Record(vec![name("topic"), Token::Part(2)]);
    let plain = |text| Source::Record(vec![name(text)]);
    let sources = map.sources(Field::DeviceId).unwrap();
    assert_eq!(sources.list, [part, plain("{2}"), plain("{2}")]);
}

#[test]
fn a_table_needs_a_source_that_is_not_nested() {
    let nested = |map: &str| parsed(map).nested().map(|(name, _)| name.to_owned());
    for map in ["lat=y|/gps/lat", "lat=/y", "samples=/features|/,lat=y", "valid=/a/b|v", "when=v"] {
        assert_eq!(nested(map), None, "{map}");
    }
    for (map, name) in [("lat=/a/b|/c/d", "lat"), ("samples=/a", "samples"), ("when=/a/b", "when")]
    {
        assert_eq!(nested(map).as_deref(), Some(name), "{map}");
    }
}

#[test]
fn an_invalid_map_has_a_reason() {
    for (text, why) in [
        ("", "is not FIELD=NAME"),
        ("lat", "is not FIELD=NAME"),
        ("lat=a,", "is not FIELD=NAME"),
        ("latitude=a", "is not a field; the fields are device_id, time, lat"),
        ("sample=/a", "also has samples, open, when and valid"),
        ("lat=", "empty name"),
        ("lat=a,lat=b", "mapped twice"),
        ("lat=/a~2", "is not a JSON Pointer"),
        ("lat=/a~", "is not a JSON Pointer"),
        ("samples=/a/*", "* stands between two names"),
        ("samples=/*/a", "* stands between two names"),
        ("samples=/a~2", "is not a JSON Pointer"),
        ("samples=/", "is the record itself"),
        ("samples=/a|", "empty name"),
        ("open=", "open is mapped to an empty name"),
        ("when=/a=", "compares with nothing"),
        ("when=/a=b;", "compares with nothing"),
        ("when=/a&", "names nothing"),
        ("when==x", "names nothing"),
        ("valid=@kee", "`@kee` is not a source"),
        ("when=/a/[=b]=c", "`[=b]` selects no element"),
        ("lat=@lat", "write @key, @key/N, @header:NAME, @topic or @file, and /@NAME"),
        ("lat=@key/x", "a number from 0"),
        ("lat=@key/-1", "a number from 0"),
        ("lat=@key/", "a number from 0"),
        ("lat=@header:", "names no header"),
        ("lat==", "empty constant"),
        ("lat=a|", "empty name"),
        ("lat=/a/[k=]", "`[k=]` selects no element"),
        ("lat=a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q", "17 sources; the limit is 16"),
    ] {
        let message = parse_map(text).unwrap_err().to_string();
        assert!(message.contains(why), "{text}: {message}");
    }
    let map = BTreeMap::from([("latitude".to_owned(), "x".to_owned())]);
    assert!(FieldMap::new(&map).is_err());
}
