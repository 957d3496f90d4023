//! The contract's rules for a sample, applied literally: after each arrival, all kept samples are
//! sorted, parted into trips and stops, and ids are looked for in each part. Slow, and easy to
//! compare with the page.

use std::collections::BTreeMap;

use super::{Class, Fix};

const DAY: i64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_gap: i64,
    pub min_stop: Option<i64>,
    pub max_samples: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    Duplicate { conflicting: bool },
    TripFull,
    Inside,
    Merge,
    Split,
    Turn,
    End,
    Beginning,
    New,
}

/// A trip or a stop.
#[derive(Clone, Debug)]
pub struct Trip {
    pub is_stop: bool,
    pub version: i64,
    /// The time of each id, and the versions at which it was minted, retired, revived and so on.
    pub ids: BTreeMap<i64, Vec<i64>>,
    /// By time.
    pub kept: Vec<Fix>,
    /// The version at which each of them arrived, by its time.
    pub arrived: BTreeMap<i64, i64>,
}

impl Trip {
    pub fn start(&self) -> i64 {
        self.kept[0].time
    }

    pub fn end(&self) -> i64 {
        self.kept[self.kept.len() - 1].time
    }

    /// The id that is not retired.
    pub fn t_star(&self) -> i64 {
        *self.ids.iter().find(|(_, history)| is_live(history)).expect("a trip has an id").0
    }

    /// The version at which that was minted.
    pub fn minted(&self) -> i64 {
        self.ids[&self.t_star()][0]
    }

    /// Retired ids, and the version at which each was retired last, by time.
    pub fn absorbed(&self) -> Vec<(i64, i64)> {
        let retired = self.ids.iter().filter(|(_, history)| !is_live(history));
        retired.map(|(&time, history)| (time, history[history.len() - 1])).collect()
    }

    /// The driver that the earliest kept sample with a driver names, and that sample's time.
    pub fn driver(&self) -> Option<(&'static str, i64)> {
        self.kept.iter().find_map(|fix| Some((fix.driver?, fix.time)))
    }
}

fn is_live(history: &[i64]) -> bool {
    history.len() % 2 == 1
}

/// Samples of one trip or stop, and whether it is a stop.
type Part = (bool, Vec<Fix>);

/// All trips and stops of one device, by time.
#[derive(Clone, Debug)]
pub struct Device {
    limits: Limits,
    pub trips: Vec<Trip>,
    /// `max_samples` has refused something.
    pub met_a_limit: bool,
    /// A trip was cut at a midnight, or something stood.
    pub met_a_cut: bool,
}

impl Device {
    pub fn new(limits: Limits) -> Self {
        Self { limits, trips: Vec::new(), met_a_limit: false, met_a_cut: false }
    }

    /// Applies the sample of the record at `version`, and returns its effect.
    pub fn arrive(&mut self, version: i64, fix: Fix) -> Did {
        let t = fix.time;
        let all = self.trips.iter().flat_map(|trip| &trip.kept);
        let mut kept: Vec<Fix> = all.copied().chain([fix]).collect();
        if let Some(before) = kept.iter().rev().skip(1).find(|kept| kept.time == t) {
            // A slow one has another speed. The ignition does not count.
            let is_slow = |fix: &Fix| fix.class == Class::Slow;
            let conflicting = before.place != fix.place || is_slow(before) != is_slow(&fix);
            return Did::Duplicate { conflicting };
        }
        kept.sort_unstable_by_key(|fix| fix.time);
        let parts = self.parts(&kept);
        let is_same = |part: &Part, trip: &Trip| part.0 == trip.is_stop && *part.1 == *trip.kept;
        let former = |part: &Part| self.trips.iter().find(|trip| is_same(part, trip));
        let added: Vec<Part> =
            parts.iter().filter(|part| former(part).is_none()).cloned().collect();
        if added.iter().any(|(_, part)| part.len() > self.limits.max_samples) {
            self.met_a_limit = true;
            return Did::TripFull;
        }
        let stays = |trip: &&Trip| parts.iter().any(|part| is_same(part, trip));
        let (stay, taken): (Vec<&Trip>, Vec<&Trip>) = self.trips.iter().partition(stays);
        let did = effect(&taken, &added, t);
        let arrived = BTreeMap::from([(t, version)]);
        let arrived = taken
            .iter()
            .fold(arrived, |all, trip| all.into_iter().chain(trip.arrived.clone()).collect());
        let ids: BTreeMap<i64, Vec<i64>> = taken.iter().flat_map(|trip| trip.ids.clone()).collect();
        let mut trips: Vec<Trip> = stay.into_iter().cloned().collect();
        trips.extend(added.into_iter().map(|part| named(part, version, &ids, &arrived)));
        trips.sort_by_key(Trip::start);
        self.trips = trips;
        did
    }

    /// The parts of sorted samples that are a trip or a stop each.
    fn parts(&mut self, kept: &[Fix]) -> Vec<Part> {
        let gap = self.limits.max_gap;
        let day = |fix: &Fix| fix.time.div_euclid(DAY);
        let is_near = |a: &Fix, b: &Fix| b.time - a.time <= gap;
        let of_day = |a: &Fix, b: &Fix| is_near(a, b) && day(a) == day(b);
        let phases: Vec<&[Fix]> =
            kept.chunk_by(|a, b| of_day(a, b) && a.class == b.class).collect();
        let mut pieces: Vec<Part> = Vec::new();
        for (nth, phase) in phases.iter().enumerate() {
            let (first, last) = (&phase[0], &phase[phase.len() - 1]);
            let before = nth.checked_sub(1).map(|nth| &phases[nth][phases[nth].len() - 1]);
            let before = before.filter(|before| of_day(before, first));
            let after = phases.get(nth + 1).map(|next| &next[0]);
            let after = after.filter(|after| of_day(last, after));
            let stood = after.unwrap_or(last).time - first.time;
            let moves = |fix: Option<&Fix>| fix.is_some_and(|fix| fix.class == Class::Moving);
            let is_stop = match first.class {
                Class::Moving => false,
                Class::Separator => true,
                Class::Slow => {
                    self.limits.min_stop.is_some_and(|min| stood >= min)
                        || !moves(before) && !moves(after)
                }
            };
            self.met_a_cut |= first.class != Class::Moving;
            match pieces.last_mut() {
                Some((kind, piece)) if *kind == is_stop && before.is_some() => piece.extend(*phase),
                _ => pieces.push((is_stop, phase.to_vec())),
            }
        }
        self.joined(pieces)
    }

    /// Joins trips across midnights, but those that fill a day.
    fn joined(&mut self, pieces: Vec<Part>) -> Vec<Part> {
        let gap = self.limits.max_gap;
        let fills = |piece: &[Fix]| {
            let (first, last) = (piece[0].time, piece[piece.len() - 1].time);
            first.rem_euclid(DAY) < gap && last.rem_euclid(DAY) >= DAY - gap
        };
        let mut parts: Vec<Part> = Vec::new();
        // Of the piece before: whether it is a stop, its end, and whether it fills its day.
        let mut before: Option<(bool, i64, bool)> = None;
        for (is_stop, piece) in pieces {
            let (start, end, is_full) = (piece[0].time, piece[piece.len() - 1].time, fills(&piece));
            let linked = before
                .filter(|(was_stop, before, _)| !was_stop && !is_stop && start - before <= gap);
            let is_cut = linked.is_some_and(|(_, _, was_full)| was_full || is_full);
            self.met_a_cut |= is_cut;
            match parts.last_mut() {
                Some((_, part)) if linked.is_some() && !is_cut => part.extend(piece),
                _ => parts.push((is_stop, piece)),
            }
            before = Some((is_stop, end, is_full));
        }
        parts
    }
}

/// What happened to the trips and stops that were taken away.
fn effect(taken: &[&Trip], added: &[Part], t: i64) -> Did {
    let alone = |part: &[Fix]| part.len() == 1 && part[0].time == t;
    let former: Vec<&Part> = added.iter().filter(|(_, part)| !alone(part)).collect();
    let holder = added.iter().find(|(_, part)| part.iter().any(|fix| fix.time == t));
    let (_, holder) = holder.expect("the sample is kept");
    let turns = || former.iter().zip(taken).any(|(part, trip)| part.0 != trip.is_stop);
    match former.len().cmp(&taken.len()) {
        std::cmp::Ordering::Greater => Did::Split,
        std::cmp::Ordering::Less => Did::Merge,
        std::cmp::Ordering::Equal if turns() => Did::Turn,
        std::cmp::Ordering::Equal if alone(holder) => Did::New,
        std::cmp::Ordering::Equal if holder[0].time == t => Did::Beginning,
        std::cmp::Ordering::Equal if holder[holder.len() - 1].time == t => Did::End,
        std::cmp::Ordering::Equal => Did::Inside,
    }
}

/// A trip or stop with the ids at its samples: the earliest is not retired; of a trip, the earliest
/// at a moving sample.
fn named(
    (is_stop, kept): Part,
    version: i64,
    ids: &BTreeMap<i64, Vec<i64>>,
    arrived: &BTreeMap<i64, i64>,
) -> Trip {
    let at = |time: i64| kept.iter().any(|fix| fix.time == time);
    let own = ids.iter().filter(|(time, _)| at(**time));
    let mut ids: BTreeMap<i64, Vec<i64>> = own.map(|(&time, it)| (time, it.clone())).collect();
    let may_name = |fix: &&Fix| is_stop || fix.class == Class::Moving;
    let mut names = kept.iter().filter(may_name).map(|fix| fix.time);
    let first = names.clone().next().expect("a trip moves");
    let live = names.find(|time| ids.contains_key(time)).unwrap_or(first);
    ids.entry(live).or_insert_with(|| vec![version]);
    for (&time, history) in &mut ids {
        if is_live(history) != (time == live) {
            history.push(version);
        }
    }
    let arrived = kept.iter().map(|fix| (fix.time, arrived[&fix.time])).collect();
    Trip { is_stop, version, ids, kept, arrived }
}
