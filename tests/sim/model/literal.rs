//! The contract's rules for a sample, applied literally to plain lists: slow, and easy to compare
//! with the page.

use std::collections::BTreeMap;

use super::Fix;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub max_gap: i64,
    pub max_duration: i64,
    pub max_samples: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    Duplicate { conflicting: bool },
    TripFull,
    Inside,
    Merge,
    End,
    Beginning,
    New,
}

#[derive(Clone, Debug)]
pub struct Trip {
    pub t_star: i64,
    pub minted: i64,
    pub version: i64,
    /// Retired `t_star`, and the versions at which it was minted and retired; in order of
    /// retirement.
    pub absorbed: Vec<(i64, [i64; 2])>,
    /// In arrival order within each trip that was merged.
    pub kept: Vec<Fix>,
    /// The version at which each of them arrived, by its time.
    pub arrived: BTreeMap<i64, i64>,
}

impl Trip {
    pub fn start(&self) -> i64 {
        self.kept.iter().map(|fix| fix.time).min().expect("a trip keeps a sample")
    }

    pub fn end(&self) -> i64 {
        self.kept.iter().map(|fix| fix.time).max().expect("a trip keeps a sample")
    }

    /// The driver that the earliest kept sample with a driver names, and that sample's time.
    pub fn driver(&self) -> Option<(&'static str, i64)> {
        let named = self.kept.iter().filter_map(|fix| Some((fix.driver?, fix.time)));
        named.min_by_key(|&(_, time)| time)
    }

    fn add(&mut self, version: i64, fix: Fix) {
        self.kept.push(fix);
        self.arrived.insert(fix.time, version);
        self.version = version;
    }
}

/// All trips of one device, unordered.
#[derive(Clone, Debug)]
pub struct Device {
    limits: Limits,
    pub trips: Vec<Trip>,
    /// `max_duration` or `max_samples` has refused something.
    pub met_a_limit: bool,
}

impl Device {
    pub fn new(limits: Limits) -> Self {
        Self { limits, trips: Vec::new(), met_a_limit: false }
    }

    /// Applies the sample of the record at `version`, and returns its effect.
    pub fn arrive(&mut self, version: i64, fix: Fix) -> Did {
        let t = fix.time;
        if let Some(kept) = self.kept_at(t) {
            return Did::Duplicate { conflicting: kept.place != fix.place };
        }
        if let Some(nth) = self.trips.iter().position(|trip| trip.start() < t && t < trip.end()) {
            if self.trips[nth].kept.len() >= self.limits.max_samples {
                self.met_a_limit = true;
                return Did::TripFull;
            }
            self.trips[nth].add(version, fix);
            return Did::Inside;
        }
        self.extend_or_start(version, fix)
    }

    fn kept_at(&self, t: i64) -> Option<Fix> {
        self.trips.iter().flat_map(|trip| &trip.kept).find(|kept| kept.time == t).copied()
    }

    /// Rule 3.
    fn extend_or_start(&mut self, version: i64, fix: Fix) -> Did {
        let (t, gap) = (fix.time, self.limits.max_gap);
        let trips = 0..self.trips.len();
        let left = trips.clone().filter(|&n| self.trips[n].end() < t);
        let left = left.max_by_key(|&n| self.trips[n].end());
        let left = left.filter(|&n| t - self.trips[n].end() <= gap);
        let right = trips.filter(|&n| self.trips[n].start() > t);
        let right = right.min_by_key(|&n| self.trips[n].start());
        let right = right.filter(|&n| self.trips[n].start() - t <= gap);
        if let (Some(l), Some(r)) = (left, right) {
            let (start, end) = (self.trips[l].start(), self.trips[r].end());
            if self.allows(start, end, self.trips[l].kept.len() + 1 + self.trips[r].kept.len()) {
                self.merge(l, r, version, fix);
                return Did::Merge;
            }
        }
        if let Some(l) = left
            && self.allows(self.trips[l].start(), t, self.trips[l].kept.len() + 1)
        {
            self.trips[l].add(version, fix);
            return Did::End;
        }
        if let Some(r) = right
            && self.allows(t, self.trips[r].end(), self.trips[r].kept.len() + 1)
        {
            self.trips[r].add(version, fix);
            return Did::Beginning;
        }
        let (absorbed, kept) = (Vec::new(), vec![fix]);
        let arrived = BTreeMap::from([(t, version)]);
        self.trips.push(Trip { t_star: t, minted: version, version, absorbed, kept, arrived });
        Did::New
    }

    fn allows(&mut self, start: i64, end: i64, samples: usize) -> bool {
        let fits = end - start <= self.limits.max_duration && samples <= self.limits.max_samples;
        self.met_a_limit |= !fits;
        fits
    }

    fn merge(&mut self, l: usize, r: usize, version: i64, fix: Fix) {
        let right = self.trips[r].clone();
        let left = &mut self.trips[l];
        left.add(version, fix);
        left.kept.extend(right.kept);
        left.arrived.extend(right.arrived);
        left.absorbed.extend(right.absorbed);
        left.absorbed.push((right.t_star, [right.minted, version]));
        self.trips.remove(r);
    }
}
