//! The trips and stops of a host's devices, and how much memory they may use.

use std::hint::black_box;

use serde::Serialize;
use tstar_core::fleet::{Effect, Fleet};
use tstar_core::identity::{AnyId, TripId};
use tstar_core::model::reason::{DeadReason, DropReason};
use tstar_core::{Arrival, DeviceTime, Rules, Segment, Timeline, Version};

use crate::batch::{Batch, Row};
use crate::error::CallError;
use crate::sums::Sums;
use crate::trip_json::{GroupJson, TripJson, history, write_list};

/// Memory of a sample that starts a segment of its own, of a device of its own, bytes.
const MOST_A_SAMPLE: usize = 1024;

/// Memory of a device besides its segments, with the longest id, bytes.
const DEVICE: usize = 768;

/// Versions from one record to the next.
const STEP: i64 = 2;

/// A time that is not a whole number of ms.
const BAD_TIME: DeadReason = DeadReason::BadTime;

/// At most this many refused samples of a batch are described.
const MAX_REFUSED: usize = 100;

/// A sample that cannot be used.
#[derive(Serialize)]
struct Refused {
    /// Its row in the batch, from 0.
    row: usize,
    reason: &'static str,
    message: String,
}

/// What a sample did, by number.
pub(crate) fn effects() -> Vec<&'static str> {
    let arrivals = Arrival::ALL.iter().map(|it| it.name());
    let dropped = DropReason::ALL.iter().map(|it| it.name());
    let refused = DeadReason::ALL.iter().map(|it| it.name());
    arrivals.chain([Effect::DUPLICATE]).chain(dropped).chain(refused).collect()
}

/// The number of an effect in [`effects`].
fn number_of(effect: &Effect) -> usize {
    let arrivals = Arrival::ALL.len();
    match effect {
        Effect::Applied(arrival) => *arrival as usize,
        Effect::Duplicate { .. } => arrivals,
        Effect::Dropped(reason) => arrivals + 1 + *reason as usize,
        Effect::Refused(refusal) => number_of_reason(refusal.reason()),
    }
}

fn number_of_reason(reason: DeadReason) -> usize {
    Arrival::ALL.len() + 1 + DropReason::ALL.len() + reason as usize
}

/// A fleet with a limit of memory.
pub(crate) struct Tracker {
    fleet: Fleet,
    /// Version of the next record: unusable ones have one, too, as in a log.
    next: Version,
    memory: Memory,
}

/// How much memory a fleet uses, and how much there is for it.
struct Memory {
    /// The limit, bytes.
    limit: usize,
    /// In use when it was last measured, bytes.
    used: usize,
    /// Samples since then.
    samples: usize,
    /// The fleet may grow to this before the module has to, bytes.
    ensured: usize,
}

impl Memory {
    /// What a fleet may use after some samples more, bytes.
    fn most(&self, rows: usize) -> usize {
        self.used.saturating_add((self.samples + rows).saturating_mul(MOST_A_SAMPLE))
    }

    /// Refuses a batch after which the limit could be passed, or for which the host has no memory,
    /// before any of it is applied: a module that runs out of memory is lost.
    ///
    /// A module grows in few large steps: V8 collects garbage at each, however small it is.
    fn reserve(&mut self, fleet: &Fleet, rows: usize) -> Result<(), CallError> {
        if self.most(rows) > self.ensured {
            self.used = fleet.devices().map(|(_, timeline)| DEVICE + timeline.memory()).sum();
            self.samples = 0;
        }
        let most = self.most(rows);
        if most > self.ensured {
            let refused = CallError::Memory { rows, used: self.used, limit: self.limit };
            let target = most + most / 4;
            let mut room = Vec::<u8>::new();
            let is_there = room.try_reserve_exact(target - self.used).is_ok();
            // A compiler may leave out memory that nothing uses.
            black_box(room);
            if most > self.limit || !is_there {
                return Err(refused);
            }
            self.ensured = target;
        }
        self.samples += rows;
        Ok(())
    }
}

impl Tracker {
    /// A tracker without devices.
    pub(crate) fn new(rules: &Rules, max_memory: usize) -> Self {
        let memory = Memory { limit: max_memory, used: 0, samples: 0, ensured: 0 };
        Self { fleet: Fleet::new(rules), next: Version(0), memory }
    }

    /// Applies samples in the order of arrival: a byte per sample, its number in [`effects`], then
    /// the refused ones as JSON.
    pub(crate) fn absorb(&mut self, batch: &Batch<'_>) -> Result<Vec<u8>, CallError> {
        self.memory.reserve(&self.fleet, batch.rows())?;
        let mut answer = Vec::with_capacity(batch.rows() + 2);
        let mut refused = Vec::new();
        for row in 0..batch.rows() {
            let version = self.next;
            self.next = self.next.saturating_add(STEP);
            let (number, fault) = match batch.row(row) {
                Row::Record(record) => {
                    let effect = self.fleet.absorb_at(version, &record);
                    let fault = match &effect {
                        Effect::Refused(refusal) => Some((effect.name(), refusal.to_string())),
                        _ => None,
                    };
                    (number_of(&effect), fault)
                }
                Row::BadTime(time) => {
                    let message = format!("time is {time}; it must be a whole number of ms");
                    (number_of_reason(BAD_TIME), Some((BAD_TIME.name(), message)))
                }
            };
            answer.push(u8::try_from(number).unwrap_or(u8::MAX));
            if let Some((reason, message)) = fault.filter(|_| refused.len() < MAX_REFUSED) {
                refused.push(Refused { row, reason, message });
            }
        }
        write_list(&mut answer, refused.into_iter().map(Ok))?;
        Ok(answer)
    }

    /// The trips and stops of a device, or of all.
    fn segments_of<'a>(
        &'a self,
        device_id: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = (&'a str, &'a Segment)> + 'a> {
        let Some(id) = device_id else { return Box::new(self.fleet.segments()) };
        let timeline = self.fleet.device(id).into_iter();
        Box::new(timeline.flat_map(Timeline::segments).map(move |segment| (id, segment)))
    }

    /// The trips and stops of a device, or of all, as JSON.
    pub(crate) fn segments(&self, device_id: Option<&str>) -> Result<Vec<u8>, CallError> {
        let legs = self.fleet.legs();
        let trips =
            self.segments_of(device_id).map(|(id, segment)| TripJson::new(id, segment, legs));
        let mut answer = Vec::new();
        write_list(&mut answer, trips)?;
        Ok(answer)
    }

    /// Sums over a span of a device, or of all, as JSON.
    pub(crate) fn sums(
        &self,
        device_id: Option<&str>,
        span: (DeviceTime, DeviceTime),
    ) -> Result<Vec<u8>, CallError> {
        let mut sums = Sums::default();
        for (_, segment) in self.segments_of(device_id) {
            sums.add(segment, self.fleet.legs(), span);
        }
        sums.to_json()
    }

    /// What changed since the last call, as JSON.
    pub(crate) fn changes(&mut self) -> Result<Vec<u8>, CallError> {
        let legs = self.fleet.legs();
        let groups = self.fleet.take_changes();
        let mut answer = Vec::new();
        write_list(&mut answer, groups.iter().map(|group| GroupJson::new(group, legs)))?;
        Ok(answer)
    }

    /// The segment that an id leads to: the one that covers its time. A UUID names no device, so
    /// those of all devices are tried.
    pub(crate) fn find<'a>(&'a self, id: &'a AnyId) -> Option<(&'a str, &'a Segment)> {
        let covering = |timeline: &'a Timeline| timeline.covering(id.t_star_ms());
        match id {
            AnyId::Trip(TripId { device_id, .. }) => {
                let device_id = device_id.as_str();
                self.fleet.device(device_id).and_then(covering).map(|it| (device_id, it))
            }
            AnyId::Uuid(uuid) => {
                let is_it = |(id, _): &(&str, _)| uuid.matches(id, uuid.t_star_ms);
                let mut devices = self.fleet.devices().filter(is_it);
                devices.find_map(|(id, timeline)| Some((id, covering(timeline)?)))
            }
        }
    }

    /// The ids of that segment with their histories as JSON, or null.
    pub(crate) fn history(&self, id: &AnyId) -> Result<Vec<u8>, CallError> {
        let found = self.find(id).map(|(device_id, segment)| history(device_id, segment));
        serde_json::to_vec(&found.transpose()?).map_err(|error| CallError::input("ids", error))
    }

    /// That segment as JSON, or null, and how the id relates to it.
    pub(crate) fn lookup(&self, id: &AnyId) -> Result<Vec<u8>, CallError> {
        let legs = self.fleet.legs();
        let found = self.find(id).map(|(device_id, segment)| {
            let at = id.t_star_ms();
            let is_retired = segment.outline().points.get(at).is_some();
            let matched = match at == segment.t_star_ms() {
                true => "current",
                false if is_retired => "retired",
                false => "covers",
            };
            TripJson::new(device_id, segment, legs).map(|trip| Lookup { trip, matched })
        });
        serde_json::to_vec(&found.transpose()?).map_err(|error| CallError::input("trip", error))
    }
}

/// A trip or stop, and how an id relates to it.
#[derive(Serialize)]
struct Lookup {
    #[serde(flatten)]
    trip: TripJson,
    #[serde(rename = "match")]
    matched: &'static str,
}
