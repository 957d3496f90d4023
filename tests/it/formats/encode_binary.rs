//! The formats that are not text.

use super::{AVRO_ID, Carries, Encoding, Format, PROTOBUF_ID, Point, Reader};

pub fn formats() -> Vec<Format> {
    let base = Format::BASE.carries;
    let moving = Carries { altitude: false, accuracy: false, ..base };
    let all = Carries { ignition: true, driver: true, ..moving };
    let row = |name, (encoding, id), carries, encode| Format {
        name,
        reader: Reader::Schema(encoding, id),
        carries,
        encode_binary: Some(encode),
        ..Format::BASE
    };
    let (avro_ids, protobuf_ids) =
        ((Encoding::Avro, Some(AVRO_ID)), (Encoding::Protobuf, Some(PROTOBUF_ID)));
    vec![
        row("avro", (Encoding::Avro, None), all, avro as fn(&[Point]) -> Vec<u8>),
        row("avro, schema id", avro_ids, all, avro_framed),
        row("protobuf", (Encoding::Protobuf, None), all, protobuf),
        row("protobuf, schema id", protobuf_ids, all, protobuf_framed),
        Format {
            name: "gtfs-rt binary",
            reader: Reader::Feed,
            carries: Carries { millis: false, ..moving },
            encode_binary: Some(feed),
            ..Format::BASE
        },
    ]
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("seven bits"));
}

fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)).cast_unsigned(), out);
}

/// A text of Avro.
fn avro_text(text: &str, out: &mut Vec<u8>) {
    zigzag(i64::try_from(text.len()).expect("it is short"), out);
    out.extend_from_slice(text.as_bytes());
}

/// A datum of the schema of the reference data.
fn avro(points: &[Point]) -> Vec<u8> {
    let (point, mut out) = (&points[0], Vec::new());
    avro_text(&point.device, &mut out);
    zigzag(point.time_ms, &mut out);
    out.extend(point.lat.to_le_bytes());
    out.extend(point.lon.to_le_bytes());
    zigzag(i64::from(point.speed.is_some()), &mut out);
    out.extend(point.kmh().map(f64::from).map(f64::to_le_bytes).into_iter().flatten());
    zigzag(i64::from(point.heading.is_some()), &mut out);
    out.extend(point.heading.map(f32::from).map(f32::to_le_bytes).into_iter().flatten());
    out.push(u8::from(point.ignition == Some(true)));
    zigzag(i64::from(point.driver.is_some()), &mut out);
    if let Some(driver) = &point.driver {
        avro_text(driver, &mut out);
    }
    out
}

/// A record in the wire form of a registry.
fn framed(id: u32, indexes: &[u8], value: &[u8]) -> Vec<u8> {
    [&[0], &id.to_be_bytes()[..], indexes, value].concat()
}

fn avro_framed(points: &[Point]) -> Vec<u8> {
    framed(AVRO_ID, &[], &avro(points))
}

fn tag(field: u64, wire: u64, out: &mut Vec<u8>) {
    varint(field << 3 | wire, out);
}

fn bytes_field(field: u64, value: &[u8], out: &mut Vec<u8>) {
    tag(field, 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn float_field(field: u64, value: Option<u16>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        tag(field, 5, out);
        out.extend(f32::from(value).to_le_bytes());
    }
}

/// A message of the schema of the reference data.
fn protobuf(points: &[Point]) -> Vec<u8> {
    let (point, mut out, mut position) = (&points[0], Vec::new(), Vec::new());
    bytes_field(1, point.device.as_bytes(), &mut out);
    tag(2, 0, &mut out);
    varint(point.time_ms.cast_unsigned(), &mut out);
    for (field, value) in [(1, point.lat), (2, point.lon)] {
        tag(field, 1, &mut position);
        position.extend(value.to_le_bytes());
    }
    bytes_field(3, &position, &mut out);
    if let Some(kmh) = point.kmh() {
        tag(4, 1, &mut out);
        out.extend(f64::from(kmh).to_le_bytes());
    }
    float_field(5, point.heading, &mut out);
    if point.ignition == Some(true) {
        tag(6, 0, &mut out);
        out.push(1);
    }
    if let Some(driver) = &point.driver {
        bytes_field(7, driver.as_bytes(), &mut out);
    }
    out
}

/// The message is the second one of its file.
fn protobuf_framed(points: &[Point]) -> Vec<u8> {
    framed(PROTOBUF_ID, &[2, 2], &protobuf(points))
}

/// A feed of GTFS-realtime, with an entity for each sample.
fn feed(points: &[Point]) -> Vec<u8> {
    let (mut out, mut header) = (Vec::new(), Vec::new());
    bytes_field(1, b"2.0", &mut header);
    bytes_field(1, &header, &mut out);
    for point in points {
        let [mut entity, mut vehicle, mut position, mut descriptor, mut trip] =
            [const { Vec::new() }; 5];
        bytes_field(1, b"trip-7", &mut trip);
        bytes_field(1, &trip, &mut vehicle);
        for (field, value) in [(1, point.lat), (2, point.lon)] {
            tag(field, 5, &mut position);
            #[expect(clippy::cast_possible_truncation, reason = "positions are in 1/128 degrees")]
            position.extend((value as f32).to_le_bytes());
        }
        float_field(3, point.heading, &mut position);
        float_field(5, point.speed, &mut position);
        bytes_field(2, &position, &mut vehicle);
        tag(5, 0, &mut vehicle);
        varint(point.seconds().cast_unsigned(), &mut vehicle);
        bytes_field(1, point.device.as_bytes(), &mut descriptor);
        bytes_field(2, b"Van", &mut descriptor);
        bytes_field(8, &descriptor, &mut vehicle);
        bytes_field(1, b"0", &mut entity);
        bytes_field(4, &vehicle, &mut entity);
        bytes_field(2, &entity, &mut out);
    }
    out
}
