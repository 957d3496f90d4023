//! What the exported functions do: the buffers, and the trackers of a host.

use tstar_core::DeviceTime;
use tstar_core::codec::{decode, encode};
use tstar_core::evidence::Evidence;
use tstar_core::identity::AnyId;

use crate::batch::{Batch, whole_ms};
use crate::error::CallError;
use crate::tracker::{Tracker, effects};
use crate::{ids, points, rules};

/// The largest input, bytes: the longest path that can be read.
pub(crate) const MAX_INPUT: usize = 128 << 20;

/// Larger buffers are freed after each call, bytes.
const KEPT_BUFFER: usize = 16 << 20;

/// The state of a module.
#[derive(Default)]
pub(crate) struct Module {
    input: Vec<u8>,
    output: Vec<u8>,
    /// The trackers by handle; `None`: it was freed.
    trackers: Vec<Option<Tracker>>,
}

/// The answer to a call.
type Answer = Result<Vec<u8>, CallError>;

impl Module {
    /// Makes room for an input; `None`: it is too large, or there is no memory for it.
    pub(crate) fn prepare(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.input.clear();
        if bytes > MAX_INPUT || self.input.try_reserve(bytes).is_err() {
            return None;
        }
        self.input.resize(bytes, 0);
        Some(&mut self.input)
    }

    /// The answer of the last call, or its error message.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Calls a function with the input, which is used up; whether it succeeded.
    pub(crate) fn call(&mut self, function: impl FnOnce(&mut Self, &[u8]) -> Answer) -> bool {
        let input = std::mem::take(&mut self.input);
        let answer = function(self, &input);
        self.input = if input.capacity() > KEPT_BUFFER { Vec::new() } else { input };
        let is_answer = answer.is_ok();
        self.output = answer.unwrap_or_else(|error| error.to_string().into_bytes());
        is_answer
    }

    fn tracker(&mut self, handle: u32) -> Result<&mut Tracker, CallError> {
        let slot = self.trackers.get_mut(handle as usize);
        slot.and_then(Option::as_mut).ok_or(CallError::Handle(handle))
    }

    /// A tracker with the rules of the input; the answer is its handle.
    pub(crate) fn new_tracker(&mut self, input: &[u8]) -> Answer {
        let (rules, max_memory) = rules::parse(input)?;
        let tracker = Tracker::new(&rules, max_memory);
        let free = self.trackers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.trackers.push(None);
            self.trackers.len() - 1
        });
        self.trackers[at] = Some(tracker);
        Ok(u32::try_from(at).unwrap_or(u32::MAX).to_le_bytes().to_vec())
    }

    /// Frees a tracker.
    pub(crate) fn free_tracker(&mut self, handle: u32) -> Answer {
        self.tracker(handle)?;
        self.trackers[handle as usize] = None;
        Ok(Vec::new())
    }

    /// Applies the samples of the input.
    pub(crate) fn absorb(
        &mut self,
        input: &[u8],
        (handle, rows, columns): (u32, u32, u32),
    ) -> Answer {
        let batch = Batch::parse(input, rows as usize, columns)?;
        self.tracker(handle)?.absorb(&batch)
    }

    /// The trips and stops of the device of the input, or of all if it is empty.
    pub(crate) fn segments(&mut self, input: &[u8], handle: u32) -> Answer {
        let device_id = text(input, "device")?;
        self.tracker(handle)?.segments(Some(device_id).filter(|it| !it.is_empty()))
    }

    /// Sums over a span of the device of the input, or of all if it is empty; both ends inclusive.
    pub(crate) fn sums(
        &mut self,
        input: &[u8],
        handle: u32,
        (from_ms, upto_ms): (f64, f64),
    ) -> Answer {
        let span = (time("from", from_ms)?, time("upto", upto_ms)?);
        let device_id = text(input, "device")?;
        self.tracker(handle)?.sums(Some(device_id).filter(|it| !it.is_empty()), span)
    }

    /// What changed since the last call.
    pub(crate) fn changes(&mut self, handle: u32) -> Answer {
        self.tracker(handle)?.changes()
    }

    /// The trip or stop that the id of the input leads to.
    pub(crate) fn find(&mut self, input: &[u8], handle: u32) -> Answer {
        let id = AnyId::parse(text(input, "id")?)?;
        self.tracker(handle)?.lookup(&id)
    }

    /// The ids of that trip or stop, with their histories.
    pub(crate) fn history(&mut self, input: &[u8], handle: u32) -> Answer {
        let id = AnyId::parse(text(input, "id")?)?;
        self.tracker(handle)?.history(&id)
    }

    /// The path of that trip or stop, encoded; empty if there is none.
    pub(crate) fn path(&mut self, input: &[u8], handle: u32) -> Answer {
        let id = AnyId::parse(text(input, "id")?)?;
        let found = self.tracker(handle)?.find(&id);
        Ok(found.map(|(_, segment)| encode(segment.path())).unwrap_or_default())
    }
}

/// What a sample can do, by the numbers that [`Module::absorb`] answers.
pub(crate) fn effect_names() -> Answer {
    serde_json::to_vec(&effects()).map_err(|error| CallError::input("answer", error))
}

/// Whether a trip follows from its evidence.
pub(crate) fn verify(input: &[u8]) -> Answer {
    let evidence = Evidence::from_json(text(input, "evidence")?).map_err(CallError::evidence)?;
    let verified = evidence.verify().map_err(CallError::evidence)?;
    serde_json::to_vec(&verified).map_err(|error| CallError::input("answer", error))
}

/// The samples of an encoded path.
pub(crate) fn decode_path(input: &[u8]) -> Answer {
    points::columns(&decode(input)?)
}

/// The id of the device of the input and a time in all forms.
pub(crate) fn id_forms(input: &[u8], t_star_ms: f64) -> Answer {
    ids::forms(text(input, "device")?, time("t_star_ms", t_star_ms)?)
}

/// Device and time of the id of the input.
pub(crate) fn parse_id(input: &[u8]) -> Answer {
    ids::parse(text(input, "id")?)
}

/// Whether an id is one of a device: both as a JSON array.
pub(crate) fn is_id_of(input: &[u8]) -> Answer {
    let (id, device_id) = pair(input)?;
    ids::is_of(&id, &device_id)
}

/// The prefix of the ids of a device and a date: both as a JSON array.
pub(crate) fn id_prefix(input: &[u8]) -> Answer {
    let (device_id, date) = pair(input)?;
    ids::prefix_of(&device_id, &date)
}

/// What the prefix of the input selects.
pub(crate) fn prefix_range(input: &[u8]) -> Answer {
    ids::range(text(input, "prefix")?)
}

/// A time of a host.
fn time(what: &'static str, time_ms: f64) -> Result<DeviceTime, CallError> {
    let problem = || CallError::input(what, format!("{time_ms} is not a whole number of ms"));
    whole_ms(time_ms).map(DeviceTime).ok_or_else(problem)
}

fn text<'a>(input: &'a [u8], what: &'static str) -> Result<&'a str, CallError> {
    std::str::from_utf8(input).map_err(|error| CallError::input(what, error))
}

fn pair(input: &[u8]) -> Result<(String, String), CallError> {
    serde_json::from_slice(input).map_err(|error| CallError::input("input", error))
}
