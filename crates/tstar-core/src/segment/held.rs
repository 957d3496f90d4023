//! A segment in memory: what it is, its samples, and the write group that will write it.

use super::load::phases;
use super::mint::{MintPoints, is_live};
use super::outline::Outline;
use super::{Kind, SegmentRules};
use crate::model::scalar::{DeviceTime, Version};
use crate::timeline::Path;

/// Approximate memory of a segment without its path: the struct, a phase, a mint point with its
/// history, its entry in the map; bytes.
const OVERHEAD: usize = size_of::<Segment>() + 160;

/// Memory of each further phase or mint point, including unused capacity, bytes.
const PHASE: usize = 48;
const POINT: usize = 88;

/// A trip or a stop in memory.
#[derive(Clone, Debug)]
pub struct Segment {
    pub(super) outline: Outline,
    pub(super) path: Path,
    /// Partition of the row that it was loaded from. `None` after a change: the reader's own.
    pub partition: Option<i32>,
    /// The write group with its changes; `None` if it has none that no flush has taken yet.
    pub(super) group: Option<u32>,
}

impl Segment {
    /// A segment without changes, as a store has it. The phases of the outline are those of the
    /// path.
    pub(super) fn new(outline: Outline, path: Path) -> Self {
        debug_assert_eq!((outline.start_ms(), outline.end_ms()), span(&path));
        debug_assert_eq!(outline.samples(), path.len());
        Self { outline, path, partition: None, group: None }
    }

    /// A segment as a store has it.
    #[must_use]
    pub fn loaded(
        rules: &SegmentRules,
        kind: Kind,
        points: MintPoints,
        version: Version,
        path: Path,
    ) -> Self {
        let phases = phases(rules, path.iter(), |_, _| false);
        Self::new(Outline { kind, phases, points, version }, path)
    }

    /// What it is.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Its samples, and who drove.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device time of its earliest sample.
    #[must_use]
    pub fn start_ms(&self) -> DeviceTime {
        self.outline.start_ms()
    }

    /// Device time of its latest sample.
    #[must_use]
    pub fn end_ms(&self) -> DeviceTime {
        self.outline.end_ms()
    }

    /// Number of its samples, at least 1.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.path.len()
    }

    /// Whether changes wait for a flush.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.group.is_some()
    }

    /// Whether it has an id that was minted, retired or revived at or past a version.
    #[must_use]
    pub fn has_news_since(&self, version: Version) -> bool {
        let news = |history: &Vec<Version>| history.last().is_some_and(|&last| last >= version);
        self.outline
            .points
            .values()
            .any(|history| news(history) && (is_live(history) || history.len() > 1))
    }

    /// Approximate memory, bytes.
    pub(super) fn memory(&self) -> usize {
        let Outline { phases, points, .. } = &self.outline;
        OVERHEAD + phases.len() * PHASE + points.len() * POINT + self.path.memory()
    }
}

fn span(path: &Path) -> (DeviceTime, DeviceTime) {
    (path.first().time_ms, path.last().time_ms)
}
