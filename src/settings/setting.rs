//! The definition of a setting.

use std::sync::LazyLock;

use super::{Settings, http, table};

/// Every setting.
pub static TABLE: LazyLock<Vec<&'static Setting>> =
    LazyLock::new(|| table::SETTINGS.iter().chain(http::SETTINGS).collect());

/// The type of a value, which decides the TOML types that the file may use. TOML text always works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
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

/// A setting.
#[derive(Debug)]
pub struct Setting {
    /// Key in the file.
    pub key: &'static str,
    /// Flag, with its dashes.
    pub flag: &'static str,
    /// Environment variable.
    pub env: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Default value as text.
    pub default: &'static str,
    /// Type of the value.
    pub kind: Kind,
    /// Parses a value into the settings; the error describes what is wrong with it.
    pub set: fn(&mut Settings, &str) -> Result<(), String>,
    /// Formats the value as text.
    pub get: fn(&Settings) -> String,
}

impl Setting {
    /// The setting with a key.
    #[must_use]
    pub fn by_key(key: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.key == key).copied()
    }
}

/// One entry of the table, so that the key, parser and formatter of a setting are in one place.
macro_rules! setting {
    (
        $key:literal, $flag:literal, $env:literal, $default:literal, $kind:ident, $($field:ident).+,
        $read:expr, $write:expr, $help:literal
    ) => {
        Setting {
            key: $key,
            flag: $flag,
            env: $env,
            help: $help,
            default: $default,
            kind: Kind::$kind,
            set: |settings, text| {
                settings.$($field).+ = $read(text).map_err(|error| error.to_string())?;
                Ok(())
            },
            get: |settings| $write(&settings.$($field).+),
        }
    };
}
