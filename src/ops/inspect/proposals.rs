//! The flags to read an input with, and what else to know.

use super::choose::{Choice, Chosen, FieldSource, map_text};
use super::outcome::{Proposal, speed};
use super::records::InputRecords;
use super::rules_found::RulesFound;
use crate::advice::about;
use crate::log::redecode::DecodeOverrides;
use crate::model::reading::ReadingKind;
use crate::model::stats::{JUMP_MPS, MIN_SPEED_LEGS, SpeedFactor};
use crate::model::text_encoding::TextEncoding;
use crate::pipeline::rules_watch::ignition_message;
use crate::settings::Settings;
use crate::source::ProposedMap;

/// Minimum number of samples by which the number of devices is judged.
const MIN_SAMPLES: u64 = 20;

/// The flags to read the input with, but for those that are given. A map has what is given of it.
pub(super) fn flags(
    choice: &Choice,
    found: &RulesFound,
    is_guessed: bool,
    settings: &Settings,
) -> Vec<Proposal> {
    let Choice { fit, tweaks, any_key, tally, .. } = choice;
    let mut flags = Vec::new();
    let mut add = |flag, value: &str, why: &str| flags.push(Proposal::new(flag, value, why));
    match fit {
        FieldSource::Given | FieldSource::Standard => {}
        FieldSource::Preset(preset) => add("--preset", preset.name, preset.about),
        FieldSource::Map(map) => {
            let fields = ProposedMap { fields: choice.rules.fields.clone(), ..map.clone() };
            add("--map", &map_text(&fields), "the names and values in the records");
        }
    }
    if !matches!(fit, FieldSource::Map(_)) && !tweaks.fields.is_empty() {
        let fields = tweaks.fields.clone().into_iter().chain(settings.map.clone()).collect();
        let fields = ProposedMap { fields, ..ProposedMap::default() };
        let why = match tweaks.fields.values().any(|source| source == "none") {
            true => "the ignition makes stops of samples that move",
            false => "the name or the values of the ignition",
        };
        add("--map", &map_text(&fields), why);
    }
    if is_guessed {
        let name = TextEncoding::WINDOWS_1252.name();
        add("--encoding", &name, "the text is not UTF-8; check names with accents");
    }
    let legs = speed(choice).map(|speed| speed.legs);
    flags.extend(decode_flags(tweaks, legs));
    if *any_key {
        let why = "the key is not the device id; all records of a device must have the same key";
        flags.push(Proposal::new("--key", "any", why));
    }
    flags.extend(found.flags());
    let jumps = tally.stats.jumps;
    if jumps > 0 {
        let why = format!("faster legs: {jumps}; without them, distances are those of the way");
        flags.push(Proposal::new("--max-leg-speed", &JUMP_MPS.to_string(), &why));
    }
    flags.retain(|it| it.flag == "--map" || !it.is_given(settings));
    flags
}

/// The flags for units, formats and zones. The unit of speeds is by that many legs along the track,
/// or by its name.
pub(super) fn decode_flags(tweaks: &DecodeOverrides, legs: Option<u64>) -> Vec<Proposal> {
    let unit = tweaks
        .time_unit
        .map(|unit| Proposal::new("--time-unit", unit.name(), "by the magnitude of times"));
    let format = tweaks
        .time_format
        .as_deref()
        .map(|format| Proposal::new("--time-format", format, format_reason(format)));
    let zone = tweaks.time_zone.as_deref().map(|zone| {
        Proposal::new("--time-zone", zone, "times have no offset: name the zone they are in")
    });
    let speed = tweaks.speed_unit.map(|unit| {
        let why = match legs {
            Some(legs) => format!("by the speed along the track of {legs} legs"),
            None => "by the name of the speed".into(),
        };
        Proposal::new("--speed-unit", unit.name(), &why)
    });
    [unit, format, zone, speed].into_iter().flatten().collect()
}

/// Several tracks, each of which is taken for a device.
fn one_phone(records: &InputRecords, choice: &Choice) -> Option<String> {
    let InputRecords::Files { heads, .. } = records else { return None };
    let files = heads.list.len() + heads.unread;
    let device = choice.rules.fields.get("device_id");
    let is_of_preset = matches!(choice.fit, FieldSource::Preset(_));
    (files > 1 && is_of_preset && device.is_some_and(|source| source == "@file")).then(|| {
        format!(
            "each of the {files} files is taken for a device; if they are tracks of one, add --map \
             device_id==NAME"
        )
    })
}

/// Why times have a format.
fn format_reason(format: &str) -> &'static str {
    let is_open = ["%d/%m", "%m/%d", "%d-%m-", "%m-%d-"].iter().any(|it| format.starts_with(it));
    match format {
        "excel" => "times are days of a spreadsheet",
        _ if is_open => "times are in this format; check the order of day and month",
        _ => "times are in this format",
    }
}

/// What else to know.
pub(super) fn notes(records: &InputRecords, chosen: &Chosen) -> Vec<String> {
    let choice = &chosen.choice;
    let (tally, stats) = (&choice.tally, &choice.tally.stats);
    let mut notes = chosen.map_notes.clone();
    if let InputRecords::Files { heads, .. } = records {
        for head in &heads.list {
            if let Some(damage) = &head.damage {
                let name = head.name();
                notes.push(format!("{name} cannot be decompressed from some place on: {damage}"));
            }
        }
    }
    let is_of_registry = matches!(records, InputRecords::Topic(it) if it.first.name_schemas());
    if tally.samples() == 0 && tally.delivered > 0 && is_of_registry {
        notes.push(
            "records name schemas of a registry: pass --decode avro or --decode protobuf, and \
             --schema-registry URL"
                .into(),
        );
    }
    if let FieldSource::Map(map) = &choice.fit
        && let Some(source) = map.fields.get("device_id").filter(|it| it.starts_with('@'))
    {
        let what = if source == "@file" { "each file" } else { "each key" };
        let which = match &chosen.devices[..] {
            [] => String::new(),
            names => format!(" (it may be `{}`)", names.join("`, `")),
        };
        notes.push(format!(
            "no name looks like that of a device, so {what} is taken for one; if records of \
             several devices are together, name theirs with --map device_id=NAME{which}"
        ));
    }
    notes.extend(one_phone(records, choice));
    let devices = stats.devices() as u64;
    if tally.samples() >= MIN_SAMPLES && devices * 2 > tally.samples() {
        notes.push(format!(
            "{devices} devices in {} samples: device_id may be the id of a record",
            tally.samples()
        ));
    }
    let legs = stats.speed_factors.count();
    let is_checked = legs >= MIN_SPEED_LEGS || SpeedFactor::new(&stats.speed_factors).is_some();
    if tally.readings[ReadingKind::Speed as usize] > 0 && !is_checked {
        let unit = choice.rules.speed_unit.name();
        notes.push(format!(
            "the unit of speeds, {unit}, was not checked: {legs} legs can be compared with the \
             track, and {MIN_SPEED_LEGS} are needed"
        ));
    }
    if stats.unfollowed > 0 {
        notes.push(format!("there are more devices: {} samples are of others", stats.unfollowed));
    }
    notes.extend(stats.conflicts.warning(tally.samples()));
    if let Some(heartbeat) = stats.heartbeat() {
        notes.push(format!(
            "standing devices send every {}: see --max-gap and --stop-speed",
            about(heartbeat.interval_s)
        ));
    }
    notes.extend(chosen.ignition_fault.clone());
    if tally.lost_ignitions > 0 {
        notes.push(ignition_message(tally.lost_ignitions, tally.samples()));
    }
    notes
}
