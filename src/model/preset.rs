//! Presets: the field map and the units of well-known producers, by name.
//!
//! Rules store what a preset expands to, and its version. A change of a row gets a new version: it
//! reaches new stores only.

use std::collections::BTreeMap;

pub(crate) use self::table::OSMAND;

pub use self::table::PRESETS;
use super::rules::{Rules, SpeedUnit, TimeUnit};
use super::schema::Encoding;

mod table;

/// The records of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Name in settings.
    pub name: &'static str,
    /// Version of this row, from 1.
    pub version: u32,
    /// What it reads, in one line.
    pub about: &'static str,
    /// Where the producer describes its records.
    pub source: &'static str,
    /// Entries of the field map.
    pub map: &'static [&'static str],
    /// Unit of integer times.
    pub time_unit: TimeUnit,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// Zone of times without an offset.
    pub time_zone: Option<&'static str>,
    /// What the key of a log record must be, as in [`Rules::key`].
    pub key: &'static str,
    /// How the values of records are encoded.
    pub decode: Encoding,
}

impl Preset {
    /// What most presets have in common.
    const BASE: Self = Self {
        name: "",
        version: 1,
        about: "",
        source: "",
        map: &[],
        time_unit: TimeUnit::Millis,
        speed_unit: SpeedUnit::MetresPerSecond,
        time_zone: None,
        key: "any",
        decode: Encoding::Json,
    };

    /// The preset with this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Name and version, as rules store them.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}/{}", self.name, self.version)
    }

    /// The field map, as in [`Rules::fields`].
    #[must_use]
    pub fn fields(&self) -> BTreeMap<String, String> {
        let entries = self.map.iter().filter_map(|entry| entry.split_once('='));
        entries.map(|(name, source)| (name.to_owned(), source.to_owned())).collect()
    }

    /// Writes the preset into rules. `zone_tables` is the version of the tables of time zones.
    pub fn expand(&self, rules: &mut Rules, zone_tables: &str) {
        rules.preset = Some(self.label());
        rules.fields = self.fields();
        (rules.time_unit, rules.speed_unit) = (self.time_unit, self.speed_unit);
        rules.time_zone = self.time_zone.map(Into::into);
        rules.time_format = None;
        rules.zone_tables = self.time_zone.map(|_| zone_tables.to_owned());
        rules.key = self.key.into();
        rules.decode = self.decode;
    }

    /// Whether rules were expanded from some version of this preset.
    #[must_use]
    pub fn is_in(&self, rules: &Rules) -> bool {
        let label = rules.preset.as_deref().and_then(|label| label.split_once('/'));
        label.is_some_and(|(name, _)| name == self.name)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    /// The first bytes of the hash of what a preset expands to.
    fn fingerprint(preset: &Preset) -> String {
        let mut rules = Rules::default();
        preset.expand(&mut rules, "tables");
        // Not pinned: the defaults of the other rules.
        let Rules { fields, time_unit, speed_unit, time_zone, key, decode, .. } = rules;
        let pinned = serde_json::json!([fields, time_unit, speed_unit, time_zone, key, decode]);
        data_encoding::HEXLOWER.encode(&Sha256::digest(pinned.to_string())[..6])
    }

    /// A row that changes gets a new version and a new line here: stores have the old one.
    #[test]
    fn a_preset_changes_with_its_version_only() {
        let pinned: Vec<_> =
            PRESETS.iter().map(|preset| (preset.label(), fingerprint(preset))).collect();
        let pinned: Vec<_> =
            pinned.iter().map(|(label, hash)| (label.as_str(), hash.as_str())).collect();
        assert_eq!(pinned, PINNED);
    }

    const PINNED: &[(&str, &str)] = &[
        ("traccar/1", "f4a1f305acd1"),
        ("traccar-api/1", "1799f16bcfbb"),
        ("traccar-csv/1", "400491b9c802"),
        ("traccar-client/1", "a3d4e3a46a43"),
        ("owntracks/1", "4980242836ff"),
        ("overland/1", "058e9e50eaf4"),
        ("flespi/1", "5e65662238d7"),
        ("samsara/1", "d971269a2a38"),
        ("samsara-history/1", "52d16bc21db7"),
        ("tesla/1", "b4ad184fa4f6"),
        ("hfp/1", "93f816a513c8"),
        ("gtfs-rt/1", "1b6f2adef9be"),
        ("mds/1", "c91dda7c230d"),
        ("geotab/1", "d1115ad4c583"),
        ("gpslogger/1", "65db7d099e78"),
        ("gpx/1", "8ffc380da3f1"),
        ("nmea/1", "8ffc380da3f1"),
        ("geojson/1", "c2e73dd247a5"),
        ("emqx/1", "269943ab20be"),
        ("namma-yatri/1", "e1285efe0ad0"),
        ("kafka-connect/1", "07e27f8784b1"),
    ];

    #[test]
    fn names_are_unique_and_entries_have_sources() {
        for (at, preset) in PRESETS.iter().enumerate() {
            assert!(PRESETS[..at].iter().all(|other| other.name != preset.name), "{}", preset.name);
            assert_eq!(preset.fields().len(), preset.map.len(), "{}", preset.name);
            assert_eq!(Preset::by_name(preset.name), Some(preset));
        }
    }

    #[test]
    fn a_preset_is_known_by_its_name_in_any_version() {
        let (traccar, client) = (PRESETS[0], Preset::by_name("traccar-client").unwrap());
        let rules = Rules { preset: Some("traccar/7".into()), ..Rules::default() };
        assert!(traccar.is_in(&rules) && !client.is_in(&rules));
        assert!(!traccar.is_in(&Rules::default()));
    }
}
