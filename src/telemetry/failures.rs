//! Kinds of failures of a store, as labels of metrics.

/// A request to a server that failed, and is made again: no error yet.
pub(super) const RETRIED: &str = "retried";

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
