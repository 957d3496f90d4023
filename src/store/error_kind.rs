//! Store errors as metric labels.

use super::StoreError;

impl StoreError {
    /// The kind of error as one word, for metrics. The words are stable.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Unreadable { .. } => "unreadable",
            Self::InRoot { .. } => "in_root",
            Self::InTheWay { .. } => "in_the_way",
            Self::Locked { .. } | Self::OtherName { .. } => "locked",
            Self::NotAStore { .. } => "foreign",
            Self::FormatTooNew { .. } => "newer",
            Self::FormatTooOld { .. } => "older",
            Self::RulesMismatch { .. } => "other_rules",
            Self::Malformed(_) => "malformed",
            Self::Full { .. } => "full",
            Self::LettersFull { .. } => "letters_full",
            Self::Unwritable { .. } => "unwritable",
            Self::ReadOnly { .. } => "read_only",
            Self::LogMismatch { .. } => "other_log",
            Self::LacksKey { .. } => "lacks_key",
            Self::LacksSchema { .. } => "lacks_schema",
            Self::Gone { .. } => "gone",
            Self::Unreachable { .. } => "unreachable",
            Self::Denied { .. } => "denied",
            Self::Options { .. } => "options",
            Self::NoSchema { .. } => "no_schema",
            Self::Failed { .. } => "failed",
        }
    }
}
