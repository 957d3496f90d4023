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
        let phases = Phases::new(self.limits, kept);
        let kinds: Vec<bool> = (0..phases.len()).map(|at| phases.is_stop(at)).collect();
        let mut parts: Vec<Part> = Vec::new();
        for (at, phase) in phases.all.iter().enumerate() {
            self.met_a_cut |= phase[0].class != Class::Moving;
            let continues = phases.before(at).is_some() && kinds[at - 1] == kinds[at];
            let is_cut = continues && phases.is_cut(at, kinds[at]);
            self.met_a_cut |= is_cut;
            match parts.last_mut() {
                Some((_, part)) if continues && !is_cut => part.extend(*phase),
                _ => parts.push((kinds[at], phase.to_vec())),
            }
        }
        parts
    }
}

/// Runs of linked samples of one class and day.
struct Phases<'a> {
    limits: Limits,
    all: Vec<&'a [Fix]>,
    /// Whether each is of movement that fills its day, as far as the samples of the day say.
    full: Vec<bool>,
}

impl<'a> Phases<'a> {
    fn new(limits: Limits, kept: &'a [Fix]) -> Self {
        let is_one = |a: &Fix, b: &Fix| {
            b.time - a.time <= limits.max_gap && day(a) == day(b) && a.class == b.class
        };
        let all: Vec<&[Fix]> = kept.chunk_by(is_one).collect();
        let full = vec![false; all.len()];
        let mut phases = Self { limits, all, full };
        let kinds: Vec<bool> =
            (0..phases.len()).map(|at| phases.stops(at, phases.is_standing_in_day(at))).collect();
        for start in 0..phases.len() {
            let continues = |at: usize| phases.in_day(phases.before(at), at).is_some();
            let same = |at: &usize| *at == start || continues(*at) && kinds[*at] == kinds[start];
            let end = (start..phases.len()).take_while(same).last().unwrap_or(start);
            let first = phases.all[start][0].time.rem_euclid(DAY);
            let last = last(phases.all[end]).time.rem_euclid(DAY);
            if !kinds[start] && first < limits.max_gap && last >= DAY - limits.max_gap {
                phases.full[start..=end].fill(true);
            }
        }
        phases
    }

    fn len(&self) -> usize {
        self.all.len()
    }

    /// The phase before, if it is linked.
    fn before(&self, at: usize) -> Option<&'a [Fix]> {
        let before = self.all[..at].last()?;
        (self.all[at][0].time - last(before).time <= self.limits.max_gap).then_some(before)
    }

    /// The phase after, if it is linked.
    fn after(&self, at: usize) -> Option<&'a [Fix]> {
        let after = self.all.get(at + 1)?;
        self.before(at + 1).map(|_| *after)
    }

    /// A neighbour, if it is of the same day.
    fn in_day(&self, other: Option<&'a [Fix]>, at: usize) -> Option<&'a [Fix]> {
        other.filter(|other| day(&other[0]) == day(&self.all[at][0]))
    }

    /// The time of the linked sample after, or of the last one.
    fn until(&self, at: usize, after: Option<&[Fix]>) -> i64 {
        after.map_or(last(self.all[at]), |after| &after[0]).time
    }

    fn is_long(&self, stood: i64) -> bool {
        self.limits.min_stop.is_some_and(|min| stood >= min)
    }

    fn moves(&self, at: usize) -> bool {
        let neighbours = [self.before(at), self.after(at)];
        let mut of_day = neighbours.into_iter().filter_map(|other| self.in_day(other, at));
        of_day.any(|other| other[0].class == Class::Moving)
    }

    fn is_standing_in_day(&self, at: usize) -> bool {
        let until = self.until(at, self.in_day(self.after(at), at));
        !self.moves(at) || self.is_long(until - self.all[at][0].time)
    }

    /// Whether a slow phase continues after a midnight.
    fn continues(&self, at: usize) -> bool {
        let is_slow = |phase: &[Fix]| phase[0].class == Class::Slow;
        is_slow(self.all[at]) && self.after(at).is_some_and(is_slow)
    }

    fn is_standing(&self, at: usize) -> bool {
        let end = at + usize::from(self.continues(at));
        let until = self.until(end, self.after(end));
        !self.moves(at) || self.is_long(until - self.all[at][0].time)
    }

    /// Whether a phase stands only together with that before a midnight.
    fn leans(&self, at: usize) -> bool {
        at > 0
            && self.continues(at - 1)
            && !self.is_standing(at)
            && !self.full[at]
            && self.is_long(self.until(at, self.after(at)) - self.all[at - 1][0].time)
    }

    fn stops(&self, at: usize, stands: bool) -> bool {
        match self.all[at][0].class {
            Class::Moving => false,
            Class::Separator => true,
            Class::Slow => stands,
        }
    }

    fn is_stop(&self, at: usize) -> bool {
        self.stops(at, self.is_standing(at) || self.leans(at))
    }

    /// Whether a midnight parts a phase from the one before, which is of its kind.
    fn is_cut(&self, at: usize, is_stop: bool) -> bool {
        self.in_day(self.before(at), at).is_none()
            && if is_stop { !self.leans(at) } else { self.full[at - 1] || self.full[at] }
    }
}

fn day(fix: &Fix) -> i64 {
    fix.time.div_euclid(DAY)
}

fn last(phase: &[Fix]) -> &Fix {
    &phase[phase.len() - 1]
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
