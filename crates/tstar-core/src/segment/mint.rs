//! Mint points: the device times at which ids were born, and what became of them.

use smallvec::SmallVec;

use super::phase::Phase;
use super::{Class, Kind};
use crate::model::scalar::{DeviceTime, Version};

/// The versions at which an id was minted, retired, revived, retired and so on. The id names its
/// segment if their number is odd.
pub type History = SmallVec<[Version; 1]>;

/// The mint points of a segment by time, with their histories. Exactly one names the segment. Most
/// segments have one, which needs no memory of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MintPoints(SmallVec<[(DeviceTime, History); 1]>);

impl FromIterator<(DeviceTime, History)> for MintPoints {
    /// The times must differ.
    fn from_iter<I: IntoIterator<Item = (DeviceTime, History)>>(points: I) -> Self {
        let mut points: SmallVec<_> = points.into_iter().collect();
        points.sort_by_key(|(time_ms, _)| *time_ms);
        Self(points)
    }
}

impl IntoIterator for MintPoints {
    type Item = (DeviceTime, History);
    type IntoIter = smallvec::IntoIter<[Self::Item; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl MintPoints {
    /// One id, minted at a time by the record at `version`.
    #[must_use]
    pub fn new(time_ms: DeviceTime, version: Version) -> Self {
        std::iter::once((time_ms, History::from_elem(version, 1))).collect()
    }

    /// Number of ids.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a segment has an id")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The ids by time, with their histories.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceTime, &[Version])> {
        self.0.iter().map(|(time_ms, history)| (*time_ms, &**history))
    }

    /// The history of the id of a time.
    #[must_use]
    pub fn get(&self, time_ms: DeviceTime) -> Option<&[Version]> {
        let at = self.0.binary_search_by_key(&time_ms, |(time_ms, _)| *time_ms).ok()?;
        Some(&self.0[at].1)
    }

    /// The ids that the record at a version retired, by time.
    pub fn retired_at(&self, version: Version) -> impl Iterator<Item = DeviceTime> {
        let is_retired =
            move |history: &[Version]| !is_live(history) && history.last() == Some(&version);
        self.iter().filter(move |(_, history)| is_retired(history)).map(|(time_ms, _)| time_ms)
    }

    /// The id that names the segment; `None` if there is none.
    #[must_use]
    pub fn live(&self) -> Option<(DeviceTime, &[Version])> {
        self.iter().find(|(_, history)| is_live(history))
    }

    fn insert(&mut self, time_ms: DeviceTime, history: History) {
        let at = self.0.partition_point(|(before_ms, _)| *before_ms < time_ms);
        self.0.insert(at, (time_ms, history));
    }

    /// Gives a segment its id, of the record at `version`, where these are the mint points at its
    /// samples.
    ///
    /// The id is the earliest mint point at a sample that may name the segment: a moving one of a
    /// trip, any one of a stop. Without one, the earliest such sample is minted.
    pub(super) fn name(&mut self, kind: Kind, phases: &[Phase], version: Version) {
        let may = |phase: &&Phase| kind == Kind::Stop || phase.class == Class::Moving;
        let is_at = |time_ms| {
            let at = phases.partition_point(|phase| phase.last_ms < time_ms);
            phases.get(at).filter(may).is_some_and(|phase| phase.covers(time_ms))
        };
        let id = self.0.iter().map(|(time_ms, _)| *time_ms).find(|&time_ms| is_at(time_ms));
        let id = id.unwrap_or_else(|| {
            let earliest = phases.iter().find(may).or(phases.first());
            let earliest = earliest.expect("a segment has samples").first_ms;
            self.insert(earliest, History::from_elem(version, 1));
            earliest
        });
        for (time_ms, history) in &mut self.0 {
            if is_live(history) != (*time_ms == id) {
                history.push(version);
            }
        }
    }
}

/// Whether an id with this history names its segment.
#[must_use]
pub fn is_live(history: &[Version]) -> bool {
    history.len() % 2 == 1
}
