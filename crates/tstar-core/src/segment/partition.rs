//! Parts phases into segments. The result is a function of the phases, so of the set of kept
//! samples.

use std::ops::Range;

use super::phase::Phase;
use super::window::Window;
use super::{Class, Kind, SegmentRules};
use crate::model::scalar::DAY_MS;

/// The segments of phases, as ranges of them.
pub(super) fn partition(rules: &SegmentRules, window: &Window) -> Vec<(Kind, Range<usize>)> {
    let mut segments: Vec<(Kind, Range<usize>)> = Vec::new();
    // The part of the last segment that lies in its last day.
    let mut last = 0..0;
    for (kind, piece) in pieces(rules, window) {
        let fills = |piece: &Range<usize>| fills_day(rules, &window.phases()[piece.clone()]);
        match segments.last_mut() {
            Some((Kind::Trip, before))
                if kind == Kind::Trip
                    && window.is_linked(rules, piece.start)
                    && !fills(&last)
                    && !fills(&piece) =>
            {
                before.end = piece.end;
            }
            _ => segments.push((kind, piece.clone())),
        }
        last = piece;
    }
    segments
}

/// Linked phases of one kind within a day.
fn pieces(rules: &SegmentRules, window: &Window) -> Vec<(Kind, Range<usize>)> {
    let mut pieces: Vec<(Kind, Range<usize>)> = Vec::new();
    for at in 0..window.phases().len() {
        let kind = window.known_kind(at).unwrap_or_else(|| kind(rules, window, at));
        match pieces.last_mut() {
            Some((before, piece)) if *before == kind && window.is_linked_in_day(rules, at) => {
                piece.end = at + 1;
            }
            _ => pieces.push((kind, at..at + 1)),
        }
    }
    pieces
}

fn kind(rules: &SegmentRules, window: &Window, at: usize) -> Kind {
    let phase = &window.phases()[at];
    match phase.class {
        Class::Separator => return Kind::Stop,
        Class::Moving => return Kind::Trip,
        Class::Slow => {}
    }
    let is_followed = window.is_linked_in_day(rules, at + 1);
    let until_ms = if is_followed { window.phases()[at + 1].first_ms } else { phase.last_ms };
    let stands = rules.min_stop_ms.is_some_and(|min_ms| until_ms - phase.first_ms >= min_ms);
    // A parked device whose samples are further apart than `max_gap` makes no trips of one sample.
    let moves = window.is_next_to(rules, at, Class::Moving);
    if stands || !moves { Kind::Stop } else { Kind::Trip }
}

/// Whether movement within a day reaches so close to both of its ends that nothing else can: then
/// it is cut at both midnights.
fn fills_day(rules: &SegmentRules, piece: &[Phase]) -> bool {
    let (first, last) = (&piece[0], &piece[piece.len() - 1]);
    let start_ms = first.day().start_ms();
    first.first_ms - start_ms < rules.max_gap_ms
        && last.last_ms - start_ms >= DAY_MS - rules.max_gap_ms
}
