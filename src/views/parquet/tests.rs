use std::fs::File;
use std::io::Write as _;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor as _};
use serde_json::{Value, json};

use crate::codec::trip_row::TripRow;
use crate::model::scalar::{DeviceTime, Version};
use crate::segment::MintPoints;
use crate::timeline::{LegFilter, Path, READINGS, Reading, Sample};
use crate::views::{Detail, Extras, Form, TripWriter};

/// 2026-11-20T21:38:00.123Z
const T: DeviceTime = DeviceTime(1_795_210_680_123);

/// A trip of this many samples, one a second; the first has a speed.
fn trip(device: &str, samples: i32, absorbed: &[i64]) -> TripRow {
    let at = |nth: i32| {
        let mut readings = [Reading::ABSENT; READINGS];
        if nth == 0 {
            readings[0] = Reading::new(Some(1050));
        }
        Sample::new(T + i64::from(nth) * 1000, (nth * 7 - 3, nth * 5 + 1), readings)
    };
    let path = Path::from_sorted((0..samples).map(at)).unwrap();
    let retired = |after_s: &i64| (T + after_s * 1000, [2, 4].map(Version).into_iter().collect());
    let live = (T, std::iter::once(Version(2)).collect());
    let ids: MintPoints = absorbed.iter().map(retired).chain([live]).collect();
    TripRow::from_path(device, &path, (&ids, Version(4)), LegFilter::default())
}

fn read(bytes: Vec<u8>) -> SerializedFileReader<File> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    SerializedFileReader::new(file).unwrap()
}

fn written(mut writer: TripWriter<&mut Vec<u8>>, rows: &[TripRow]) {
    rows.iter().for_each(|row| writer.write(row, &Extras::default()).unwrap());
    assert_eq!(writer.finish().unwrap(), rows.len() as u64);
}

fn trips(rows: &[TripRow]) -> SerializedFileReader<File> {
    let mut out = Vec::new();
    written(TripWriter::new(&mut out, Form::Parquet, Detail::default()).unwrap(), rows);
    read(out)
}

/// The entry `geo` of the footer.
fn geo(file: &SerializedFileReader<File>) -> Value {
    let entries = file.metadata().file_metadata().key_value_metadata().unwrap();
    let geo = entries.iter().find(|entry| entry.key == "geo").unwrap();
    serde_json::from_str(geo.value.as_ref().unwrap()).unwrap()
}

fn rows(file: &SerializedFileReader<File>) -> Vec<Row> {
    file.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn value(row: &Row, name: &str) -> Field {
    let mut columns = row.get_column_iter();
    columns.find(|(column, _)| *column == name).unwrap().1.clone()
}

/// A value as JSON; times as ms.
fn json_of(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Int(number) => json!(number),
        Field::Long(number) | Field::TimestampMillis(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Str(text) => json!(text),
        Field::Group(row) => {
            row.get_column_iter().map(|(it, value)| (&**it, json_of(value))).collect()
        }
        Field::ListInternal(list) => list.elements().iter().map(json_of).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trip_has_its_values_and_its_samples() {
    let file = trips(&[trip("a", 1, &[]), trip("b", 3, &[1, 2])]);
    let found = rows(&file);
    let text = |at: usize, name: &str| json_of(&value(&found[at], name));
    assert_eq!(text(0, "id"), "a~20261120T213800.123Z");
    assert_eq!((text(0, "absorbed"), text(0, "driver")), (json!([]), Value::Null));
    let ids = ["b~20261120T213801.123Z", "b~20261120T213802.123Z"];
    assert_eq!((text(1, "absorbed"), text(1, "samples")), (json!(ids), json!(3)));
    assert_eq!(text(1, "max_speed_mps"), json!(10.5));
    let bbox = json!({"xmin": 1e-7, "ymin": -3e-7, "xmax": 11e-7, "ymax": 11e-7});
    assert_eq!(text(1, "bbox"), bbox);
    assert_eq!(value(&found[1], "start_time"), Field::TimestampMillis(T.ms()));
    assert_eq!(value(&found[1], "end_time"), Field::TimestampMillis(T.ms() + 2000));
    assert_eq!(text(1, "times"), json!([0, 1000, 2000].map(|ms| T.ms() + ms)));

    // Byte order, kind, then positions; a line has their number before them.
    let wkb = |row: &Row| row.get_bytes(row.len() - 1).unwrap().data().to_vec();
    let (point, line) = (wkb(&found[0]), wkb(&found[1]));
    assert_eq!((&point[..5], point.len()), (&[1, 1, 0, 0, 0][..], 5 + 16));
    assert_eq!((&line[..9], line.len()), (&[1, 2, 0, 0, 0, 3, 0, 0, 0][..], 9 + 3 * 16));
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!((number(&point[5..13]), number(&point[13..])), (1e-7, -3e-7));
    assert_eq!((number(&line[41..49]), number(&line[49..])), (11e-7, 11e-7));
}

#[test]
fn the_footer_describes_the_geometry() {
    let side = |name| json!(["bbox", name]);
    let covering = json!({"bbox": {
        "xmin": side("xmin"), "ymin": side("ymin"), "xmax": side("xmax"), "ymax": side("ymax"),
    }});
    let both = trips(&[trip("a", 1, &[]), trip("b", 3, &[])]);
    let geometry = json!({
        "encoding": "WKB", "geometry_types": ["Point", "LineString"],
        "bbox": [1e-7, -3e-7, 11e-7, 11e-7], "covering": covering,
    });
    let expected = json!({
        "version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": geometry},
    });
    assert_eq!(geo(&both), expected);
    // By which readers skip row groups; of paths it would be of no use.
    let columns = both.metadata().row_group(0).columns();
    assert!(columns[0].statistics().is_some() && columns[3].statistics().is_some());
    assert!(columns.last().unwrap().statistics().is_none());
    let lines = trips(&[trip("b", 3, &[])]);
    assert_eq!(geo(&lines)["columns"]["geometry"]["geometry_types"], json!(["LineString"]));
    let none = trips(&[]);
    assert_eq!((rows(&none).len(), none.num_row_groups()), (0, 0));
    assert_eq!(geo(&none)["columns"]["geometry"]["geometry_types"], json!([]));
    assert_eq!(geo(&none)["columns"]["geometry"]["bbox"], Value::Null);
}

#[test]
fn a_row_for_each_sample_in_row_groups_of_bounded_size() {
    let mut out = Vec::new();
    let writer = TripWriter::points(&mut out, Form::Parquet).unwrap();
    written(writer, &[trip("a", 100_000, &[]), trip("b", 30_000, &[])]);
    let file = read(out);
    let groups = file.metadata().row_groups();
    assert_eq!(groups.iter().map(|it| it.num_rows()).collect::<Vec<_>>(), [122_880, 7_120]);
    let found = rows(&file);
    assert_eq!(found.len(), 130_000);
    let at = |nth: usize, name: &str| json_of(&value(&found[nth], name));
    assert_eq!((at(0, "speed_mps"), at(1, "speed_mps")), (json!(10.5), Value::Null));
    assert_eq!(at(129_999, "trip_id"), "b~20261120T213800.123Z");
    assert_eq!(at(129_999, "time"), json!(T.ms() + 29_999_000));
}

#[test]
fn long_paths_fill_a_row_group_sooner() {
    // 24 bytes a sample: 14 trips of 100,000 exceed 32 MiB.
    let trips = trips(&vec![trip("a", 100_000, &[]); 20]);
    let groups = trips.metadata().row_groups().iter();
    assert_eq!(groups.map(|it| it.num_rows()).collect::<Vec<_>>(), [14, 6]);
}
