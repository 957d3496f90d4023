//! The contract's rules for a sample, applied literally: after each arrival, all kept samples are
//! sorted, cut at gaps and at the midnights of filled days, and ids are looked for in each part.
//! Slow, and easy to compare with the page.

use std::collections::BTreeMap;

use super::Fix;

const DAY: i64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_gap: i64,
    pub max_samples: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    Duplicate { conflicting: bool },
    TripFull,
    Inside,
    Merge,
    Split,
    End,
    Beginning,
    New,
}

#[derive(Clone, Debug)]
pub struct Trip {
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

/// All trips of one device, by time.
#[derive(Clone, Debug)]
pub struct Device {
    limits: Limits,
    pub trips: Vec<Trip>,
    /// `max_samples` has refused something.
    pub met_a_limit: bool,
    /// A trip was cut at a midnight.
    pub met_a_midnight: bool,
}

impl Device {
    pub fn new(limits: Limits) -> Self {
        Self { limits, trips: Vec::new(), met_a_limit: false, met_a_midnight: false }
    }

    /// Applies the sample of the record at `version`, and returns its effect.
    pub fn arrive(&mut self, version: i64, fix: Fix) -> Did {
        let t = fix.time;
        let all = self.trips.iter().flat_map(|trip| &trip.kept);
        let mut kept: Vec<Fix> = all.copied().chain([fix]).collect();
        if let Some(before) = kept.iter().rev().skip(1).find(|kept| kept.time == t) {
            return Did::Duplicate { conflicting: before.place != fix.place };
        }
        kept.sort_unstable_by_key(|fix| fix.time);
        let parts = self.parts(&kept);
        let is_same = |part: &[Fix], trip: &Trip| *part == *trip.kept;
        let former = |part: &[Fix]| self.trips.iter().find(|trip| is_same(part, trip));
        let added: Vec<Vec<Fix>> =
            parts.iter().filter(|part| former(part).is_none()).cloned().collect();
        if added.iter().any(|part| part.len() > self.limits.max_samples) {
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
        trips.extend(added.into_iter().map(|kept| named(kept, version, &ids, &arrived)));
        trips.sort_by_key(Trip::start);
        self.trips = trips;
        did
    }

    /// The parts of sorted samples that are a trip each.
    fn parts(&mut self, kept: &[Fix]) -> Vec<Vec<Fix>> {
        let gap = self.limits.max_gap;
        let day = |fix: &Fix| fix.time.div_euclid(DAY);
        let is_near = |a: &Fix, b: &Fix| b.time - a.time <= gap;
        let fills = |piece: &[Fix]| {
            let (first, last) = (piece[0].time, piece[piece.len() - 1].time);
            first.rem_euclid(DAY) < gap && last.rem_euclid(DAY) >= DAY - gap
        };
        let pieces: Vec<&[Fix]> = kept.chunk_by(|a, b| is_near(a, b) && day(a) == day(b)).collect();
        let mut parts: Vec<Vec<Fix>> = Vec::new();
        let mut before: Option<&[Fix]> = None;
        for piece in pieces {
            let linked = before.filter(|before| is_near(&before[before.len() - 1], &piece[0]));
            let is_cut = linked.is_some_and(|before| fills(before) || fills(piece));
            self.met_a_midnight |= is_cut;
            match parts.last_mut() {
                Some(part) if linked.is_some() && !is_cut => part.extend(piece),
                _ => parts.push(piece.to_vec()),
            }
            before = Some(piece);
        }
        parts
    }
}

/// What happened to the trips that were taken away.
fn effect(taken: &[&Trip], added: &[Vec<Fix>], t: i64) -> Did {
    let alone = |part: &&Vec<Fix>| part.len() == 1 && part[0].time == t;
    let former = added.iter().filter(|part| !alone(part)).count();
    let holder = added.iter().find(|part| part.iter().any(|fix| fix.time == t));
    let holder = holder.expect("the sample is kept");
    match former.cmp(&taken.len()) {
        std::cmp::Ordering::Greater => Did::Split,
        std::cmp::Ordering::Less => Did::Merge,
        std::cmp::Ordering::Equal if alone(&holder) => Did::New,
        std::cmp::Ordering::Equal if holder[0].time == t => Did::Beginning,
        std::cmp::Ordering::Equal if holder[holder.len() - 1].time == t => Did::End,
        std::cmp::Ordering::Equal => Did::Inside,
    }
}

/// A trip with the ids at its samples: the earliest is not retired.
fn named(
    kept: Vec<Fix>,
    version: i64,
    ids: &BTreeMap<i64, Vec<i64>>,
    arrived: &BTreeMap<i64, i64>,
) -> Trip {
    let at = |time: i64| kept.iter().any(|fix| fix.time == time);
    let own = ids.iter().filter(|(time, _)| at(**time));
    let mut ids: BTreeMap<i64, Vec<i64>> = own.map(|(&time, it)| (time, it.clone())).collect();
    if ids.is_empty() {
        ids.insert(kept[0].time, vec![version]);
    }
    let live = *ids.keys().next().expect("there is one");
    for (&time, history) in &mut ids {
        if is_live(history) != (time == live) {
            history.push(version);
        }
    }
    let arrived = kept.iter().map(|fix| (fix.time, arrived[&fix.time])).collect();
    Trip { version, ids, kept, arrived }
}
