//! The types of change events.

use super::named::named;

named! {
    /// Type of a change event.
    ChangeKind {
        /// The segment is new.
        Started = "started",
        /// It gained samples, or lost some to another.
        Changed = "changed",
        /// It absorbed others.
        Merged = "merged",
        /// It is a part of another, with a new id.
        Split = "split",
        /// It is a part of another, with an id that had been retired.
        Revived = "revived",
    }
}
