//! Finds the preset, the field map and the units that read most records.

mod ignition;

use super::InspectRequest;
use super::records::{InputRecords, Unread, observe_names};
use super::tally::Tally;
use crate::log::redecode::DecodeOverrides;
use crate::model::preset::Preset;
use crate::model::reason::DeadReason;
use crate::model::rules::{Rules, TimeUnit};
use crate::model::stats::{SpeedFactor, unit_of_factor};
use crate::source::file::InputFormat;
use crate::source::{
    Batch, Outline, ProposedMap, Surroundings, TimeForms, ZONE_TABLES, id_column, names_of_field,
    parse_map, presets_for, propose,
};

/// The zone of times without an offset, until the user names theirs.
const ANY_ZONE: &str = "UTC";

/// Of the samples of one device, at most one in this many is where no vehicle can be.
const MAX_OUT_OF_PLACE: u64 = 20;

/// Reasons that another unit or format of times may remove.
const TIME_REASONS: [DeadReason; 4] = [
    DeadReason::TimeBeforeMin,
    DeadReason::TimeInFuture,
    DeadReason::BadTime,
    DeadReason::OutOfRange,
];

/// Where the values of samples are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldSource {
    /// Where the rules of the request say.
    Given,
    /// At the standard names.
    Standard,
    /// Where a producer has them.
    Preset(&'static Preset),
    /// Where a proposed map says.
    Map(ProposedMap),
}

/// A way to read the records, and what they are then.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Where values are.
    pub fit: FieldSource,
    /// Other rules, as far as they differ from those of the source of fields.
    pub tweaks: DecodeOverrides,
    /// Whether the key of a record need not be its device.
    pub any_key: bool,
    /// The rules.
    pub rules: Rules,
    /// What the records are.
    pub tally: Tally,
}

/// The best way to read the records, and what was learnt on the way.
pub(crate) struct Chosen {
    /// The best way; of several that read nothing, the standard names.
    pub choice: Choice,
    /// The names in the records.
    pub outline: Outline,
    /// The proposed map, where it lacks required fields, and the most likely rules besides it.
    pub partial: Option<(ProposedMap, DecodeOverrides)>,
    /// What the map was proposed by, to check.
    pub map_notes: Vec<String>,
    /// Names that may be that of the device, where none was found.
    pub devices: Vec<String>,
    /// The first lines or records.
    pub lines: Vec<String>,
    /// What is wrong with the ignition, which is therefore not read.
    pub ignition_fault: Option<String>,
    /// Why the standard names cannot read a file, if its format or its columns are why.
    pub problem: Option<String>,
}

impl FieldSource {
    fn rules(&self) -> Rules {
        let mut rules = Rules::default();
        match self {
            Self::Given | Self::Standard => {}
            Self::Preset(preset) => preset.expand(&mut rules, ZONE_TABLES),
            Self::Map(map) => rules.fields.clone_from(&map.fields),
        }
        rules
    }
}

/// Tries ways to read the records.
pub(crate) struct Chooser<'a> {
    records: &'a InputRecords,
    request: &'a InspectRequest,
    best: Option<Choice>,
    outline: Outline,
    outlined: usize,
    problem: Option<String>,
    partial: Option<(ProposedMap, DecodeOverrides)>,
    map_notes: Vec<String>,
    devices: Vec<String>,
    lines: Vec<String>,
}

impl<'a> Chooser<'a> {
    /// Has tried nothing.
    pub(crate) fn new(records: &'a InputRecords, request: &'a InspectRequest) -> Self {
        let table = records.table().unwrap_or_default();
        Self {
            records,
            request,
            best: None,
            outline: Outline::of_table(&table),
            outlined: 0,
            problem: None,
            partial: None,
            map_notes: Vec::new(),
            devices: Vec::new(),
            lines: table.lines,
        }
    }

    /// Finds the best way.
    ///
    /// # Errors
    /// The registry does not answer; or the rules of the request are not valid.
    pub(crate) async fn choose(mut self) -> anyhow::Result<Chosen> {
        let first = self.first();
        self.try_fit(first.clone(), &DecodeOverrides::default()).await?;
        let settings = &self.request.settings;
        let is_fixed = settings.is_given("preset") || settings.is_given("decode");
        // A map that reads the records leaves nothing to find.
        if !is_fixed && (first == FieldSource::Standard || !self.is_read()) {
            for preset in self.presets() {
                self.try_fit(FieldSource::Preset(preset), &DecodeOverrides::default()).await?;
            }
            self.try_binary().await?;
            if !self.is_read() {
                self.try_map().await?;
            }
        }
        if !is_fixed {
            self.try_ignition().await?;
        }
        self.try_speed_unit().await?;
        let ignition_fault = self.try_without_ignition().await?;
        let choice = match self.best.take() {
            Some(best) => best,
            None => {
                let rules = self.request.settings.rules_request().over(&first.rules());
                let tally = Tally::new(&rules);
                Choice {
                    fit: first,
                    tweaks: DecodeOverrides::default(),
                    any_key: false,
                    rules,
                    tally,
                }
            }
        };
        let Self { outline, problem, partial, map_notes, devices, lines, .. } = self;
        Ok(Chosen { choice, outline, partial, map_notes, devices, lines, ignition_fault, problem })
    }

    /// What is tried first.
    fn first(&self) -> FieldSource {
        let is_given = |key| self.request.settings.is_given(key);
        match ["preset", "map", "decode"].into_iter().any(is_given) {
            true => FieldSource::Given,
            false => FieldSource::Standard,
        }
    }

    /// Whether the best way reads most records: a bad one now and then does not make a preset the
    /// wrong one.
    fn is_read(&self) -> bool {
        self.best.as_ref().is_some_and(|best| {
            best.tally.samples() > 0 && best.tally.all_dead() * 2 <= best.tally.samples()
        })
    }

    /// The rules of the request over others. A map that is given holds, and what it leaves open is
    /// that of the others.
    fn rules_over(&self, base: &Rules) -> Rules {
        let mut rules = self.request.settings.rules_request().over(base);
        for (name, source) in &base.fields {
            rules.fields.entry(name.clone()).or_insert_with(|| source.clone());
        }
        rules
    }

    /// The presets that may read the records.
    fn presets(&self) -> Vec<&'static Preset> {
        let mut presets = Vec::new();
        let formats = match self.records {
            InputRecords::Files { heads, .. } => {
                let encoding = self.request.settings.encoding;
                let formats = self.records.formats(&Rules::default()).into_iter().flatten();
                formats.zip(heads.list.iter().map(|head| head.first_line(encoding))).collect()
            }
            InputRecords::Topic(_) => vec![(InputFormat::Ndjson, Vec::new())],
        };
        for (format, line) in formats {
            for preset in presets_for(format, &line) {
                if !presets.contains(&preset) && self.has_names_of(preset) {
                    presets.push(preset);
                }
            }
        }
        presets
    }

    /// Whether the records have more in common with a preset than usual names.
    fn has_names_of(&self, preset: &Preset) -> bool {
        let has = |path| self.outline.names().any(|(name, _)| name == path);
        preset.name != "namma-yatri" || has("/pt/lat") || has("/bear") || has("/m_id")
    }

    /// Tries the preset whose records need not be text.
    async fn try_binary(&mut self) -> anyhow::Result<()> {
        let is_read = self.best.as_ref().is_some_and(|best| best.tally.samples() > 0);
        if let (false, Some(preset)) = (is_read, Preset::by_name("gtfs-rt")) {
            self.try_fit(FieldSource::Preset(preset), &DecodeOverrides::default()).await?;
        }
        Ok(())
    }

    /// Tries the map that the names in the records propose.
    async fn try_map(&mut self) -> anyhow::Result<()> {
        let surroundings = match self.records {
            InputRecords::Files { heads, .. }
                if heads.list.iter().all(|head| head.name() != "-") =>
            {
                Surroundings::File
            }
            InputRecords::Files { .. } => Surroundings::Nothing,
            InputRecords::Topic(_) => Surroundings::Key,
        };
        let mut map = propose(&self.outline, surroundings, &self.request.settings.map);
        if !self.request.settings.map.contains_key("device_id") {
            map = self.with_id_column(map).await?;
        }
        // The command line has it as text.
        let is_text = parse_map(&map_text(&map)).is_ok_and(|fields| fields == map.fields);
        let tweaks = DecodeOverrides { speed_unit: map.speed_unit, ..DecodeOverrides::default() };
        if !map.missing.is_empty() || !is_text {
            let format = self.time_formats(&FieldSource::Map(map.clone())).into_iter().next();
            let time_zone = format.as_ref().and_then(|format| zone_for(format));
            self.partial =
                Some((map, DecodeOverrides { time_format: format, time_zone, ..tweaks }));
            return Ok(());
        }
        self.map_notes = std::mem::take(&mut map.notes);
        self.devices = map.candidates.remove("device_id").unwrap_or_default();
        self.try_fit(FieldSource::Map(map.clone()), &tweaks).await?;
        if self.has_several_devices() {
            return self.open_device(map).await;
        }
        if self.best.as_ref().is_none_or(|best| best.tally.samples() == 0) {
            self.partial = Some((map, tweaks));
        }
        Ok(())
    }

    /// Whether the records that the best way takes for those of one device are where none can be,
    /// while a name may be that of the device.
    fn has_several_devices(&self) -> bool {
        let Some(Choice { fit: FieldSource::Map(map), tally, .. }) = &self.best else {
            return false;
        };
        let is_file = map.fields.get("device_id").is_some_and(|source| source == "@file");
        let is_known = self.request.settings.map.contains_key("device_id");
        is_file
            && !is_known
            && !self.devices.is_empty()
            && tally.out_of_place() * MAX_OUT_OF_PLACE > tally.samples()
    }

    /// Leaves open which name of a map is the device.
    async fn open_device(&mut self, mut map: ProposedMap) -> anyhow::Result<()> {
        let mut tweaks = DecodeOverrides::default();
        if let Some(Choice { tally, tweaks: found, .. }) = self.best.take() {
            tweaks = found;
            self.map_notes.push(format!(
                "of one device, {} of {} samples would be where no vehicle can be: they are of \
                 several, so name theirs",
                tally.out_of_place(),
                tally.samples()
            ));
        }
        map.fields.remove("device_id");
        map.missing.push("device_id");
        map.candidates.insert("device_id", std::mem::take(&mut self.devices));
        self.partial = Some((map, tweaks));
        self.try_fit(self.first(), &DecodeOverrides::default()).await
    }

    /// The formats that the values of the time have under a fit, the most likely first.
    fn time_formats(&self, fit: &FieldSource) -> Vec<String> {
        let rules = self.rules_over(&fit.rules());
        let sources: Vec<String> = match rules.fields.get("time") {
            Some(text) => text.split('|').map(|source| source.trim().to_owned()).collect(),
            None => names_of_field("time").iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut formats = Vec::new();
        for source in sources {
            let forms = match source.split_once('+') {
                Some((date, clock)) => {
                    let both = self.outline.of_source(date).zip(self.outline.of_source(clock));
                    both.map(|(date, clock)| date.times().join(clock.times()))
                }
                None => self.outline.of_source(&source).map(|seen| seen.times().clone()),
            };
            formats.extend(forms.iter().flat_map(TimeForms::all));
        }
        formats
    }

    /// The map with the column `id` as device, if nothing else names the device and its values
    /// repeat.
    async fn with_id_column(&mut self, map: ProposedMap) -> anyhow::Result<ProposedMap> {
        let is_unnamed = map.fields.get("device_id").is_none_or(|source| source == "@file");
        let Some(id) = id_column(&self.outline).filter(|_| is_unnamed) else {
            return Ok(map);
        };
        let mut with_id = map.clone();
        with_id.fields.insert("device_id".into(), id.into());
        with_id.missing.retain(|name| *name != "device_id");
        let fit = FieldSource::Map(with_id.clone());
        // Whatever the unit of times is.
        for (_, unit) in TimeUnit::NAMES {
            let tweaks = DecodeOverrides { time_unit: Some(unit), ..DecodeOverrides::default() };
            let Some(Choice { tally, .. }) = self.read(fit.clone(), tweaks, false).await? else {
                continue;
            };
            if tally.samples() > 0 && (tally.stats.devices() as u64) * 2 <= tally.samples() {
                return Ok(with_id);
            }
        }
        Ok(map)
    }

    /// Tries a fit; if times or keys fail, also with other units, zones and key rules.
    async fn try_fit(&mut self, fit: FieldSource, tweaks: &DecodeOverrides) -> anyhow::Result<()> {
        let tried = self.try_rules(&fit, tweaks.clone(), false).await?;
        let Some(Failed { most_times, most_keys: any_key }) = tried else { return Ok(()) };
        if any_key {
            self.try_rules(&fit, tweaks.clone(), true).await?;
        }
        if !most_times {
            return Ok(());
        }
        for (_, unit) in TimeUnit::NAMES {
            let tweaks = DecodeOverrides { time_unit: Some(unit), ..tweaks.clone() };
            self.try_rules(&fit, tweaks, any_key).await?;
        }
        let local = DecodeOverrides { time_zone: Some(ANY_ZONE.into()), ..tweaks.clone() };
        self.try_rules(&fit, local, any_key).await?;
        for format in self.time_formats(&fit) {
            let time_zone = zone_for(&format);
            let time_format = Some(format);
            let tweaks = DecodeOverrides { time_format, time_zone, ..tweaks.clone() };
            self.try_rules(&fit, tweaks, any_key).await?;
        }
        Ok(())
    }

    /// Tries the unit that the speed along the track says.
    async fn try_speed_unit(&mut self) -> anyhow::Result<()> {
        let Some(best) = &self.best else { return Ok(()) };
        let read_as = best.rules.speed_unit;
        let factor = SpeedFactor::new(&best.tally.stats.speed_factors);
        let unit = factor.and_then(|it| unit_of_factor(it.factor, read_as));
        let Some(unit) = unit.filter(|unit| *unit != read_as) else { return Ok(()) };
        let tweaks = DecodeOverrides { speed_unit: Some(unit), ..best.tweaks.clone() };
        let (fit, any_key) = (best.fit.clone(), best.any_key);
        if let Some(choice) = self.read(fit, tweaks, any_key).await? {
            // Speeds that are given stay as they are given.
            if choice.rules.speed_unit == unit && choice.tally.samples() > 0 {
                self.best = Some(choice);
            }
        }
        Ok(())
    }

    /// Tries rules. Returns what failed; `None` if the rules do not suit the records.
    async fn try_rules(
        &mut self,
        fit: &FieldSource,
        tweaks: DecodeOverrides,
        any_key: bool,
    ) -> anyhow::Result<Option<Failed>> {
        let Some(choice) = self.read(fit.clone(), tweaks, any_key).await? else { return Ok(None) };
        let tally = &choice.tally;
        let are_most = |reasons: &[_]| tally.dead_for(reasons) * 2 >= tally.delivered.max(1);
        let (most_times, most_keys) =
            (are_most(&TIME_REASONS), are_most(&[DeadReason::KeyMismatch]));
        // What reads nothing explains nothing, but for the names that are looked for first.
        let is_first = matches!(choice.fit, FieldSource::Given | FieldSource::Standard);
        let is_better = match &self.best {
            Some(best) => tally.is_better_than(&best.tally),
            None => is_first || tally.samples() > 0,
        };
        if is_better {
            self.best = Some(choice);
        }
        Ok(Some(Failed { most_times, most_keys }))
    }

    async fn read(
        &mut self,
        fit: FieldSource,
        tweaks: DecodeOverrides,
        any_key: bool,
    ) -> anyhow::Result<Option<Choice>> {
        let mut rules = tweaks.over(&fit.rules());
        if any_key {
            rules.key = "any".into();
        }
        let rules = self.rules_over(&rules);
        let is_first =
            matches!(fit, FieldSource::Standard | FieldSource::Given) && self.outlined == 0;
        let (outline, outlined) = (&mut self.outline, &mut self.outlined);
        let lines = &mut self.lines;
        let on_batch = |batch: &Batch| {
            if is_first {
                observe_names(batch, outline, outlined, lines);
            }
        };
        match self.records.tally(&rules, on_batch).await? {
            Ok(tally) => Ok(Some(Choice { fit, tweaks, any_key, rules, tally })),
            Err(Unread::Rules(error)) if fit == FieldSource::Given => Err(error.into()),
            Err(Unread::Rules(_)) => Ok(None),
            Err(Unread::Form(error)) => {
                if matches!(fit, FieldSource::Standard | FieldSource::Given) {
                    self.problem.get_or_insert(error.to_string());
                }
                Ok(None)
            }
        }
    }
}

/// The zone in which times of a format are read; `None` if they have an offset.
fn zone_for(format: &str) -> Option<String> {
    (!format.contains("%z")).then(|| ANY_ZONE.into())
}

/// What at least half of the samples failed for under some rules.
struct Failed {
    most_times: bool,
    most_keys: bool,
}

/// A map as text, as settings have it.
pub(crate) fn map_text(map: &ProposedMap) -> String {
    let entries = map.fields.iter().map(|(name, source)| format!("{name}={source}"));
    entries.collect::<Vec<_>>().join(",")
}
