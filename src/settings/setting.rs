//! The definition of a setting.

use std::sync::LazyLock;

use super::{Settings, http, table};

/// Every setting, in the order of the documentation.
pub static TABLE: LazyLock<Vec<Setting>> =
    LazyLock::new(|| [table::entries(), http::entries()].into_iter().flatten().collect());

/// The type of a value, which decides the TOML types that the file may use. TOML text always works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, which the setting checks itself.
    Text,
    /// A whole number with a unit.
    Duration,
    /// RFC 3339, or ms since 1970.
    Time,
    /// A whole number.
    Count,
    /// A whole number of bytes, with a unit.
    Size,
    /// A number, or `none`.
    Number,
    /// true or false.
    Flag,
    /// Lines of text; the flag may be repeated.
    Lines,
}

/// A group of settings that a command takes as flags. Several groups may contain a setting. The
/// help lists the settings of a group in the order of [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// What decides trips, and how the input is read.
    Rules,
    /// How an import runs.
    Import,
    /// Format of input files.
    InputFormat,
    /// Overrides of the store's rules for decoding.
    Overrides,
    /// Memory limit.
    Memory,
    /// How a daemon reads its topic.
    Topic,
    /// What a daemon signs and publishes.
    Feed,
    /// When a daemon writes to its store.
    Flush,
    /// Time limits for what a daemon has not written yet.
    Drain,
    /// How a daemon logs.
    Logging,
    /// The topic of an epoch, and the group that reads it.
    Epoch,
    /// How to reach the brokers, and the topic.
    Brokers,
    /// How to reach the brokers.
    Cluster,
    /// The consumer group of a store's topic, and the control keys.
    Consumer,
    /// Keys that sign control records.
    ControlKeys,
    /// How to reach the schema registry.
    Registry,
    /// Whether a trip may still grow.
    Reader,
    /// The zone of days and of times that people read.
    Zone,
    /// How HTTP is served.
    Http,
    /// How to connect to a Scylla or Cassandra store.
    Server,
}

impl Group {
    /// The settings of the group, in the order of [`TABLE`].
    pub fn settings(self) -> impl Iterator<Item = &'static Setting> {
        TABLE.iter().filter(move |setting| setting.groups.contains(&self))
    }
}

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the file.
    pub key: &'static str,
    /// Flag, with its dashes.
    pub flag: String,
    /// Environment variable.
    pub env: String,
    /// What it does, in one line.
    pub help: &'static str,
    /// Default value as text.
    pub default: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// The groups of flags that contain it.
    pub groups: &'static [Group],
    /// Parses a value into the settings; the error describes what is wrong with it.
    pub set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Formats the value as text.
    pub get: fn(&Settings) -> String,
}

impl Setting {
    /// The setting with a key.
    #[must_use]
    pub(crate) fn by_key(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key)
    }

    /// The flag of a key, with its dashes.
    pub(super) fn flag_of(key: &str) -> String {
        format!("--{}", key.replace('_', "-"))
    }

    /// The environment variable of a key.
    pub(super) fn env_of(key: &str) -> String {
        format!("TSTAR_{}", key.to_uppercase())
    }
}

/// How the value of a setting is written as text.
pub(super) struct Syntax<T> {
    /// Type of the value.
    pub kind: Kind,
    /// Parses a value; the error describes what is wrong with it.
    pub read: fn(&str) -> Result<T, String>,
    /// Formats a value.
    pub write: fn(&T) -> String,
}

/// The value of a default.
pub(crate) fn default_of<T>(syntax: &Syntax<T>, default: &str) -> T {
    (syntax.read)(default).expect("every default can be read")
}

/// Declares a struct of settings: its fields, their defaults and its part of [`TABLE`]. `flags` are
/// the [`Group`]s of a setting; its flag and its environment variable follow from its key. The
/// settings in another struct are declared with the name of its field: `Name in field`. A field of
/// a struct that a lower layer declares is `@ struct.field`.
macro_rules! settings {
    (
        $(#[$about:meta])*
        $name:ident $(in $part:ident)? {
            $($(#[$inner_doc:meta])* $inner:ident: $inner_type:ty,)*
        }
        $(
            $($(#[$doc:meta])* $field:ident)? $(@ $sub:ident . $of_sub:ident)?: $type:ty {
                key: $key:literal, default: $default:literal, syntax: $syntax:expr,
                flags: [$($group:ident),*],
                help: $help:expr,
            }
        )*
    ) => {
        $(#[$about])*
        pub struct $name {
            $($($(#[$doc])* pub $field: $type,)?)*
            $($(#[$inner_doc])* pub $inner: $inner_type,)*
        }

        impl Default for $name {
            /// The declared defaults.
            fn default() -> Self {
                #[allow(unused_mut, reason = "not every struct has fields of other structs")]
                let mut settings = Self {
                    $($($field: $crate::settings::setting::default_of(&$syntax, $default),)?)*
                    $($inner: <$inner_type>::default(),)*
                };
                $($(
                    settings.$sub.$of_sub =
                        $crate::settings::setting::default_of(&$syntax, $default);
                )?)*
                settings
            }
        }

        /// The entries of the table.
        pub(super) fn entries() -> Vec<$crate::settings::setting::Setting> {
            use $crate::settings::setting::{Group, Setting};
            fn part(settings: &$crate::settings::Settings) -> &$name {
                &(*settings)$(.$part)?
            }
            fn part_mut(settings: &mut $crate::settings::Settings) -> &mut $name {
                &mut (*settings)$(.$part)?
            }
            vec![$(Setting {
                key: $key,
                flag: Setting::flag_of($key),
                env: Setting::env_of($key),
                help: $help,
                default: $default,
                kind: $syntax.kind,
                groups: &[$(Group::$group),*],
                set: |settings, text| {
                    part_mut(settings)$(.$field)?$(.$sub.$of_sub)? = ($syntax.read)(text)?;
                    Ok(())
                },
                get: |settings| ($syntax.write)(&part(settings)$(.$field)?$(.$sub.$of_sub)?),
            }),*]
        }
    };
}
