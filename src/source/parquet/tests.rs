//! Tests of files that other code writes, and of damaged ones.

use std::io::Write as _;

use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;

const SCHEMA: &str = "message m {
    required binary id (STRING);
    optional double lat;
    optional group gps { required int64 time (TIMESTAMP(MICROS,true)); }
    required int64 local (TIMESTAMP(MILLIS,false));
    required int32 day (DATE);
    required int32 price (DECIMAL(9,2));
    repeated int32 list;
}";

/// A file of row groups with this many rows each.
fn written(groups: &[usize], properties: WriterProperties) -> Vec<u8> {
    let (mut out, schema) = (Vec::new(), Arc::new(parse_message_type(SCHEMA).unwrap()));
    let mut file = SerializedFileWriter::new(&mut out, schema, Arc::new(properties)).unwrap();
    for rows in groups.iter().copied() {
        let mut group = file.next_row_group().unwrap();
        let present: Vec<i16> = (0..rows).map(|row| i16::from(row % 3 != 1)).collect();
        let count = present.iter().filter(|level| **level == 1).count();
        let zero = vec![0; rows];
        let mut index = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            let (present, zero) = (Some(&present[..]), Some(&zero[..]));
            match index {
                0 => {
                    let ids: Vec<_> =
                        (0..rows).map(|row| ByteArray::from(&*format!("v\"{}", row % 2))).collect();
                    column.typed::<ByteArrayType>().write_batch(&ids, None, None).unwrap();
                }
                1 => {
                    let lats = vec![48.5; count];
                    column.typed::<DoubleType>().write_batch(&lats, present, None).unwrap();
                }
                2 => {
                    let times = vec![1_774_591_450_000_001; count];
                    column.typed::<Int64Type>().write_batch(&times, present, None).unwrap();
                }
                3 => {
                    let times = vec![1_774_591_450_000; rows];
                    column.typed::<Int64Type>().write_batch(&times, None, None).unwrap();
                }
                4 => {
                    column
                        .typed::<Int32Type>()
                        .write_batch(&vec![20_539; rows], None, None)
                        .unwrap();
                }
                5 => {
                    column.typed::<Int32Type>().write_batch(&vec![-105; rows], None, None).unwrap();
                }
                _ => {
                    column.typed::<Int32Type>().write_batch(&[], zero, zero).unwrap();
                }
            };
            column.close().unwrap();
            index += 1;
        }
        group.close().unwrap();
    }
    file.close().unwrap();
    out
}

fn zstd() -> WriterProperties {
    let level = ::parquet::basic::ZstdLevel::try_new(1).unwrap();
    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build()
}

/// The text of a file.
fn read(bytes: &[u8]) -> io::Result<String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    let mut text = String::new();
    Rows::open(file, Box::new(|_| ()))?.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn each_row_is_an_object() {
    let row = |id: u32| {
        format!(
            "{{\"id\":\"v\\\"{id}\",\"lat\":48.5,\"gps.time\":\"2026-03-27T06:04:10.000Z\",\
             \"local\":\"2026-03-27T06:04:10.000\",\"day\":\"2026-03-27\",\"price\":-1.05}}\n"
        )
    };
    let without = "{\"id\":\"v\\\"1\",\"local\":\"2026-03-27T06:04:10.000\",\
                   \"day\":\"2026-03-27\",\"price\":-1.05}\n";
    let expected = row(0) + without + &row(0);
    for properties in [WriterProperties::builder().build(), zstd()] {
        assert_eq!(read(&written(&[3], properties)).unwrap(), expected);
    }
    let v2 = ::parquet::file::properties::WriterVersion::PARQUET_2_0;
    let plain = WriterProperties::builder().set_dictionary_enabled(false).set_writer_version(v2);
    let error = read(&written(&[3], plain.build())).unwrap_err().to_string();
    assert!(error.contains("write the file again with version 1 of data pages"), "{error}");
    let v2 = WriterProperties::builder().set_writer_version(v2).build();
    assert_eq!(read(&written(&[3], v2)).unwrap(), expected);
}

#[test]
fn row_groups_and_batches_follow_each_other() {
    let text = read(&written(&[2500, 1, 0, 1024], zstd())).unwrap();
    assert_eq!(text.lines().count(), 3525);
    for line in text.lines() {
        assert!(serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].is_string());
    }
}

/// Damage is an error, and neither a panic nor much memory.
#[test]
fn damaged_files_are_refused() {
    let bytes = written(&[40], zstd());
    assert!(read(&bytes).is_ok());
    for cut in (0..bytes.len()).step_by(7) {
        assert!(read(&bytes[..cut]).is_err(), "{cut}");
    }
    let encrypted = [&bytes[..bytes.len() - 1], b"E"].concat();
    assert!(read(&encrypted).unwrap_err().to_string().contains("decrypt it first"));
    // Each byte alone, which may also change a value.
    for at in 4..bytes.len() {
        for value in [0, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            read(&damaged).ok();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_damage_is_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        is_compressed in any::<bool>(),
    ) {
        let properties = if is_compressed { zstd() } else { WriterProperties::builder().build() };
        let mut bytes = written(&[30], properties);
        for (index, value) in changes {
            let length = bytes.len();
            bytes[index.index(length)] = value;
        }
        read(&bytes).ok();
    }
}
