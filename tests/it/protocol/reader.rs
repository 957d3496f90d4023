//! A reader like `tstar serve`: lookups of the real store, each over many moments while processes
//! write, its requests under the same faults as theirs.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tstar::internals::identity::{AnyId, TripId, UuidId};
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::store::scylla::ScyllaStore;
use tstar::internals::store::{
    self, DeviceScope, LookupResult, Order, StoreError, TripRow, TripStore,
};

use super::checks::{committed, named, trips};
use super::log::name;
use super::truth::{Truth, device_of};
use super::world::{Device, Dice, World, at_once};
use crate::nodes::{self, Connection, SharedNodes};

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
    /// The devices of a day, in pages of this size.
    Devices { day: Day, page: usize },
}

enum Answer {
    Trip(LookupResult),
    Trips(Vec<TripRow>),
    Devices(Vec<String>),
}

/// A lookup under way.
struct Lookup {
    question: Question,
    /// The committed trips when it began.
    committed: Vec<Arc<TripRow>>,
    /// What one pair of replicas held then of the device.
    before: Vec<TripRow>,
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
    pub fn step(&self, world: &mut World, truth: &Truth) {
        let mut lookup = self.lookup.borrow_mut();
        if lookup.is_none() {
            *lookup = Lookup::random(&self.store, world, truth);
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

    /// Ends the lookup that is under way.
    pub fn finish(&self, world: &mut World, truth: &Truth) {
        for _ in 0..MAX_POLLS {
            if self.lookup.borrow().is_none() {
                return;
            }
            self.step(world, truth);
        }
        world.bad.insert("a lookup does not end");
    }
}

impl Question {
    fn random(world: &mut World, committed: &[Arc<TripRow>]) -> Option<Self> {
        let World { dice, feed, .. } = world;
        let asks = dice.below(100);
        let row = Arc::clone(&committed[dice.below(committed.len())]);
        Some(match asks {
            0..45 => {
                let time_ms = DeviceTime(dice.between(row.start_ms.ms(), row.end_ms.ms()));
                Self::Time(row, time_ms)
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
            Self::Id { device, .. } | Self::Trips { device, .. } => Some(*device),
            Self::Devices { .. } => None,
        }
    }

    async fn answer(self, store: Rc<Store>) -> Result<Answer, StoreError> {
        match self {
            Self::Time(row, time_ms) => {
                Ok(Answer::Trip(store::find_at(&*store, &row.device_id, time_ms).await?))
            }
            Self::Id { device, t_star, is_uuid, .. } => {
                let id = TripId::new(name(device), t_star).expect("an id");
                let id = if is_uuid {
                    let uuid = UuidId::from_uuid(id.uuid().expect("it has one"));
                    AnyId::Uuid(uuid.expect("an id"))
                } else {
                    AnyId::Trip(id)
                };
                Ok(Answer::Trip(store::find(&*store, &id).await?))
            }
            Self::Trips { device, span: (from, upto), order, limit } => {
                let device = name(device);
                Ok(Answer::Trips(store.range(&device, from, upto, order, limit).await?))
            }
            Self::Devices { day, page } => {
                let mut found: Vec<String> = Vec::new();
                loop {
                    let (scope, after) = (DeviceScope::OfDay(day), found.last().cloned());
                    let mut next = store.devices(scope, after.as_deref(), page).await?;
                    if next.is_empty() {
                        return Ok(Answer::Devices(found));
                    }
                    found.append(&mut next);
                }
            }
        }
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
    fn random(store: &Rc<Store>, world: &mut World, truth: &Truth) -> Option<Self> {
        let committed = committed(world, truth);
        if committed.is_empty() {
            return None;
        }
        let question = Question::random(world, &committed)?;
        let before = question.device().map(|device| world.list_of_pair(device));
        let answer = Box::pin(question.clone().answer(Rc::clone(store)));
        Some(Self { question, committed, before: before.unwrap_or_default(), answer })
    }

    /// I7: what was committed when it began is in the answer, as it was then or later. I2: an id
    /// that was published resolves, or a forget has erased it.
    fn check(&self, answer: &Answer, world: &mut World, truth: &Truth) {
        let changes = self.question.device().map(|device| world.list_of_pair(device));
        let changes = changes.is_some_and(|after| after != self.before);
        let bad = match (answer, &self.question) {
            (Answer::Trip(found), Question::Time(row, time_ms)) => {
                world.see(if changes { "lookups during a change" } else { "lookups" });
                of_time(found, (row, *time_ms), world, truth)
            }
            (Answer::Trip(found), Question::Id { .. }) => {
                world.see("lookups of ids");
                self.of_id(found, world, truth)
            }
            (Answer::Trips(found), Question::Trips { .. }) => {
                world.see(if changes { "lists during a change" } else { "lists" });
                self.of_trips(found, truth)
            }
            (Answer::Devices(found), Question::Devices { day, .. }) => {
                world.see("lists of devices");
                let found: BTreeSet<_> = found.iter().collect();
                let mut rows = self.committed.iter().filter(|row| stays(row, truth));
                let lacks = rows
                    .any(|row| row.days().any(|of| of == *day) && !found.contains(&row.device_id));
                lacks.then_some("I7 a reader misses a device")
            }
            _ => unreachable!("an answer to the question"),
        };
        world.bad.extend(bad);
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
        let has_id = |row: &TripRow| row.t_star_ms == t_star || row.absorbed.contains_key(&t_star);
        let mut end = truth.end().into_iter();
        let stays = end.any(|row| device_of(&row) == device && has_id(&row));
        match found {
            LookupResult::Trip(row) => {
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

    fn of_trips(&self, found: &[TripRow], truth: &Truth) -> Option<&'static str> {
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
        let is_asked = |row: &&Arc<TripRow>| {
            let is_listed = last.is_none_or(|last| {
                if is_asc { row.end_ms <= last.end_ms } else { row.start_ms >= last.start_ms }
            });
            device_of(row) == device && is_within(row) && is_listed && stays(row, truth)
        };
        let is_missing = |row: &Arc<TripRow>| {
            !found.iter().any(|it| it.start_ms <= row.start_ms && row.end_ms <= it.end_ms)
        };
        let mut asked = self.committed.iter().filter(is_asked);
        asked.any(is_missing).then_some("I7 a reader misses a trip of a list")
    }
}

fn of_time(
    found: &LookupResult,
    (row, time_ms): (&TripRow, DeviceTime),
    world: &mut World,
    truth: &Truth,
) -> Option<&'static str> {
    match found {
        LookupResult::Trip(found) => {
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
        _ if stays(row, truth) => Some("I7 a reader does not find a time"),
        LookupResult::Gone { .. } => None,
        LookupResult::Unknown => Some("an erased time is unknown to a reader"),
    }
}

/// Whether a trip was so after some record of the log, in all columns.
fn is_of_log(row: &TripRow, truth: &Truth) -> bool {
    truth.ever.get(&named(row)).is_some_and(|known| **known == *row)
}

/// Whether no record of the log erases a trip.
fn stays(row: &TripRow, truth: &Truth) -> bool {
    row.end_ms >= truth.floor(device_of(row))
}
