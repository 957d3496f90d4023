//! Finds the preset that reads a record.

use std::sync::LazyLock;

use super::decode::Decoder;
use super::formats::csv::Columns;
use super::formats::{self, Framing};
use super::split::{RawJson, RecordPosition};
use super::{Batch, RecordContext, ZONE_TABLES};
use crate::model::input_format::InputFormat;
use crate::model::preset::{PRESETS, Preset};
use crate::model::rules::Rules;

/// Presets for tables, which have few columns of their own: fewer would be a chance hit.
const LEAST_COLUMNS: usize = 6;

/// The decoder of each preset.
static DECODERS: LazyLock<Vec<(&Preset, Decoder)>> = LazyLock::new(|| {
    let decoder = |preset: &'static Preset| {
        let mut rules = Rules::default();
        preset.expand(&mut rules, ZONE_TABLES);
        Some((preset, Decoder::new(&rules).ok()?))
    };
    PRESETS.iter().filter_map(decoder).collect()
});

/// The first preset that reads a sample from a record, such as one that became a dead letter.
#[must_use]
pub(crate) fn suggest(record: &[u8], context: &RecordContext<'_>) -> Option<&'static Preset> {
    let record = record.trim_ascii();
    let mut formats = InputFormat::ALL.iter().map(|format| formats::definition(*format));
    let format = formats.find(|format| (format.is_record)(record))?;
    let reads = |(preset, decoder): &&(&'static Preset, Decoder)| match format.read {
        None => is_own(preset) && reads(decoder, (format.body)(record), context),
        Some(read) => {
            let mut text = String::new();
            Some(preset.name) == format.preset
                && decoder.decode_by(read, record, context, &mut text).is_ok()
        }
    };
    DECODERS.iter().find(reads).map(|(preset, _)| *preset)
}

/// Whether the names in records of a preset are its own: others would read any record with the
/// usual names.
fn is_own(preset: &Preset) -> bool {
    let mut formats = InputFormat::ALL.iter().map(|format| formats::definition(*format));
    preset.name != "gpslogger" && formats.all(|format| format.preset != Some(preset.name))
}

/// The presets that may read files of a format, of which this is the first line.
#[must_use]
pub(crate) fn presets_for(format: InputFormat, first_line: &[u8]) -> Vec<&'static Preset> {
    let format = formats::definition(format);
    let may_read = |(preset, decoder): &&(&'static Preset, Decoder)| match format.preset {
        Some(name) => preset.name == name,
        None if format.framing == Framing::Rows => reads_table(decoder, first_line),
        None => is_own(preset),
    };
    DECODERS.iter().filter(may_read).map(|(preset, _)| *preset).collect()
}

/// The first preset that reads a table with this header.
pub(super) fn suggest_for_table(header: &[u8]) -> Option<&'static Preset> {
    let known = DECODERS.iter().find(|(_, decoder)| reads_table(decoder, header));
    known.map(|(preset, _)| *preset)
}

fn reads_table(decoder: &Decoder, header: &[u8]) -> bool {
    let columns = Columns::new(header, None, &decoder.shape);
    columns.is_ok_and(|columns| columns.fields() >= LEAST_COLUMNS)
}

/// Whether a record of JSON has a sample.
fn reads(decoder: &Decoder, value: &[u8], context: &RecordContext<'_>) -> bool {
    let mut batch = Batch::default();
    let check = &|_: &str| Ok(());
    let json = RawJson { value, context: *context, schema_id: None, check };
    decoder.split(&json, &RecordPosition::default(), &mut batch);
    batch.entries.iter().any(|entry| entry.content.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str) -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/formats/");
        std::fs::read_to_string(format!("{path}{name}")).unwrap()
    }

    fn suggested(record: &str, context: &RecordContext<'_>) -> Option<&'static str> {
        suggest(record.as_bytes(), context).map(|preset| preset.name)
    }

    #[test]
    fn every_preset_has_a_decoder() {
        assert_eq!(DECODERS.len(), PRESETS.len());
    }

    #[test]
    fn the_preset_of_a_record_is_found() {
        let of_file = RecordContext::of_file("van-7.x");
        for (file, name) in [
            ("traccar-client/bodies.ndjson", "traccar-client"),
            ("owntracks/http-bodies.ndjson", "owntracks"),
            ("overland/batches.ndjson", "overland"),
            ("flespi/http-stream.ndjson", "flespi"),
            ("samsara/kafka-asset-location.ndjson", "samsara"),
            ("gtfs-rt/entities-to-kafka.ndjson", "gtfs-rt"),
            ("kafka-connect/json-with-schema.ndjson", "kafka-connect"),
        ] {
            let text = reference(file);
            assert_eq!(suggested(text.lines().next().unwrap(), &of_file), Some(name), "{file}");
        }
        for (file, name) in [
            ("traccar/api-positions.json", "traccar-api"),
            ("samsara/vehicles-stats-history.json", "samsara-history"),
            ("mds/telemetry.json", "mds"),
            ("geotab/dig-records.json", "geotab"),
            ("geotab/logrecord-feed.json", "geotab"),
            ("gpslogger/van-1.geojson", "geojson"),
        ] {
            assert_eq!(suggested(&reference(file), &of_file), Some(name), "{file}");
        }
        let point = "<trkpt lat='1' lon='2'><time>2026-11-20T07:00:00Z</time></trkpt>";
        assert_eq!(suggested(point, &of_file), Some("gpx"));
        let text = reference("nmea/van-2.nmea");
        assert_eq!(suggested(text.lines().next().unwrap(), &of_file), Some("nmea"));
        for (file, name) in [
            ("traccar/kafka.tsv", "traccar"),
            ("mqtt-bridge/emqx.tsv", "emqx"),
            ("hfp/mqtt-to-kafka.tsv", "hfp"),
            ("tesla/kafka-V-decoded.tsv", "tesla"),
            ("nammayatri/kafka.tsv", "namma-yatri"),
        ] {
            let text = reference(file);
            let (key, value) = text.lines().next().unwrap().split_once('\t').unwrap();
            let context = RecordContext { key: Some(key.as_bytes()), ..RecordContext::default() };
            assert_eq!(suggested(value, &context), Some(name), "{file}");
        }
    }

    #[test]
    fn a_record_of_no_producer_has_no_preset() {
        let of_file = RecordContext::of_file("van-7.ndjson");
        for record in [
            "",
            "x",
            "{",
            "[]",
            r#"{"lat":1,"lon":2,"time":3}"#,
            r#"{"device_id":"a","lat":100,"lon":2,"time":3}"#,
            "<trkpt lat='1' lon='2'/>",
            "$GPRMC,1*00",
        ] {
            assert_eq!(suggested(record, &of_file), None, "{record}");
        }
    }

    #[test]
    fn the_preset_of_a_table_is_found() {
        let of = |header: &str| suggest_for_table(header.as_bytes()).map(|preset| preset.name);
        let text = reference("gpslogger/van-1.eu.csv");
        assert_eq!(of(text.lines().next().unwrap()), Some("gpslogger"));
        let traccar = "id,deviceId,protocol,serverTime,deviceTime,fixTime,valid,latitude,longitude,\
                       altitude,speed,course,address,accuracy,sat";
        assert_eq!(of(traccar), Some("traccar-csv"));
        for header in ["", "a,b", "time,lat,lon", "device,time,lat,lon"] {
            assert_eq!(of(header), None, "{header}");
        }
    }
}
