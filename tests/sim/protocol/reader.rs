//! A reader like the HTTP server of `tstar serve`, or of `tstar run`: lookups of the real store, or
//! behind the memory of a process, each over many moments while processes write, its requests under
//! the same faults as theirs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tstar::internals::identity::{AnyId, TripId, UuidId};
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::store::fresh::{FreshLookup, FreshStore, FreshTrips};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{
    DeviceScope, Kinds, LookupResult, Order, StoreError, TripRow, TripStore,
};
use tstar::internals::timeline::day_of;

use super::checks::{committed, named, trips};
use super::log::name;
use super::memory::{Memory, state_before};
use super::shown;
use super::truth::{Truth, device_of};
use super::world::{Device, Dice, World, at_once};
use crate::nodes::{self, Connection, Replica, SharedNodes};

/// The owner of its requests, which no process is.
const READER: usize = usize::MAX - 1;

/// After this number of polls, a lookup does not end.
const MAX_POLLS: usize = 100_000;

type Store = ScyllaStore<Connection>;

/// What is asked, and what the answer must not lack.
#[derive(Clone, Debug)]
enum Question {
    /// A time that a committed trip covers.
    Time(Arc<TripRow>, DeviceTime),
    /// An id that an event showed with this version.
    Id { device: Device, t_star: DeviceTime, version: i64, is_uuid: bool },
    /// The trips of a device within a span.
    Trips { device: Device, span: (DeviceTime, DeviceTime), order: Order, limit: usize },
    /// A time that some trip covers, perhaps one that is not committed.
    Any(Device, DeviceTime),
    /// The devices of a day, in pages of this size.
    Devices { day: Day, page: usize },
}

enum Answer {
    Trip(FreshLookup),
    Trips(FreshTrips),
    Devices(Vec<String>),
}

/// A lookup under way.
struct Lookup {
    question: Question,
    /// The committed trips when it began.
    committed: Vec<Arc<TripRow>>,
    /// What one pair of replicas held then of the device.
    before: Option<[Replica; 2]>,
    /// The floor of the device that every reader saw then.
    floor: DeviceTime,
    /// The memory that it asks, and the owner of each partition when it began.
    memory: Option<(Memory, Vec<Option<usize>>)>,
    answer: Pin<Box<dyn Future<Output = Result<Answer, StoreError>>>>,
}

pub struct Reader {
    store: Rc<Store>,
    lookup: RefCell<Option<Lookup>>,
}

impl Reader {
    pub fn new(nodes: &SharedNodes) -> Self {
        let store = at_once(nodes::store(Connection::live(nodes, READER)));
        Self { store: Rc::new(store), lookup: RefCell::default() }
    }

    /// Continues its lookup, or begins one.
    pub fn step(&self, world: &mut World, truth: &Truth, memory: Option<Memory>) {
        let mut lookup = self.lookup.borrow_mut();
        if lookup.is_none() {
            *lookup = Lookup::random(&self.store, world, truth, memory);
        }
        let Some(running) = &mut *lookup else { return };
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = running.answer.as_mut().poll(&mut context) else { return };
        let ended = lookup.take().expect("it ran");
        world.log(|| format!("the reader has asked for {:?}", ended.question));
        match answer {
            Ok(answer) => ended.check(&answer, world, truth),
            Err(error) => {
                world.log(|| format!("a lookup failed: {error:?}"));
                world.bad.insert("a lookup failed");
            }
        }
    }

    /// Forgets the lookup that is under way.
    pub fn abandon(&self) {
        self.lookup.take();
    }

    /// Ends the lookup that is under way.
    pub fn finish(&self, world: &mut World, truth: &Truth) {
        for _ in 0..MAX_POLLS {
            if self.lookup.borrow().is_none() {
                return;
            }
            self.step(world, truth, None);
        }
        world.bad.insert("a lookup does not end");
    }
}

impl Question {
    fn random(world: &mut World, truth: &Truth, committed: &[Arc<TripRow>]) -> Option<Self> {
        let World { dice, feed, .. } = world;
        let asks = dice.below(125);
        if asks >= 100 {
            let row = truth.ever.values().nth(dice.below(truth.ever.len().max(1)))?;
            let time_ms = DeviceTime(dice.between(row.start_ms.ms(), row.end_ms.ms()));
            return Some(Self::Any(device_of(row), time_ms));
        }
        let row = Arc::clone(committed.get(dice.below(committed.len().max(1)))?);
        Some(match asks {
            0..45 => {
                // A midnight may cut it later, so that only its samples are certain to be covered.
                let times = times(&row);
                Self::Time(row, dice.one_of(&times))
            }
            45..75 => {
                let shown: Vec<_> = trips(feed).collect();
                let event = shown.get(dice.below(shown.len().max(1)))?;
                let ids: Vec<_> = event.absorbed.iter().copied().chain([event.t_star]).collect();
                Self::Id {
                    device: event.device,
                    t_star: dice.one_of(&ids),
                    version: event.version,
                    is_uuid: dice.percent(40),
                }
            }
            75..90 => Self::Trips {
                device: device_of(&row),
                span: span(dice, &row),
                order: dice.one_of(&[Order::Asc, Order::Desc]),
                limit: dice.one_of(&[1, 2, usize::MAX, usize::MAX]),
            },
            _ => {
                let days: Vec<_> = row.days().collect();
                Self::Devices { day: dice.one_of(&days), page: 1 + dice.below(2) }
            }
        })
    }

    fn device(&self) -> Option<Device> {
        match self {
            Self::Time(row, _) => Some(device_of(row)),
            Self::Any(device, _) => Some(*device),
            Self::Id { device, .. } | Self::Trips { device, .. } => Some(*device),
            Self::Devices { .. } => None,
        }
    }

    async fn answer(self, store: Rc<Store>, memory: Option<Memory>) -> Result<Answer, StoreError> {
        let device = self.device();
        let fresh = FreshStore::new(&*store, memory.clone().map(Arc::new));
        let answer = match self {
            Self::Time(row, time_ms) => Answer::Trip(fresh.find_at(&row.device_id, time_ms).await?),
            Self::Any(device, time_ms) => {
                Answer::Trip(fresh.find_at(&name(device), time_ms).await?)
            }
            Self::Id { device, t_star, is_uuid, .. } => {
                let id = TripId::new(name(device), t_star).expect("an id");
                let id = if is_uuid {
                    let uuid = UuidId::from_uuid(id.uuid().expect("it has one"));
                    AnyId::Uuid(uuid.expect("an id"))
                } else {
                    AnyId::Trip(id)
                };
                Answer::Trip(fresh.find(&id).await?)
            }
            Self::Trips { device, span, order, limit } => {
                Answer::Trips(fresh.range(&name(device), Kinds::All, span, order, limit).await?)
            }
            Self::Devices { day, page } => {
                let mut found: Vec<String> = Vec::new();
                loop {
                    let (scope, after) = (DeviceScope::OfDay(day), found.last().cloned());
                    let mut next = store.devices(scope, after.as_deref(), page).await?;
                    if next.is_empty() {
                        break Answer::Devices(found);
                    }
                    found.append(&mut next);
                }
            }
        };
        if let Some((memory, device)) = memory.zip(device) {
            memory.ask_after(&name(device)).await;
        }
        Ok(answer)
    }
}

/// All times, or some around a trip.
fn span(dice: &mut Dice, row: &TripRow) -> (DeviceTime, DeviceTime) {
    if dice.percent(50) {
        return (DeviceTime::MIN, DeviceTime::MAX);
    }
    let mut time = || DeviceTime(dice.between(row.start_ms.ms(), row.end_ms.ms()));
    let [one, other] = [time(), time()];
    (one.min(other), one.max(other))
}

impl Lookup {
    fn random(
        store: &Rc<Store>,
        world: &mut World,
        truth: &Truth,
        memory: Option<Memory>,
    ) -> Option<Self> {
        let committed = committed(world, truth);
        let question = Question::random(world, truth, &committed)?;
        let before = question.device().map(|device| world.stored(device));
        let floor = question.device().map(|device| world.known_floor(device));
        let answer = Box::pin(question.clone().answer(Rc::clone(store), memory.clone()));
        let memory = memory.map(|memory| (memory, owners(world)));
        let floor = floor.unwrap_or(DeviceTime::MIN);
        Some(Self { question, committed, before, floor, memory, answer })
    }

    /// I7: what was committed when it began is in the answer, as it was then or later; so is what
    /// the owner has read, by its own account. I2: an id that was published resolves, or a forget
    /// has erased it.
    fn check(mut self, answer: &Answer, world: &mut World, truth: &Truth) {
        let changes = self.question.device().map(|device| world.stored(device)) != self.before;
        let complete_before = match answer {
            Answer::Trip(found) => found.complete_before,
            Answer::Trips(found) => found.complete_before,
            Answer::Devices(_) => None,
        };
        if let Some((device, before)) = self.question.device().zip(complete_before) {
            world.see("answers that include what was read");
            self.committed.extend(state_before(world, truth, device, before));
        }
        self.note_memory(answer, world, truth);
        let bad = match (answer, &self.question) {
            (Answer::Trip(found), Question::Time(row, time_ms)) => {
                world.see(if changes { "lookups during a change" } else { "lookups" });
                of_time(&found.result, (row, *time_ms), world, truth)
                    .or_else(|| self.of_known(&found.result, *time_ms, truth))
            }
            (Answer::Trip(found), Question::Any(device, time_ms)) => {
                world.see("lookups of any time");
                let is_wrong = match &found.result {
                    LookupResult::Trip(row) => {
                        let covers = row.start_ms <= *time_ms && *time_ms <= row.end_ms;
                        !is_of_log(row, truth) || device_of(row) != *device || !covers
                    }
                    _ => false,
                };
                let wrong = is_wrong.then_some("I1 a reader finds a trip that never was");
                wrong.or_else(|| self.of_known(&found.result, *time_ms, truth))
            }
            (Answer::Trip(found), Question::Id { t_star, is_uuid, .. }) => {
                world.see("lookups of ids");
                let bad = self.of_id(&found.result, world, truth);
                // A UUID is found once the index of its day has the device.
                let known = || self.of_known(&found.result, *t_star, truth);
                bad.or_else(|| if *is_uuid { None } else { known() })
            }
            (Answer::Trips(found), Question::Trips { .. }) => {
                world.see(if changes { "lists during a change" } else { "lists" });
                let rows: Vec<_> = found.rows.iter().map(|found| found.row.clone()).collect();
                self.of_trips(&rows, world, truth)
            }
            (Answer::Devices(found), Question::Devices { day, .. }) => {
                world.see("lists of devices");
                let found: BTreeSet<_> = found.iter().collect();
                let is_there = |row: &Arc<TripRow>| {
                    let stays = |time_ms: &DeviceTime| truth.stays(device_of(row), *time_ms);
                    times(row).into_iter().filter(stays).any(|time_ms| day_of(time_ms) == *day)
                };
                let mut rows = self.committed.iter();
                let lacks = rows.any(|row| is_there(row) && !found.contains(&row.device_id));
                lacks.then_some("I7 a reader misses a device")
            }
            _ => unreachable!("an answer to the question"),
        };
        world.bad.extend(bad);
    }

    /// Whether a trip that is known to cover a time is missing, or found as it was before.
    fn of_known(
        &self,
        found: &LookupResult,
        time_ms: DeviceTime,
        truth: &Truth,
    ) -> Option<&'static str> {
        let device = self.question.device();
        let covers = |row: &&Arc<TripRow>| {
            Some(device_of(row)) == device
                && times(row).contains(&time_ms)
                && truth.stays(device_of(row), time_ms)
        };
        let is_missing = |row: &Arc<TripRow>| match found {
            LookupResult::Trip(found) | LookupResult::Stop(found) => found.version < row.version,
            _ => true,
        };
        let mut known = self.committed.iter().filter(covers);
        known.any(is_missing).then_some("I7 a reader misses what its owner has read")
    }

    /// Counts what the lookup saw of the memory that it asked.
    fn note_memory(&self, answer: &Answer, world: &mut World, truth: &Truth) {
        let Some((memory, owners_before)) = &self.memory else { return };
        let asked = memory.asked();
        let found: Vec<(&TripRow, bool)> = match answer {
            Answer::Trip(FreshLookup {
                result: LookupResult::Trip(row) | LookupResult::Stop(row),
                is_fresh,
                ..
            }) => vec![(row, *is_fresh)],
            Answer::Trips(found) => found.rows.iter().map(|it| (&it.row, it.is_fresh)).collect(),
            _ => Vec::new(),
        };
        let owners = owners(world);
        let is_former = asked.is_resident[0] && !owners.contains(&Some(memory.process));
        let is_erased = |row: &TripRow| row.end_ms < truth.floor(device_of(row));
        if found
            .iter()
            .any(|(row, is_fresh)| *is_fresh && row.end_ms < self.floor && !stays(row, truth))
        {
            world.bad.insert("a reader finds what was erased before");
        }
        let is_lost = |row: &&TripRow| !found.iter().any(|(found, _)| found.overlaps(row));
        let is_old = |row: &TripRow| {
            found.iter().any(|(found, _)| found.overlaps(row) && found.version > row.version)
        };
        for (is_so, what) in [
            (asked.answers > 0, "answers from memory"),
            (asked.questions > asked.answers, "questions to memory without an answer"),
            (asked.answers > 1, "lists that ask memory several times"),
            (found.iter().any(|(_, is_fresh)| *is_fresh), "fresh trips"),
            (asked.is_resident == [true, false], "evictions during a lookup"),
            (owners_before != &owners, "hand-overs during a lookup"),
            (is_former, "answers of a former owner"),
            (
                asked.is_resident[0] && found.iter().any(|(_, is_fresh)| !is_fresh),
                "trips of a device in memory that the store answers",
            ),
            (asked.rows.iter().any(is_old), "rows in memory that are older than the store"),
            (
                asked.rows.iter().filter(is_lost).any(is_erased),
                "rows in memory that a forget has erased",
            ),
        ] {
            world.see_many(what, u64::from(is_so));
        }
    }

    fn of_id(
        &self,
        found: &LookupResult,
        world: &mut World,
        truth: &Truth,
    ) -> Option<&'static str> {
        let Question::Id { device, t_star, version, is_uuid } = self.question else {
            unreachable!("it asked for an id")
        };
        let has_id = |row: &TripRow| row.t_star_ms == t_star || row.retired_at(t_star).is_some();
        let mut end = truth.end().into_iter();
        let stays = end.any(|row| device_of(&row) == device && has_id(&row));
        match found {
            LookupResult::Trip(row) | LookupResult::Stop(row) => {
                let is_right = is_of_log(row, truth)
                    && device_of(row) == device
                    && has_id(row)
                    && row.version.get() >= version;
                if is_uuid {
                    world.see("lookups of UUIDs");
                }
                if row.t_star_ms != t_star {
                    world.see("lookups of retired ids");
                }
                (!is_right).then_some("I2 a reader finds another trip by an id")
            }
            LookupResult::Gone { device_id, forget } => {
                world.see("lookups of erased ids");
                let is_right = !stays
                    && *device_id == name(device)
                    && t_star < forget.before_ms
                    && forget.before_ms <= truth.floor(device);
                (!is_right).then_some("I2 an id that stays is gone for a reader")
            }
            LookupResult::Unknown => {
                // A UUID does not contain the device, whose forgets would say so.
                let is_right = is_uuid && !stays;
                (!is_right).then_some("I2 an id does not resolve for a reader")
            }
        }
    }

    fn of_trips(&self, found: &[TripRow], world: &World, truth: &Truth) -> Option<&'static str> {
        let Question::Trips { device, span: (from, upto), order, limit } = self.question else {
            unreachable!("it asked for trips")
        };
        let is_within = |row: &TripRow| row.start_ms <= upto && row.end_ms >= from;
        let is_asc = order == Order::Asc;
        let follows = |rows: &[TripRow]| {
            let [one, next] = rows else { unreachable!("two rows") };
            if is_asc { one.end_ms < next.start_ms } else { next.end_ms < one.start_ms }
        };
        let is_right =
            |row: &TripRow| device_of(row) == device && is_within(row) && is_of_log(row, truth);
        if found.len() > limit || !found.windows(2).all(follows) || !found.iter().all(is_right) {
            return Some("a list is wrong");
        }
        // A list that is cut says nothing of what follows.
        let last = found.last().filter(|_| found.len() == limit);
        let is_listed = |time_ms: DeviceTime| {
            let is_before_cut = last.is_none_or(|last| {
                if is_asc { time_ms <= last.end_ms } else { time_ms >= last.start_ms }
            });
            is_before_cut && from <= time_ms && time_ms <= upto
        };
        let is_asked = |row: &&Arc<TripRow>| device_of(row) == device && !truth.may_be_cut(row);
        let is_found = |time_ms: DeviceTime| {
            found.iter().any(|it| it.start_ms <= time_ms && time_ms <= it.end_ms)
        };
        let is_missing = |row: &Arc<TripRow>| {
            let stays = |time_ms: &DeviceTime| truth.stays(device, *time_ms);
            let mut times = times(row).into_iter().filter(stays);
            times.any(|time_ms| is_listed(time_ms) && !is_found(time_ms))
        };
        let mut asked = self.committed.iter().filter(is_asked);
        let missing = asked.find(|row| is_missing(row))?;
        world.log(|| format!("{} lacks {}", shown::segments(found), shown::segments([&**missing])));
        Some("I7 a reader misses a trip of a list")
    }
}

/// The device times of a row's samples.
fn times(row: &TripRow) -> Vec<DeviceTime> {
    let path = row.to_path().expect("the truth has whole rows");
    path.iter().map(|sample| sample.time_ms).collect()
}

/// The owner of each partition.
fn owners(world: &World) -> Vec<Option<usize>> {
    world.lanes.iter().map(|lane| world.group.owner(lane.partition)).collect()
}

fn of_time(
    found: &LookupResult,
    (row, time_ms): (&TripRow, DeviceTime),
    world: &mut World,
    truth: &Truth,
) -> Option<&'static str> {
    match found {
        LookupResult::Trip(found) | LookupResult::Stop(found) => {
            let covers = found.start_ms <= time_ms && time_ms <= found.end_ms;
            let is_right = is_of_log(found, truth)
                && found.device_id == row.device_id
                && covers
                && found.version >= row.version;
            if found.version > row.version {
                world.see("lookups that find a later version");
            }
            (!is_right).then_some("I7 a reader finds another trip")
        }
        _ if truth.stays(device_of(row), time_ms) => Some("I7 a reader does not find a time"),
        LookupResult::Gone { .. } => None,
        LookupResult::Unknown => Some("an erased time is unknown to a reader"),
    }
}

/// Whether a trip was so after some record of the log, in all columns.
fn is_of_log(row: &TripRow, truth: &Truth) -> bool {
    truth.ever.get(&named(row)).is_some_and(|known| **known == *row)
}

/// Whether no record of the log erases all of a trip.
fn stays(row: &TripRow, truth: &Truth) -> bool {
    times(row).into_iter().any(|time_ms| truth.stays(device_of(row), time_ms))
}
