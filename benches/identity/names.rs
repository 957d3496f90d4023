//! Tracks names that are derived from the state of a trip: which arrivals change a published name,
//! and which published names still find their trip at the end.
//!
//! Every arrival publishes the current names of the trips.

use std::collections::{BTreeMap, HashMap, HashSet};

use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::segment::Arrival;
use tstar::internals::timeline::day_of;

use crate::log::slot_of;
use crate::pass::{Change, History, NONE, Watcher};

/// What a trip is named by, in addition to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Start of the trip.
    Start,
    /// Start and end of the trip.
    StartEnd,
    /// Number of the trip among those of the device that start on the same day.
    Ordinal,
    /// The device time of its first-arrived sample.
    TStar,
}

/// Arrivals that changed published names, by arrival kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Extended the end.
    pub end: u64,
    /// Extended the start.
    pub beginning: u64,
    /// Merged two trips.
    pub merge: u64,
    /// Started a trip, or lay inside one.
    pub other: u64,
}

impl Changes {
    fn count(&mut self, arrival: Arrival) {
        *match arrival {
            Arrival::End => &mut self.end,
            Arrival::Beginning => &mut self.beginning,
            Arrival::Merge => &mut self.merge,
            // The log has no stops: nothing splits a trip or turns it into a stop.
            Arrival::New | Arrival::Inside | Arrival::Split | Arrival::Turn => &mut self.other,
        } += 1;
    }
}

/// Whether published names still find their trips.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// Names published, counted once per trip that had it.
    pub published: u64,
    /// Of these, names that find no trip at the end.
    pub lost: u64,
    /// Of these, names that find another trip.
    pub strayed: u64,
}

/// The history of one kind of name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Course {
    /// Arrivals that changed a published name.
    pub changes: Changes,
    /// Changes of the name of an existing row: a delete and an insert each.
    pub moves: u64,
    /// Lookups at the end.
    pub fate: Fate,
}

/// Day and number of a trip.
type Ordinal = (i64, u32);

/// Tracks the names of all kinds.
#[derive(Default)]
pub struct Names {
    /// Indexed by [`Name`].
    pub courses: [Course; 4],
    /// Arrivals that are neither new nor duplicates.
    pub arrivals: u64,
    /// All spans so far of each trip that may still grow.
    spans: HashMap<u32, Vec<(DeviceTime, DeviceTime)>>,
    /// Trips that may still grow, by device.
    open: Vec<Vec<u32>>,
    /// For each device, the trips of each start day, in order.
    days: Vec<BTreeMap<i64, Vec<u32>>>,
    /// The ordinal of each trip.
    ordinals: Vec<Ordinal>,
    /// Each published ordinal, with its device and trip.
    numbered: HashSet<(u32, Ordinal, u32)>,
}

impl Names {
    /// For `devices` devices.
    pub fn new(devices: u32) -> Self {
        let devices = devices as usize;
        Self {
            open: vec![Vec::new(); devices],
            days: vec![BTreeMap::new(); devices],
            ..Self::default()
        }
    }

    fn course(&mut self, name: Name) -> &mut Course {
        &mut self.courses[name as usize]
    }

    /// Looks up all published names at the end of the log.
    pub fn resolve(&mut self, history: &History) {
        for trip in self.open.iter_mut().flat_map(std::mem::take).collect::<Vec<_>>() {
            self.close(history, trip);
        }
        let mut found = HashMap::new();
        for (at, trip) in history.remaining() {
            found.insert((trip.device, self.ordinals[at as usize]), at);
        }
        let mut fate = Fate::default();
        for &(device, ordinal, trip) in &self.numbered {
            fate.count(found.get(&(device, ordinal)).copied(), history.root(trip));
        }
        self.course(Name::Ordinal).fate = fate;
        self.course(Name::TStar).fate = covering_fate(history);
    }

    /// Looks up the published starts and ends of a trip. Each is the time of a kept sample of this
    /// trip, so it never finds another trip.
    fn close(&mut self, history: &History, trip: u32) {
        let Some(mut spans) = self.spans.remove(&trip) else { return };
        let seen = history.trips[trip as usize];
        let mut fate = [Fate::default(); 2];
        spans.sort_unstable();
        spans.dedup();
        for span in &spans {
            let found = (*span == (seen.start_ms, seen.end_ms)).then_some(trip);
            fate[1].count(found, trip);
        }
        spans.dedup_by_key(|span| span.0);
        for (start_ms, _) in spans {
            fate[0].count((start_ms == seen.start_ms).then_some(trip), trip);
        }
        for (name, fate) in [Name::Start, Name::StartEnd].into_iter().zip(fate) {
            let sum = &mut self.course(name).fate;
            sum.published += fate.published;
            sum.lost += fate.lost;
            sum.strayed += fate.strayed;
        }
    }

    /// Renumbers the trips of a day. Returns whether a published ordinal changed.
    fn number(&mut self, device: u32, day: i64) -> bool {
        let trips = self.days[slot_of(device)].get(&day).map_or(&[][..], |trips| trips);
        let mut moves = 0;
        for (ordinal, &trip) in (1..).zip(trips) {
            let now = (day, ordinal);
            if self.ordinals.len() <= trip as usize {
                self.ordinals.resize(trip as usize + 1, (i64::MIN, 0));
            }
            let before = std::mem::replace(&mut self.ordinals[trip as usize], now);
            if before != now {
                moves += u64::from(before.1 > 0);
                self.numbered.insert((device, now, trip));
            }
        }
        self.course(Name::Ordinal).moves += moves;
        moves > 0
    }

    /// Inserts a trip among those of its start day.
    fn enter(&mut self, history: &History, device: u32, trip: u32) {
        let start_ms = history.trips[trip as usize].start_ms;
        let trips = self.days[slot_of(device)].entry(day_of(start_ms).get()).or_default();
        let at = trips.partition_point(|&other| history.trips[other as usize].start_ms < start_ms);
        trips.insert(at, trip);
    }

    fn leave(&mut self, device: u32, trip: u32, day: i64) {
        if let Some(trips) = self.days[slot_of(device)].get_mut(&day) {
            trips.retain(|&other| other != trip);
        }
    }

    /// Updates the ordinals after an arrival. Returns whether a published one changed.
    fn renumber(&mut self, history: &History, change: &Change<'_>) -> bool {
        let device = change.arrived.device;
        let seen = &history.trips[change.trip as usize];
        let (before, day) = (day_of(change.before.0), day_of(seen.start_ms));
        let mut is_changed = false;
        if change.arrival == Arrival::New {
            self.enter(history, device, change.trip);
            is_changed |= self.number(device, day.get());
        } else if before != day {
            self.leave(device, change.trip, before.get());
            self.enter(history, device, change.trip);
            is_changed |= self.number(device, before.get());
            is_changed |= self.number(device, day.get());
        }
        if change.retired != NONE {
            let retired_day = day_of(history.trips[change.retired as usize].start_ms);
            self.leave(device, change.retired, retired_day.get());
            self.number(device, retired_day.get());
            is_changed = true;
        }
        is_changed
    }
}

impl Watcher for Names {
    fn on_change(&mut self, history: &History, change: &Change<'_>) -> anyhow::Result<()> {
        let seen = &history.trips[change.trip as usize];
        let now = (seen.start_ms, seen.end_ms);
        let is_new = change.arrival == Arrival::New;
        let is_merged = change.retired != NONE;
        self.arrivals += u64::from(!is_new);
        if is_new {
            self.open[slot_of(change.arrived.device)].push(change.trip);
        }
        if is_new || now != change.before {
            self.spans.entry(change.trip).or_default().push(now);
        }
        if is_merged {
            let retired = self.spans.remove(&change.retired).unwrap_or_default();
            self.spans.entry(change.trip).or_default().extend(retired);
            self.open[slot_of(change.arrived.device)].retain(|&trip| trip != change.retired);
        }
        let moved = [
            (Name::Start, now.0 != change.before.0),
            (Name::StartEnd, now != change.before),
            (Name::TStar, false),
        ];
        for (name, is_moved) in moved {
            let course = self.course(name);
            course.moves += u64::from(is_moved);
            if is_moved || is_merged {
                course.changes.count(change.arrival);
            }
        }
        if self.renumber(history, change) {
            self.course(Name::Ordinal).changes.count(change.arrival);
        }
        Ok(())
    }

    fn on_settled(&mut self, history: &History, device: u32, before_ms: DeviceTime) {
        let open = &mut self.open[slot_of(device)];
        let is_done = |trip: &u32| history.trips[*trip as usize].end_ms < before_ms;
        let done: Vec<_> = open.iter().copied().filter(is_done).collect();
        open.retain(|trip| !is_done(trip));
        for trip in done {
            self.close(history, trip);
        }
    }
}

impl Fate {
    /// Counts a published name that finds trip `found` and should find trip `wanted`.
    pub fn count(&mut self, found: Option<u32>, wanted: u32) {
        self.published += 1;
        self.lost += u64::from(found.is_none());
        self.strayed += u64::from(found.is_some_and(|found| found != wanted));
    }
}

/// The trips of each device by start, for lookups by time.
pub struct Covering(HashMap<u32, BTreeMap<DeviceTime, (DeviceTime, u32)>>);

impl Covering {
    /// Indexes the remaining trips.
    pub fn new(history: &History) -> Self {
        let mut devices: HashMap<u32, BTreeMap<DeviceTime, (DeviceTime, u32)>> = HashMap::new();
        for (at, trip) in history.remaining() {
            devices.entry(trip.device).or_default().insert(trip.start_ms, (trip.end_ms, at));
        }
        Self(devices)
    }

    /// The trip of a device that covers a time.
    pub fn find(&self, device: u32, time_ms: DeviceTime) -> Option<u32> {
        let (_, &(end_ms, trip)) = self.0.get(&device)?.range(..=time_ms).next_back()?;
        (time_ms <= end_ms).then_some(trip)
    }
}

/// Looks up every published `t_star` by the trip of the device that covers it.
fn covering_fate(history: &History) -> Fate {
    let (covering, mut fate) = (Covering::new(history), Fate::default());
    for (at, trip) in (0..).zip(&history.trips) {
        fate.count(covering.find(trip.device, trip.t_star_ms), history.root(at));
    }
    fate
}
