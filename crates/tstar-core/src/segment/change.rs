//! What a sample changes: the segments that it takes away, and those that come instead.

use std::ops::Range;

use smallvec::SmallVec;

use super::mint::MintPoints;
use super::outline::Outline;
use super::partition::partition;
use super::phase::Phase;
use super::window::{Piece, Unchanged, Window};
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::{DeviceTime, Version};

/// The segments that a sample takes away and those that come instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Places of those that it takes away, among the segments that were given, ascending.
    pub(super) taken: Vec<usize>,
    added: Vec<Added>,
    version: Version,
}

/// A segment that comes instead of others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Added {
    kind: Kind,
    pieces: SmallVec<[Piece; 4]>,
    samples: usize,
}

impl Change {
    /// The number of samples of the largest segment that it adds.
    pub(super) fn most_samples(&self) -> usize {
        self.added.iter().map(|added| added.samples).max().unwrap_or_default()
    }

    /// The segments that it adds, by time, made of those that it takes away.
    pub(super) fn outlines(self, taken: Vec<Outline>) -> Vec<Outline> {
        let Self { taken: places, added, version } = self;
        let is_one = taken.len() == 1 && added.len() == 1;
        let parts = taken.into_iter().map(|outline| (outline.phases, outline.points));
        let (mut phases, points): (Vec<_>, Vec<_>) = parts.unzip();
        let mut points = points.into_iter().flatten().peekable();
        let outline = |Added { kind, pieces, .. }: Added| {
            let phases = if is_one {
                replace(std::mem::take(&mut phases[0]), &pieces)
            } else {
                concat(&pieces, |place| &phases[places.partition_point(|&it| it < place)])
            };
            let end_ms = phases[phases.len() - 1].last_ms;
            let own = std::iter::from_fn(|| points.next_if(|(time_ms, _)| *time_ms <= end_ms));
            let mut points: MintPoints = own.collect();
            points.name(kind, &phases, version);
            Outline { kind, phases, points, version }
        };
        added.into_iter().map(outline).collect()
    }
}

/// The phases of pieces of one segment, in its own memory: it may have as many as samples.
fn replace(mut phases: SmallVec<[Phase; 1]>, pieces: &[Piece]) -> SmallVec<[Phase; 1]> {
    let mut end = phases.len();
    let mut changed = SmallVec::<[Phase; 4]>::new();
    // From the last on, so that those before stay where they are.
    for piece in pieces.iter().rev() {
        match *piece {
            Piece::Changed(phase) => changed.insert(0, phase),
            Piece::Unchanged(kept) => {
                exchange(&mut phases, kept.end..end, &mut changed);
                end = kept.first;
            }
        }
    }
    exchange(&mut phases, 0..end, &mut changed);
    phases
}

fn exchange(phases: &mut SmallVec<[Phase; 1]>, old: Range<usize>, new: &mut SmallVec<[Phase; 4]>) {
    let at = old.start;
    if !old.is_empty() {
        phases.drain(old);
    }
    if !new.is_empty() {
        phases.insert_many(at, new.drain(..));
    }
}

/// The phases of pieces of several segments.
fn concat<'a>(
    pieces: &[Piece],
    phases_of: impl Fn(usize) -> &'a SmallVec<[Phase; 1]>,
) -> SmallVec<[Phase; 1]> {
    let mut phases = SmallVec::new();
    for piece in pieces {
        match *piece {
            Piece::Changed(phase) => phases.push(phase),
            Piece::Unchanged(Unchanged { place, first, end }) => {
                phases.extend_from_slice(&phases_of(place)[first..end]);
            }
        }
    }
    phases
}

/// What becomes of a sample whose device time is not kept yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is kept.
    Keep(Change),
    /// A dead letter: it would make a segment of more than `max_samples`.
    Full,
}

/// Where a sample belongs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement<K, C> {
    /// Device time of the sample.
    pub(super) time_ms: DeviceTime,
    /// Its class.
    pub(super) class: Class,
    /// Whether everything between two times is in memory.
    pub(super) is_known: K,
    /// Cuts a phase at the time of the sample, which lies between two of its samples.
    pub(super) cut: C,
}

/// How many segments on each side of those within `max_gap` of a sample decide on what it changes:
/// that of a phase whose kind it changes, where that one lasts over a midnight, and the one that
/// such a phase joins; or that of movement which no longer fills its day, the one across the
/// midnight that it then joins, and a stop at the other end of that day: by what the day says, it
/// may be of the movement that fills it. What is linked to these only ever changes with them in one
/// segment: a trip that grows may fill its day, but only one that the sample is linked to gets
/// shorter, so that its day is no longer filled.
pub(super) const SURROUNDINGS: usize = 3;

/// Decides what a sample of the record at `version` changes.
///
/// `near` are the segments around it, by time: those within `max_gap` of it, and on either side the
/// next [`SURROUNDINGS`] of which each is linked to the one before. More of them change nothing.
/// None of them has a sample at that time.
pub(super) fn decide(
    rules: &SegmentRules,
    near: &[&Outline],
    version: Version,
    placement: Placement<
        impl Fn(DeviceTime, DeviceTime) -> bool,
        impl FnOnce(&Phase) -> (Phase, Phase),
    >,
) -> Decision {
    let window = Window::around(rules, near, placement);
    let mut kept = vec![false; near.len()];
    let mut added = Vec::new();
    for (kind, part) in partition(rules, &window) {
        let pieces = window.pieces(part.clone());
        match pieces[..] {
            [Piece::Unchanged(it)]
                if it.is_all_of(near[it.place]) && near[it.place].kind == kind =>
            {
                kept[it.place] = true;
            }
            _ => added.push(Added { kind, pieces, samples: window.samples(part) }),
        }
    }
    let taken = (0..near.len()).filter(|&place| !kept[place]).collect();
    let change = Change { taken, added, version };
    if change.most_samples() > rules.max_samples {
        return Decision::Full;
    }
    Decision::Keep(change)
}
