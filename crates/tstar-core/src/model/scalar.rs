//! Numbers that must not be mixed up, each with a type of its own. All are an `i64` in memory and
//! in JSON.

pub use crate::identity::DeviceTime;
use crate::identity::scalar;

scalar! {
    /// A time at which the log received a record, ms since 1970-01-01T00:00:00Z.
    LogTime, ms
}

scalar! {
    /// A UTC day, as whole days since 1970-01-01.
    Day, get
}

scalar! {
    /// The place of a record in the order of all changes of a partition: base of its epoch plus
    /// twice its offset.
    Version, get
}

scalar! {
    /// The place of a record in its partition; for files, the number of records before it.
    Offset, get
}

/// A UTC day, ms.
pub const DAY_MS: i64 = 86_400_000;

impl Day {
    /// The start of the day, as the time of a device.
    #[must_use]
    pub const fn start_ms(self) -> DeviceTime {
        DeviceTime(self.0.saturating_mul(DAY_MS))
    }

    /// Every day from this one to `last`, both included.
    pub fn through(self, last: Self) -> impl DoubleEndedIterator<Item = Self> + Clone {
        (self.0..=last.0).map(Self)
    }
}
