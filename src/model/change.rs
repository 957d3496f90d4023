//! What a flush did to trips, as the change feed announces it.

/// What kind of change an event of the change feed tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The trip is new.
    Started,
    /// The trip has more samples.
    Grown,
    /// The trip took in others.
    Merged,
}

impl ChangeKind {
    /// The name in events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Grown => "grown",
            Self::Merged => "merged",
        }
    }
}

/// One event of the change feed: a trip that a flush changed. The trip is a row of the same flush.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The `t_star`s that this change retired, ms, rising.
    pub retired: Vec<i64>,
    /// Which of the trips of the flush it is about.
    pub row: usize,
}

/// The trips of a device that end before a time are erased, and its samples before it dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Version of the record that says so.
    pub version: i64,
    /// Device time, ms.
    pub before_ms: i64,
}

impl Forget {
    /// Two of a device as one: the newer version, and the later `before`.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let version = self.version.max(other.version);
        Self { version, before_ms: self.before_ms.max(other.before_ms) }
    }
}

/// What the change feed tells of a [`Forget`] that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Device id.
    pub device_id: String,
    /// What was carried out.
    pub forget: Forget,
}
