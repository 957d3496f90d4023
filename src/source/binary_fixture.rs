//! Records of the reference data, for the tests of binary encodings.

use std::path::PathBuf;

use data_encoding::HEXLOWER;

use super::{Decoder, NoSample, RecordContext, SampleError};
use crate::model::rules::Rules;
use crate::timeline::Sample;

/// Path of a file of the reference data.
pub(super) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name)
}

/// The text of a file of the reference data.
pub(super) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

/// The values of a file of keys and hex values.
pub(super) fn records(name: &str) -> Vec<Vec<u8>> {
    let records = text(name);
    let lines = records.lines().filter(|line| !line.starts_with('#'));
    let value = |line: &str| HEXLOWER.decode(line.split_once('\t').unwrap().1.as_bytes()).unwrap();
    lines.map(value).collect()
}

/// What a record says: device, driver, ignition and sample.
pub(super) type Sampled = (String, Option<String>, Option<bool>, Sample);

/// Decodes a record.
pub(super) fn decode(
    decoder: &Decoder,
    header: Option<&[u8]>,
    record: &[u8],
) -> Result<Sampled, Box<SampleError>> {
    let (mut text, context) = (String::new(), RecordContext::default());
    let decoded = decoder.decode((header, record), &context, &mut text).map_err(dead)?;
    let at = |span: &super::Span| text[span.start as usize..span.end as usize].to_owned();
    let (device, driver) = (at(&decoded.device), decoded.driver.as_ref().map(at));
    Ok((device, driver, decoded.sample.ignition, decoded.sample))
}

fn dead(none: NoSample) -> Box<SampleError> {
    match none {
        NoSample::Dead(error) => error,
        other => panic!("{other:?}: no map of these tests skips or drops samples"),
    }
}

/// The same samples as canonical JSON, without altitude and accuracy.
pub(super) fn expected() -> Vec<Sampled> {
    let decoder = Decoder::new(&Rules::default()).unwrap();
    let lines = text("canonical.ndjson");
    let object = |line: &str| {
        let mut object: serde_json::Value = serde_json::from_str(line).unwrap();
        for name in ["altitude", "accuracy"] {
            object.as_object_mut().unwrap().remove(name);
        }
        object.to_string()
    };
    lines.lines().map(|line| decode(&decoder, None, object(line).as_bytes()).unwrap()).collect()
}
