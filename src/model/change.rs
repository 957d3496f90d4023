//! Changes of trips and stops, and erasures, as the change feed announces them.

use crate::identity::DeviceId;
use crate::model::scalar::{DeviceTime, Version};

pub use tstar_core::model::change::ChangeKind;

/// A change event: a segment that a flush changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Type of the event.
    pub kind: ChangeKind,
    /// The `t_star`s that this change retired, ms, ascending.
    pub retired: Vec<DeviceTime>,
    /// Index of the segment among the rows of its write group.
    pub row: usize,
    /// Whether the store is known to have newer rows there: what goes by order, and not by version,
    /// must not get this change.
    pub in_past: bool,
}

/// A forget: trips of a device that end before a time are erased, and older samples are dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Version of the control record.
    pub version: Version,
    /// End of the erased range, device time, ms; exclusive.
    pub before_ms: DeviceTime,
}

impl Forget {
    /// Whether it erases a row that ends at a time and has a version. What a later record leaves
    /// before the end of the erased range stays.
    #[must_use]
    pub fn erases(&self, end_ms: DeviceTime, version: Version) -> bool {
        end_ms < self.before_ms && version < self.version
    }

    /// Combines two forgets of a device: the newer version, and the later `before`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let version = self.version.max(other.version);
        Self { version, before_ms: self.before_ms.max(other.before_ms) }
    }
}

/// The event of an executed [`Forget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Device id.
    pub device_id: DeviceId,
    /// The executed forget.
    pub forget: Forget,
}
