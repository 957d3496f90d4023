//! Samples as each producer writes them: what the bench of presets decodes, and the test that all
//! presets give the same trips.

use std::fmt::Display;

use chrono::DateTime;
use tstar::internals::model::preset::Preset;
use tstar::internals::model::rules::{Rules, SpeedUnit, TimeUnit};
use tstar::internals::model::schema::{Encoding, SchemaId, SchemaSource, SchemaVerdict};
use tstar::internals::source::{Decoder, ZONE_TABLES, parse_map};

use self::json::canonical;

#[path = "encode_binary.rs"]
mod binary;
#[path = "encode_files.rs"]
mod files;
#[path = "encode_json.rs"]
mod json;

/// A sample to write. Its values are exact in every format: positions in 1/128 degrees, speeds in
/// steps of 5 m/s, all others whole.
#[derive(Clone, Debug)]
pub struct Point {
    /// Letters, digits and hyphens.
    pub device: String,
    /// ms since 1970.
    pub time_ms: i64,
    pub lat: f64,
    pub lon: f64,
    /// m/s.
    pub speed: Option<u16>,
    pub heading: Option<u16>,
    pub altitude: Option<i16>,
    pub accuracy: Option<u16>,
    pub ignition: Option<bool>,
    pub driver: Option<String>,
}

/// What a format can say besides device, time and position.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carries {
    pub millis: bool,
    pub speed: bool,
    pub heading: bool,
    pub altitude: bool,
    pub accuracy: bool,
    pub ignition: bool,
    pub driver: bool,
}

impl Point {
    /// The sample without what a format cannot say.
    pub fn reduced(&self, carries: Carries) -> Self {
        let whole = self.time_ms - self.time_ms.rem_euclid(1000);
        Self {
            device: self.device.clone(),
            time_ms: if carries.millis { self.time_ms } else { whole },
            lat: self.lat,
            lon: self.lon,
            speed: self.speed.filter(|_| carries.speed),
            heading: self.heading.filter(|_| carries.heading),
            altitude: self.altitude.filter(|_| carries.altitude),
            accuracy: self.accuracy.filter(|_| carries.accuracy),
            ignition: self.ignition.filter(|_| carries.ignition),
            driver: self.driver.clone().filter(|_| carries.driver),
        }
    }

    fn seconds(&self) -> i64 {
        self.time_ms.div_euclid(1000)
    }

    /// The time by a pattern of strftime.
    fn time(&self, pattern: &str) -> String {
        let time = DateTime::from_timestamp_millis(self.time_ms).expect("the time is of this age");
        time.format(pattern).to_string()
    }

    /// RFC 3339 with ms.
    fn rfc3339(&self) -> String {
        self.time("%Y-%m-%dT%H:%M:%S%.3fZ")
    }

    fn knots(&self) -> Option<f64> {
        self.speed.map(|speed| f64::from(speed) * 3600.0 / 1852.0)
    }

    /// Whole, since speeds are in steps of 5 m/s.
    fn kmh(&self) -> Option<u32> {
        self.speed.map(|speed| u32::from(speed) * 18 / 5)
    }

    fn mph(&self) -> Option<f64> {
        self.speed.map(|speed| f64::from(speed) / 0.447_04)
    }
}

/// Where the schema of a format comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The default rules.
    Canonical,
    Preset(&'static str),
    /// The schema of the rules, or of the id that each record names.
    Schema(Encoding, Option<u32>),
    /// Binary feeds of GTFS-realtime, of which the first entity is read.
    Feed,
}

/// How samples come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Records of a topic with this number of samples each.
    Records(usize),
    /// A file for each device, with this extension.
    Files(&'static str),
}

/// Writes a record that is not text.
pub type EncodeBinary = fn(&[Point]) -> Vec<u8>;

/// A format that a preset, or a schema, reads.
#[derive(Clone, Copy)]
pub struct Format {
    pub name: &'static str,
    pub reader: Reader,
    pub carries: Carries,
    pub form: Form,
    /// Writes a record, or a file.
    pub encode: fn(&[Point]) -> String,
    /// Writes a record that is not text.
    pub encode_binary: Option<EncodeBinary>,
    /// The key of a record.
    pub key: fn(&Point) -> String,
}

impl Format {
    /// What most formats have in common.
    const BASE: Self = Self {
        name: "",
        reader: Reader::Canonical,
        carries: Carries {
            millis: true,
            speed: true,
            heading: true,
            altitude: true,
            accuracy: true,
            ignition: false,
            driver: false,
        },
        form: Form::Records(1),
        encode: canonical,
        encode_binary: None,
        key: |point| point.device.clone(),
    };

    const fn preset(name: &'static str, encode: fn(&[Point]) -> String) -> Self {
        Self { name, reader: Reader::Preset(name), encode, ..Self::BASE }
    }

    /// The bytes of a record or a file.
    pub fn bytes(&self, points: &[Point]) -> Vec<u8> {
        match self.encode_binary {
            Some(encode) => encode(points),
            None => (self.encode)(points).into_bytes(),
        }
    }

    /// The rules that read the format.
    pub fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        match self.reader {
            Reader::Canonical => {}
            Reader::Preset(name) => {
                let preset = Preset::by_name(name).expect("the preset exists");
                preset.expand(&mut rules, ZONE_TABLES);
            }
            Reader::Feed => {
                rules.decode = Encoding::GtfsRt;
                let map = "device_id=/entity/0/vehicle/vehicle/id,\
                           time=/entity/0/vehicle/timestamp,\
                           lat=/entity/0/vehicle/position/latitude,\
                           lon=/entity/0/vehicle/position/longitude,\
                           speed=/entity/0/vehicle/position/speed,\
                           heading=/entity/0/vehicle/position/bearing";
                rules.fields = parse_map(map).expect("the map is valid");
                rules.time_unit = TimeUnit::Seconds;
            }
            Reader::Schema(encoding, id) => {
                rules.decode = encoding;
                let time = if encoding == Encoding::Avro { "ts" } else { "ts_ms" };
                let map = format!(
                    "device_id=vehicle_id,time={time},lat=/position/lat,lon=/position/lon,\
                     speed=speed_kmh"
                );
                rules.fields = parse_map(&map).expect("the map is valid");
                rules.speed_unit = SpeedUnit::KilometresPerHour;
                if id.is_none() {
                    rules.schema = Some(schema(encoding));
                    let message =
                        (encoding == Encoding::Protobuf).then(|| "VehiclePosition".into());
                    rules.message = message;
                }
            }
        }
        rules
    }

    /// A decoder that knows the schema of each record.
    pub fn decoder(&self) -> Decoder {
        let decoder = Decoder::new(&self.rules()).expect("the rules are valid");
        if let Reader::Schema(encoding, Some(id)) = self.reader {
            let kind = if encoding == Encoding::Avro { "AVRO" } else { "PROTOBUF" };
            let verdict = SchemaVerdict::Known { kind: kind.into(), source: schema(encoding) };
            decoder.add_schema(SchemaId::Number(id), &verdict);
        }
        decoder
    }
}

fn schema(encoding: Encoding) -> SchemaSource {
    let text = match encoding {
        Encoding::Avro => include_str!("../../data/formats/avro/schema.avsc"),
        _ => include_str!("../../data/formats/protobuf/vehicle_position.proto"),
    };
    SchemaSource { text: text.into(), references: Vec::new() }
}

/// The ids of the schemas in the framed formats.
const AVRO_ID: u32 = 7;
const PROTOBUF_ID: u32 = 8;

/// The format with which all others are compared, as records and as files.
pub const BASELINES: [Format; 2] = [
    Format {
        name: "canonical",
        carries: Carries { ignition: true, driver: true, ..Format::BASE.carries },
        ..Format::BASE
    },
    Format {
        name: "canonical file",
        carries: Carries { ignition: true, driver: true, ..Format::BASE.carries },
        form: Form::Files("ndjson"),
        ..Format::BASE
    },
];

/// All other formats.
pub fn formats() -> Vec<Format> {
    let mut all = json::formats();
    all.extend(binary::formats());
    all.extend(files::formats());
    all
}

/// A member of an object after another one; nothing if it has no value.
fn member<T: Display>(name: &str, value: Option<T>) -> String {
    value.map_or_else(String::new, |value| format!(",\"{name}\":{value}"))
}

/// A member that is a text.
fn text_member(name: &str, value: Option<&str>) -> String {
    member(name, value.map(|value| format!("\"{value}\"")))
}
