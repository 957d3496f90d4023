//! Flags that several commands share. Flags of settings are generated from the settings table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::exit;
use super::times::parse_range;
use crate::log::redecode::DecodeOverrides;
use crate::model::scalar::DeviceTime;
use crate::model::tag::TagFilter;
use crate::model::zone::Zone;
use crate::ops::InvalidRequest;
use crate::ops::trip_filter::{MAX_DISTANCE_M, TripFilter};
use crate::ops::trip_list::TripSpan;
use crate::segment::Kinds;
use crate::settings::Warnings;
use crate::settings::{
    Group, Kind, LogFormat, Setting, Settings, SettingsError, SettingsFile, exposed_files,
    unknown_env,
};
pub(crate) use crate::telemetry::clock_ms;
use crate::telemetry::{self, logging};
use crate::views::{Detail, Form, PathRule, enumerated};

/// Keys and values of the settings that flags name.
pub(crate) type SettingValues = Vec<(&'static str, String)>;

/// Flags of every command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct GlobalFlags {
    #[arg(long, global = true, value_name = "URL", help = help_of("store"))]
    pub store: Option<String>,
    /// Settings file [default: ./tstar.toml, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The surroundings of a command: global flags, environment and clock.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    global: GlobalFlags,
    env: Vec<(String, String)>,
    /// The reader's clock, ms since 1970.
    now_ms: i64,
    /// User name, as the system names it.
    pub user: Option<String>,
    warnings: Warnings,
}

impl Context {
    /// The context of a run that starts now; `env` holds the `TSTAR_*` variables.
    pub(crate) fn new(global: GlobalFlags, env: Vec<(String, String)>) -> Self {
        Self { global, env, now_ms: clock_ms(), user: None, warnings: Warnings::default() }
    }

    /// Warns of unknown `TSTAR_*` variables.
    pub(crate) fn warn(&self) {
        for warning in unknown_env(&self.env) {
            exit::print_status(&format!("warning: {warning}"));
        }
    }

    /// The settings, with those that flags of the command name.
    ///
    /// # Errors
    /// All faults of the settings at once.
    pub(crate) fn settings(&self, flags: &[&SettingValues]) -> Result<Settings, SettingsError> {
        let file = SettingsFile::read(self.global.config.as_deref())?;
        if let (None, Some(found)) = (&self.global.config, &file) {
            self.warnings.print([format!("settings are read from ./{}", found.name)]);
        }
        let store = self.global.store.iter().map(|url| ("store", url.clone()));
        let flags: Vec<_> = flags.iter().copied().flatten().cloned().chain(store).collect();
        let settings = Settings::resolve(&flags, &self.env, file.as_ref())?;
        self.warnings.print(exposed_files(&settings));
        Ok(Settings { now_ms: self.now_ms, warnings: self.warnings.clone(), ..settings })
    }

    /// The settings of a daemon. Starts its log, in which their faults and the warnings of
    /// [`Self::warn`] are the first events, and its metrics.
    ///
    /// # Errors
    /// All faults of the settings at once, or metrics cannot be recorded.
    pub(crate) fn start_daemon(&self, flags: &[&SettingValues]) -> anyhow::Result<Settings> {
        let settings = self.settings(flags);
        match settings.as_ref().map(|settings| settings.log_format).unwrap_or_default() {
            LogFormat::Text => logging::init_text(),
            LogFormat::Json => logging::init_json(),
        }
        self.warn();
        let settings = settings?;
        telemetry::install().context("metrics cannot be recorded")?;
        Ok(settings)
    }
}

/// Declares the flags of groups of settings, in the order of the help. The settings parse the
/// values, so that all faults are reported at once.
macro_rules! setting_flags {
    ($($(#[$doc:meta])* $name:ident: $($group:ident)+;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name(pub SettingValues);

        impl $name {
            const GROUPS: &'static [Group] = &[$(Group::$group),+];
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(flag_values(matches, Self::GROUPS)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                self.0 = flag_values(matches, Self::GROUPS);
                Ok(())
            }
        }

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                with_flags(command, Self::GROUPS)
            }

            fn augment_args_for_update(command: Command) -> Command {
                with_flags(command, Self::GROUPS)
            }
        }
    )+};
}

setting_flags! {
    /// The settings that decide trips, and how the input is read.
    RuleFlags: Rules;
    /// How an import runs; none of these changes its trips.
    ImportFlags: Import;
    /// How a topic is read, and where its changes and dead letters go.
    TopicFlags: Topic Feed Flush Drain;
    /// How a daemon logs.
    EntryFlags: Logging;
    /// How to reach the brokers, and the topic.
    BrokerFlags: Brokers;
    /// How to reach a store and the topics next to its log: dead letters, the change feed.
    LetterFlags: Cluster Server;
    /// Overrides of the store's rules for decoding.
    OverrideFlags: Overrides;
    /// Format of input files.
    InputFormatFlag: InputFormat;
    /// The topic, and the group that reads it.
    EpochFlags: Epoch;
    /// How to reach a store and its log, and the group that reads it.
    LogFlags: Cluster Consumer Server;
    /// How to reach the schema registry.
    RegistryFlags: Registry;
    /// Keys that sign control records.
    KeyFlag: ControlKeys;
    /// Memory limit of a command.
    MemoryFlag: Memory;
    /// How a reader decides whether a trip may still grow.
    ReaderFlags: Reader;
    /// The zone of days and of times that people read.
    ZoneFlag: Zone;
    /// How HTTP is served.
    HttpFlags: Http;
    /// How to connect to a Scylla or Cassandra store.
    ServerFlags: Server;
}

impl OverrideFlags {
    /// The overrides that are set: by a flag, a variable or the settings file.
    ///
    /// # Errors
    /// All faults of the settings at once.
    pub(crate) fn read(&self, context: &Context) -> Result<DecodeOverrides, SettingsError> {
        let settings = context.settings(&[&self.0])?;
        let given = ["map", "time_unit", "speed_unit"].map(|key| settings.is_given(key));
        let Settings { map, time_unit, speed_unit, .. } = settings;
        let Settings { time_zone, time_format, time_ambiguous, .. } = settings;
        Ok(DecodeOverrides {
            fields: if given[0] { map } else { BTreeMap::new() },
            time_unit: given[1].then_some(time_unit),
            speed_unit: given[2].then_some(speed_unit),
            time_zone,
            time_format,
            time_ambiguous,
        })
    }
}

/// Resources for trips that are built only to be compared or previewed.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkspaceFlags {
    /// Folder for temporary files; removed when the command ends
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    pub work_dir: PathBuf,
    #[command(flatten)]
    pub memory: MemoryFlag,
}

fn flag_values(matches: &ArgMatches, groups: &[Group]) -> SettingValues {
    let value = |setting: &'static Setting| {
        let lines: Vec<_> = matches.get_many::<String>(setting.key)?.map(String::as_str).collect();
        Some((setting.key, lines.join("\n")))
    };
    groups.iter().flat_map(|group| group.settings()).filter_map(value).collect()
}

/// The help of a flag.
fn help(setting: &Setting) -> String {
    let default = if setting.default.is_empty() { "none" } else { setting.default };
    format!("{} [default: {default}]", setting.help)
}

fn help_of(key: &str) -> String {
    help(Setting::by_key(key).expect("the flag is a setting"))
}

fn with_flags(command: Command, groups: &[Group]) -> Command {
    groups.iter().flat_map(|group| group.settings()).fold(command, |command, setting| {
        let flag = Arg::new(setting.key)
            .long(setting.flag.trim_start_matches('-'))
            .value_name(match setting.kind {
                Kind::Text => "TEXT",
                Kind::Duration => "DURATION",
                Kind::Size => "SIZE",
                Kind::Time => "TIME",
                Kind::Count | Kind::Number => "NUMBER",
                Kind::Flag => "BOOL",
                Kind::Lines => "KEY=VALUE",
            })
            .help(help(setting));
        command.arg(match setting.kind {
            Kind::Flag => flag.num_args(0..=1).require_equals(true).default_missing_value("true"),
            Kind::Lines => flag.action(ArgAction::Append),
            _ => flag,
        })
    })
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// One JSON object per line.
    Ndjson,
    /// One JSON value.
    Json,
    /// Rows with a header.
    Csv,
    /// A format that only trips have.
    OfTrips(Form),
}

impl From<Form> for Format {
    fn from(form: Form) -> Self {
        match form {
            Form::Ndjson => Self::Ndjson,
            Form::Json => Self::Json,
            Form::Csv => Self::Csv,
            other => Self::OfTrips(other),
        }
    }
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Format>> = LazyLock::new(|| {
            let forms = Form::ALL.into_iter().map(Format::from);
            std::iter::once(Format::Table).chain(forms).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self.form() {
            None => ("table", "Human-readable table"),
            Some(form) => (form.spec().name, form.spec().help),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

impl Format {
    /// The format as the writer of trips knows it; `None` for a table.
    pub(crate) fn form(self) -> Option<Form> {
        match self {
            Self::Table => None,
            Self::Ndjson => Some(Form::Ndjson),
            Self::Json => Some(Form::Json),
            Self::Csv => Some(Form::Csv),
            Self::OfTrips(form) => Some(form),
        }
    }
}

/// How the output is printed, in the first `FORMATS` formats.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Output<const FORMATS: usize> {
    /// Output format [default: table on a terminal, else ndjson]
    #[arg(long, value_name = "FORMAT", value_parser = format_parser(FORMATS))]
    format: Option<Format>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// How trips are printed: in every format.
pub(crate) type OutputFlags = Output<{ usize::MAX }>;

/// How a list is printed whose values are text: as a table, NDJSON, JSON or CSV.
pub(crate) type ListOutputFlags = Output<4>;

/// How another result is printed: as a table, NDJSON or JSON.
pub(crate) type ValueOutputFlags = Output<3>;

fn format_parser(formats: usize) -> impl TypedValueParser<Value = Format> {
    let formats = Format::value_variants().iter().take(formats);
    let values = formats.filter_map(ValueEnum::to_possible_value);
    PossibleValuesParser::new(values)
        .map(|name| Format::from_str(&name, false).expect("it is one of the possible values"))
}

impl<const FORMATS: usize> Output<FORMATS> {
    /// The format of the flags, else `default`.
    pub(crate) fn format(&self, default: Format) -> Format {
        if self.json { Format::Json } else { self.format.unwrap_or(default) }
    }
}

/// Which trips are printed, by their times.
#[derive(Clone, Debug, Args)]
pub(crate) struct SpanFlags {
    /// Only trips that touch this day
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub day: Option<String>,
    /// Only trips that end at this time or later
    #[arg(long, value_name = "TIME", conflicts_with = "day")]
    pub from: Option<String>,
    /// Only trips that start at this time or before
    #[arg(long, value_name = "TIME", conflicts_with = "day")]
    pub to: Option<String>,
    /// Only trips whose id has this year, month, day or hour
    #[arg(long, value_name = "DATE", conflicts_with_all = ["day", "from", "to"])]
    pub prefix: Option<String>,
}

impl SpanFlags {
    /// Which trips the flags select, with days and times of a zone.
    pub(crate) fn span(&self, zone: Zone) -> anyhow::Result<TripSpan<'_>> {
        if let Some(prefix) = &self.prefix {
            return Ok(TripSpan::Prefix(prefix));
        }
        if let Some(day) = &self.day {
            return Ok(TripSpan::Day(zone.day(day)?));
        }
        let (from_ms, upto_ms) = parse_range(self.from.as_deref(), self.to.as_deref(), zone)?;
        let from_ms = from_ms.map_or(DeviceTime::MIN, DeviceTime);
        Ok(TripSpan::Overlapping(from_ms, upto_ms.map_or(DeviceTime::MAX, DeviceTime)))
    }
}

/// Whether trips, stops or both are printed.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct KindFlag {
    /// Trips, stops or both: trip, stop or all
    #[arg(long, value_name = "KIND", default_value = Kinds::Trips.name(), value_parser = parse_kinds)]
    pub kind: Kinds,
}

fn parse_kinds(name: &str) -> Result<Kinds, String> {
    Kinds::from_name(name).ok_or_else(|| "it is not trip, stop or all".to_owned())
}

/// Which trips are printed, by what they have.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterFlags {
    /// Only trips with this tag, or with any value of the key; several have to match
    #[arg(long, value_name = "KEY[=VALUE]")]
    pub tag: Vec<TagFilter>,
    /// Only trips of at least this distance, m, and stops: leaves out what noise makes of parked
    /// vehicles
    #[arg(long, value_name = "METRES", value_parser = metres(MAX_DISTANCE_M))]
    pub min_distance: Option<f64>,
}

impl FilterFlags {
    /// Which trips the flags select.
    pub(crate) fn filter(&self) -> TripFilter {
        let min_distance_m = self.min_distance.unwrap_or_default();
        TripFilter { tags: self.tag.clone(), min_distance_m, ..TripFilter::default() }
    }
}

/// Whether to print the samples.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PathFlag {
    /// Add the samples
    #[arg(long, help = path_help())]
    pub path: bool,
}

/// A parser of distances above 0, up to a maximum.
fn metres(max_m: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| match text.parse() {
        Ok(metres) if metres > 0.0 && metres <= max_m => Ok(metres),
        _ => Err(format!("it is not a distance in metres above 0, up to {max_m}")),
    }
}

fn path_help() -> String {
    let names = |rule| {
        let mut names = Form::names(|spec| spec.path == rule);
        names.sort_unstable();
        enumerated(&names, "and")
    };
    let (may, always) = (names(PathRule::OnRequest), names(PathRule::Always));
    format!("Add the samples ({may}; {always} always have them)")
}

impl PathFlag {
    /// What is printed of the path.
    pub(crate) fn detail(&self) -> Detail {
        Detail { path: self.path, simplify_m: None }
    }

    /// Rejects `--path` for formats that cannot hold samples.
    pub(crate) fn check(&self, format: Format) -> Result<(), InvalidRequest> {
        let names = Form::names(|spec| spec.path == PathRule::Never);
        let cannot = [&["table"][..], &names].concat();
        if self.path && format.form().is_none_or(|form| form.spec().path == PathRule::Never) {
            let can = Form::names(|spec| spec.path == PathRule::OnRequest);
            return Err(InvalidRequest(format!(
                "--path is not supported by {}; use --format {}",
                enumerated(&cannot, "and"),
                enumerated(&can, "or")
            )));
        }
        Ok(())
    }
}
