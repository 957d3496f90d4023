//! Kinds of store failures: values of the label `kind`.

/// A failed request that is retried; not an error yet.
pub(super) const RETRIED: &str = "retried";

/// Kinds that a daemon can encounter.
pub(crate) const FAILURE_KINDS: [&str; 11] = [
    RETRIED,
    "unreachable",
    "failed",
    "full",
    "letters_full",
    "unwritable",
    "read_only",
    "gone",
    "denied",
    "malformed",
    "lacks_key",
];
