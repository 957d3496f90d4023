//! What a user can set, from flags, `TSTAR_*` variables, a file and defaults, in that order.
//!
//! One table ([`TABLE`]) names every setting; the flags, the variables, the file's keys, `config
//! show` and the table in `docs/settings.md` are made from it. Everything that
//! is wrong is told at once, each fault with the place it comes from.

#[macro_use]
mod setting;

mod file;
mod http;
mod nearest;
mod secret;
mod size;
mod table;
mod tls;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use crate::model::partitioner::Partitioner;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
use crate::model::time::format_duration;
use crate::source::file::InputFormat;
use crate::store::Consistency;
use crate::timeline::DAY_MS;
use nearest::nearest;

pub use file::SettingsFile;
pub use http::HttpSettings;
pub use secret::{Secret, exposed_files, read_secret};
pub use setting::{Kind, Setting, TABLE};
pub use values::LogFormat;

/// What a user can set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// URL of the store.
    pub store: String,
    /// Samples at most this far apart share a trip, ms.
    pub max_gap_ms: i64,
    /// No trip spans more, ms.
    pub max_duration_ms: i64,
    /// No trip keeps more samples.
    pub max_samples: u64,
    /// Earliest device time accepted, ms since 1970.
    pub min_time_ms: i64,
    /// How far a device time may lie past the log's timestamp, ms.
    pub max_future_ms: i64,
    /// Samples with the ignition off are dropped.
    pub drop_ignition_off: bool,
    /// Slower samples are dropped, m/s.
    pub min_speed_mps: Option<f64>,
    /// Coarser fixes are dropped, m.
    pub max_accuracy_m: Option<f64>,
    /// Canonical field name to the name or JSON Pointer that stands for it.
    pub map: BTreeMap<String, String>,
    /// Unit of speeds.
    pub speed_unit: SpeedUnit,
    /// Unit of integer times.
    pub time_unit: TimeUnit,
    /// Form of input files; `None` tells by the content.
    pub input_format: Option<InputFormat>,
    /// Minimum interval between writes of a trip, ms.
    pub flush_interval_ms: i64,
    /// Longest time a change waits to be written, ms.
    pub max_staleness_ms: i64,
    /// How many events the change table keeps.
    pub keep_changes: u64,
    /// How much memory an import takes, bytes.
    pub memory: u64,
    /// Kafka brokers, `host:port,host:port`.
    pub brokers: String,
    /// Topic that holds the samples.
    pub topic: String,
    /// Consumer group.
    pub group: String,
    /// Name of this member of the group.
    pub instance_id: Option<String>,
    /// Options of librdkafka.
    pub kafka: BTreeMap<String, String>,
    /// What records are keyed by.
    pub key: KeyRule,
    /// Path of the file with the keys of control records; empty for none.
    pub control_key_file: String,
    /// How partitions follow from keys, for an epoch that is made; `None`: to be found.
    pub partitioner: Option<Partitioner>,
    /// No changes are sent.
    pub no_feed: bool,
    /// Time limit for flushing a revoked partition, ms.
    pub revoke_timeout_ms: i64,
    /// Time limit for flushing on shutdown, ms.
    pub drain_timeout_ms: i64,
    /// How long after `end + max_gap` a trip is still reported open, ms.
    pub settle_ms: i64,
    /// How many replicas of a Scylla store have to answer.
    pub consistency: Consistency,
    /// The datacenter of a Scylla store whose nodes are asked; empty for all.
    pub datacenter: String,
    /// Who asks a Scylla store; empty where it asks for no name.
    pub cql_user: String,
    /// Path of the file that holds the password; empty for none.
    pub cql_password_file: String,
    /// A Scylla store is talked to over TLS.
    pub cql_tls: bool,
    /// Path of the certificates that are trusted; empty for those of the system.
    pub cql_tls_ca: String,
    /// Path of the certificate that is shown to nodes; empty for none.
    pub cql_tls_cert: String,
    /// Path of its key.
    pub cql_tls_key: String,
    /// A server that does not answer is given up after this, ms.
    pub connect_timeout_ms: i64,
    /// Form of what a daemon says.
    pub log_format: LogFormat,
    /// How HTTP is answered.
    pub http: HttpSettings,
}

/// What the records of a topic are keyed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRule {
    /// The device id of their samples.
    #[default]
    DeviceId,
    /// Another id of the device that is as stable.
    Any,
}

/// The variable that may hold the password of `cql_user`, so that no file has to.
pub const CQL_PASSWORD: &str = "TSTAR_CQL_PASSWORD";

/// Below this the program and its buffers would take most of it, bytes.
const MIN_MEMORY: u64 = 64_000_000;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program.
    Default,
    /// A line of the file.
    File {
        /// Path as given.
        name: String,
        /// From 1.
        line: usize,
    },
    /// An environment variable.
    Env {
        /// Its name.
        name: String,
    },
    /// A flag.
    Flag {
        /// Its name, with the dashes.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { name, line } => write!(f, "{name}:{line}"),
            Self::Env { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

/// Where each value comes from, by key.
pub type Origins = BTreeMap<&'static str, Origin>;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    /// Where it stands.
    pub origin: Origin,
    /// What is wrong, with the key, the value, and what to write instead.
    pub message: String,
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Everything that is wrong with the settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SettingsError {
    /// At least one.
    pub faults: Vec<SettingsFault>,
}

impl SettingsError {
    /// Whether the command line alone is at fault: then it is a usage error.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        self.faults.iter().all(|fault| matches!(fault.origin, Origin::Flag { .. }))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [fault] = self.faults.as_slice() {
            return fault.fmt(f);
        }
        write!(f, "{} faults in the settings", self.faults.len())?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

/// A rule between settings that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The keys concerned, the one to change first.
    pub keys: &'static [&'static str],
    /// What does not hold, with the values.
    pub message: String,
}

impl Default for Settings {
    /// The defaults of [`TABLE`].
    fn default() -> Self {
        let mut settings = Self::unset();
        for setting in TABLE.iter() {
            (setting.set)(&mut settings, setting.default).expect("every default can be read");
        }
        settings
    }
}

impl Settings {
    /// Room for the defaults, which stand in the table alone.
    fn unset() -> Self {
        Self {
            store: String::new(),
            max_gap_ms: 0,
            max_duration_ms: 0,
            max_samples: 0,
            min_time_ms: 0,
            max_future_ms: 0,
            drop_ignition_off: false,
            min_speed_mps: None,
            max_accuracy_m: None,
            map: BTreeMap::new(),
            speed_unit: SpeedUnit::default(),
            time_unit: TimeUnit::default(),
            input_format: None,
            flush_interval_ms: 0,
            max_staleness_ms: 0,
            keep_changes: 0,
            memory: 0,
            brokers: String::new(),
            topic: String::new(),
            group: String::new(),
            instance_id: None,
            kafka: BTreeMap::new(),
            key: KeyRule::default(),
            control_key_file: String::new(),
            partitioner: None,
            no_feed: false,
            revoke_timeout_ms: 0,
            drain_timeout_ms: 0,
            settle_ms: 0,
            consistency: Consistency::default(),
            datacenter: String::new(),
            cql_user: String::new(),
            cql_password_file: String::new(),
            cql_tls: false,
            cql_tls_ca: String::new(),
            cql_tls_cert: String::new(),
            cql_tls_key: String::new(),
            connect_timeout_ms: 0,
            log_format: LogFormat::default(),
            http: HttpSettings::default(),
        }
    }

    /// The settings that flags, environment and file give together, and where each comes from.
    /// `flags` are pairs of key and value, `env` pairs of variable and value; an empty variable
    /// counts as unset.
    ///
    /// # Errors
    /// Every fault of every source at once, also of values that a stronger source replaces.
    pub fn resolve(
        flags: &[(&'static str, String)],
        env: &[(String, String)],
        file: Option<&SettingsFile>,
    ) -> Result<(Self, Origins), SettingsError> {
        let mut layers = Layers::default();
        if let Some(file) = file {
            let (values, faults) = file.values();
            layers.faults.extend(faults);
            for (setting, value, line) in values {
                layers.set(setting, &value, Origin::File { name: file.name.clone(), line });
            }
        }
        for setting in TABLE.iter() {
            let value = env.iter().find(|(name, value)| name == setting.env && !value.is_empty());
            if let Some((name, value)) = value {
                layers.set(setting, value, Origin::Env { name: name.clone() });
            }
        }
        for (key, value) in flags {
            let setting = Setting::by_key(key).expect("flags are made from the table");
            layers.set(setting, value, Origin::Flag { name: setting.flag.to_owned() });
        }
        layers.finish()
    }

    /// Every rule between settings, and every limit, that does not hold.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let year_ms = 366 * DAY_MS;
        let text = format_duration;
        let mut problems = Vec::new();
        let mut check = |holds: bool, keys: &'static [&'static str], message: String| {
            if !holds {
                problems.push(Problem { keys, message });
            }
        };
        check(
            self.max_gap_ms <= self.max_duration_ms,
            &["max_gap", "max_duration"],
            format!(
                "max_gap ({}) must not be longer than max_duration ({})",
                text(self.max_gap_ms),
                text(self.max_duration_ms)
            ),
        );
        for (key, value_ms) in [
            (&["max_duration"], self.max_duration_ms),
            (&["max_staleness"], self.max_staleness_ms),
            (&["settle"], self.settle_ms),
            (&["drain_timeout"], self.drain_timeout_ms),
            (&["connect_timeout"], self.connect_timeout_ms),
        ] {
            let message = format!("{} must be at most 366d, not {}", key[0], text(value_ms));
            check(value_ms <= year_ms, key, message);
        }
        // A member that is silent for five minutes counts as dead.
        let message =
            format!("revoke_timeout must be at most 4m, not {}", text(self.revoke_timeout_ms));
        check(self.revoke_timeout_ms <= 240_000, &["revoke_timeout"], message);
        for (key, value_ms) in [
            (&["max_gap"], self.max_gap_ms),
            (&["flush_interval"], self.flush_interval_ms),
            (&["connect_timeout"], self.connect_timeout_ms),
        ] {
            check(value_ms > 0, key, format!("{} must be longer than 0", key[0]));
        }
        // Further out an id would leave the years that its text form can write.
        check(
            self.max_future_ms <= 100 * year_ms,
            &["max_future"],
            format!("max_future must be at most 36600d, not {}", text(self.max_future_ms)),
        );
        check(
            (1..=i32::MAX.unsigned_abs().into()).contains(&self.max_samples),
            &["max_samples"],
            format!("max_samples must be 1 to 2147483647, not {}", self.max_samples),
        );
        check(
            self.min_time_ms >= 0,
            &["min_time"],
            "min_time must not be before 1970-01-01T00:00:00Z".into(),
        );
        check(
            self.flush_interval_ms <= self.max_staleness_ms,
            &["flush_interval", "max_staleness"],
            format!(
                "flush_interval ({}) must not be longer than max_staleness ({})",
                text(self.flush_interval_ms),
                text(self.max_staleness_ms)
            ),
        );
        check(
            self.memory >= MIN_MEMORY,
            &["memory"],
            format!("memory must be at least 64MB, not {}", size::format_size(self.memory)),
        );
        problems.extend(self.other_key());
        problems.extend(tls::problems(self));
        problems.extend(http::problems(self));
        problems
    }

    /// A partition that is to be computed from a key that is not the device.
    fn other_key(&self) -> Option<Problem> {
        let is_computed = self.partitioner.is_some_and(|of| of != Partitioner::None);
        let message = "partitioner must be none with --key any: another key tells no device";
        let problem = Problem { keys: &["partitioner", "key"], message: message.into() };
        (is_computed && self.key != KeyRule::DeviceId).then_some(problem)
    }

    /// The part that decides trips.
    #[must_use]
    pub fn rules(&self) -> Rules {
        #[expect(clippy::cast_possible_truncation, reason = "the table bounds both values")]
        let quanta = |value: f64, per_unit: f64| (value * per_unit).round() as i32;
        Rules {
            max_gap_ms: self.max_gap_ms,
            max_duration_ms: self.max_duration_ms,
            max_samples: u32::try_from(self.max_samples).unwrap_or(u32::MAX),
            min_time_ms: self.min_time_ms,
            max_future_ms: self.max_future_ms,
            drop_ignition_off: self.drop_ignition_off,
            min_speed_cmps: self.min_speed_mps.map(|mps| quanta(mps, 100.0)),
            max_accuracy_dm: self.max_accuracy_m.map(|metres| quanta(metres, 10.0)),
            fields: self.map.clone(),
            time_unit: self.time_unit,
            speed_unit: self.speed_unit,
            key: match self.key {
                KeyRule::DeviceId => "device_id".into(),
                KeyRule::Any => "any".into(),
            },
            ..Rules::default()
        }
    }
}

/// Settings while the sources are laid over one another.
#[derive(Default)]
struct Layers {
    settings: Settings,
    origins: Origins,
    faults: Vec<SettingsFault>,
    /// Keys whose value could not be read: a rule about them would only confuse.
    unread: Vec<&'static str>,
}

impl Layers {
    fn set(&mut self, setting: &'static Setting, value: &str, origin: Origin) {
        match (setting.set)(&mut self.settings, value) {
            Ok(()) => {
                self.origins.insert(setting.key, origin);
            }
            Err(problem) => {
                self.unread.push(setting.key);
                let message = format!("{}: {problem}", setting.key);
                self.faults.push(SettingsFault { origin, message });
            }
        }
    }

    fn finish(mut self) -> Result<(Settings, Origins), SettingsError> {
        for setting in TABLE.iter() {
            self.origins.entry(setting.key).or_insert(Origin::Default);
        }
        for problem in self.settings.validate() {
            if problem.keys.iter().any(|key| self.unread.contains(key)) {
                continue;
            }
            // The fault stands where somebody set something, not at a default.
            let origins = problem.keys.iter().map(|key| &self.origins[key]);
            let origin = origins.clone().find(|origin| **origin != Origin::Default);
            let origin = origin.unwrap_or(&Origin::Default).clone();
            self.faults.push(SettingsFault { origin, message: problem.message });
        }
        if self.faults.is_empty() {
            return Ok((self.settings, self.origins));
        }
        // People go through a file from top to bottom.
        self.faults.sort_by_key(|fault| match fault.origin {
            Origin::File { line, .. } => line,
            _ => usize::MAX,
        });
        Err(SettingsError { faults: self.faults })
    }
}

/// `TSTAR_*` variables that are neither a setting nor otherwise known, each with what to do.
/// They are warnings: clusters inject such names.
#[must_use]
pub fn unknown_env(env: &[(String, String)]) -> Vec<String> {
    let known = |name: &str| {
        matches!(name, "TSTAR_COMMIT" | CQL_PASSWORD)
            || name.starts_with("TSTAR_TEST_")
            || TABLE.iter().any(|setting| setting.env == name)
    };
    let names = env.iter().map(|(name, _)| name.as_str());
    let unknown = names.filter(|name| name.starts_with("TSTAR_") && !known(name));
    unknown
        .map(|name| {
            let hint = nearest(name, TABLE.iter().map(|setting| setting.env));
            format!("environment variable `{name}` is not known and has no effect{hint}")
        })
        .collect()
}

#[cfg(test)]
mod tests;
