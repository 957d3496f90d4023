//! The settings that decide trips, as rules.

use super::{KeyRule, Settings};
use crate::model::preset::Preset;
use crate::model::rules::Rules;
use crate::model::rules_request::{CopyRules, RulesRequest};
use crate::model::text_encoding::TextEncoding;
use crate::source::ZONE_TABLES;

/// Lists settings with the rules that each of them determines.
macro_rules! settings_of_rules {
    ($($key:literal => $($rule:ident)+;)+) => {
        &[
            // `RulesRequest::with_preset` expands it.
            ("preset", |_, _| ()),
            ("map", copy_map),
            $(($key, |from, to| {
                $(to.$rule.clone_from(&from.$rule);)+
            })),+
        ]
    };
}

/// A map is the whole map; with a preset, it replaces single entries.
fn copy_map(from: &Rules, to: &mut Rules) {
    match from.preset {
        Some(_) => to.fields.extend(from.fields.clone()),
        None => to.fields.clone_from(&from.fields),
    }
}

/// The settings that decide trips, by key.
pub(super) const SETTINGS: &[(&str, CopyRules)] = settings_of_rules! {
    "max_gap" => max_gap_ms;
    "min_stop" => min_stop_ms;
    "stop_speed" => stop_speed_cmps;
    "max_samples" => max_samples;
    "min_time" => min_time_ms;
    "max_future" => max_future_ms;
    "max_accuracy" => max_accuracy_dm;
    "keep_zero_position" => drop_zero_position;
    "max_leg_speed" => max_leg_speed_cmps;
    "time_unit" => time_unit;
    "speed_unit" => speed_unit;
    "time_zone" => time_zone zone_tables;
    "time_format" => time_format;
    "time_ambiguous" => time_ambiguous;
    "encoding" => encoding;
    "decode" => decode;
    "schema" => schema;
    "message" => message;
    "key" => key;
};

impl Settings {
    /// The rules that are set by a flag, a variable or the settings file: the others are those of
    /// the store or epoch, or the defaults if it is new.
    #[must_use]
    pub(crate) fn rules_request(&self) -> RulesRequest {
        let given = SETTINGS.iter().filter(|(key, _)| self.is_given(key));
        let request = RulesRequest::new(self.rules(), given.map(|(_, copy)| *copy).collect());
        match self.preset {
            Some(preset) => request.with_preset(preset, ZONE_TABLES),
            None => request,
        }
    }

    /// The rules of all settings, defaults included; of a preset only its name.
    #[must_use]
    pub fn rules(&self) -> Rules {
        #[expect(clippy::cast_possible_truncation, reason = "the table bounds both values")]
        let quanta = |value: f64, per_unit: f64| (value * per_unit).round() as i32;
        Rules {
            max_gap_ms: self.max_gap_ms,
            min_stop_ms: self.min_stop_ms,
            stop_speed_cmps: quanta(self.stop_speed_mps, 100.0),
            max_samples: u32::try_from(self.max_samples).unwrap_or(u32::MAX),
            min_time_ms: self.min_time_ms,
            max_future_ms: self.max_future_ms,
            max_accuracy_dm: self.max_accuracy_m.map(|metres| quanta(metres, 10.0)),
            drop_zero_position: !self.keep_zero_position,
            max_leg_speed_cmps: self.max_leg_speed_mps.map(|mps| quanta(mps, 100.0)),
            preset: self.preset.map(Preset::label),
            fields: self.map.clone(),
            time_unit: self.time_unit,
            speed_unit: self.speed_unit,
            time_zone: self.time_zone.clone(),
            time_format: self.time_format.clone(),
            time_ambiguous: self.time_ambiguous,
            encoding: self.encoding.map(TextEncoding::name),
            zone_tables: self.time_zone.as_ref().map(|_| ZONE_TABLES.to_owned()),
            key: match self.key {
                KeyRule::DeviceId => "device_id".into(),
                KeyRule::Any => "any".into(),
            },
            decode: self.decode,
            schema: self.schema.as_ref().map(|file| file.source.clone()),
            message: self.message.clone(),
            ..Rules::default()
        }
    }
}
