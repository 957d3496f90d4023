//! Goes through the trips and stops of all devices, and can pause after each.

use std::sync::Arc;

use tstar_core::segment::Kind;
use tstar_core::{DeviceTime, Segment};

use crate::decided::State;

/// A place among the trips and stops of all devices, by device and time.
#[derive(Clone)]
pub(super) struct Cursor {
    devices: Arc<[Arc<str>]>,
    at: usize,
    after: DeviceTime,
    /// Those of one kind alone.
    kind: Option<Kind>,
}

impl Cursor {
    /// Before the first one.
    pub(super) fn new(state: &State, kind: Option<Kind>) -> Self {
        let mut devices: Vec<Arc<str>> = state.devices().map(|(id, _)| id.into()).collect();
        devices.sort_unstable();
        Self { devices: devices.into(), at: 0, after: DeviceTime::MIN, kind }
    }

    /// The next one, with its device.
    pub(super) fn next<'a>(&mut self, state: &'a State) -> Option<(Arc<str>, &'a Segment)> {
        while let Some(device) = self.devices.get(self.at) {
            let timeline = state.device(device)?;
            let Some(segment) = timeline.after(self.after) else {
                (self.at, self.after) = (self.at + 1, DeviceTime::MIN);
                continue;
            };
            self.after = segment.start_ms();
            if self.kind.is_none_or(|kind| segment.outline().kind == kind) {
                return Some((Arc::clone(device), segment));
            }
        }
        None
    }
}
