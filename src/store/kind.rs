//! How a store failed, as one word.

use super::StoreError;

/// A request to a server that failed, and is made again: no error yet.
pub(crate) const RETRIED: &str = "retried";

/// Kinds that a daemon may meet.
pub(crate) const MET: [&str; 10] = [
    RETRIED,
    "unreachable",
    "failed",
    "full",
    "unwritable",
    "read_only",
    "gone",
    "denied",
    "malformed",
    "lacks_key",
];

impl StoreError {
    /// How it failed, as one word: for metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Locked { .. } => "locked",
            Self::Foreign { .. } => "foreign",
            Self::Newer { .. } => "newer",
            Self::Older { .. } => "older",
            Self::OtherRules { .. } => "other_rules",
            Self::Malformed { .. } => "malformed",
            Self::Full { .. } => "full",
            Self::Unwritable { .. } => "unwritable",
            Self::ReadOnly { .. } => "read_only",
            Self::OtherLog { .. } => "other_log",
            Self::LacksKey { .. } => "lacks_key",
            Self::Gone { .. } => "gone",
            Self::Unreachable { .. } => "unreachable",
            Self::Denied { .. } => "denied",
            Self::Options { .. } => "options",
            Self::NoSchema { .. } => "no_schema",
            Self::Failed { .. } => "failed",
        }
    }
}
