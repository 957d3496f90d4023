//! Trips and stops of a store.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tstar_core::codec::decode;
use tstar_core::identity::check_device_id;
use tstar_core::segment::{Kind, MintPoints};
use tstar_core::{DeviceTime, Segment, Timeline, Version};

use crate::decided::{Decided, State};
use crate::rules::Rules;
use crate::wrong;

/// A row of a store: device, start in ms, kind, ids with their histories, version, path.
type Row<'py> = (String, i64, String, Vec<(i64, Vec<i64>)>, i64, Bound<'py, PyBytes>);

/// The trips and stops of rows, in the order of devices and time; of a span, or of all times.
#[pyfunction]
pub(crate) fn load(
    rules: &Rules,
    rows: &Bound<'_, PyAny>,
    path: bool,
    span: bool,
) -> PyResult<Decided> {
    let mut state = State::new(rules, false, path);
    state.is_span = span;
    let (mut device, mut segments) = (String::new(), Vec::new());
    for row in rows.try_iter()? {
        let row: Row<'_> = row?.extract()?;
        let segment = segment(rules, &row).map_err(|reason| {
            let (device, start_ms, ..) = &row;
            wrong(format!(
                "the stored trip of device {device:?} that starts at {start_ms} ms: {reason}; \
                 `tstar verify --repair` mends the store"
            ))
        })?;
        if device != row.0 {
            state.load(&device, &mut segments)?;
            device = row.0;
        }
        segments.push(segment);
    }
    state.load(&device, &mut segments)?;
    Ok(Decided(Arc::new(state)))
}

impl State {
    /// Takes the trips and stops of a device out of a list, which may be empty.
    fn load(&mut self, device: &str, segments: &mut Vec<Segment>) -> PyResult<()> {
        if segments.is_empty() {
            return Ok(());
        }
        check_device_id(device).map_err(wrong)?;
        // A trip that touches two days has a copy in each.
        let timeline = self.stored.entry(device.into()).or_insert_with(Timeline::in_memory);
        let rules = self.rules.0.segments();
        timeline.insert_loaded(&rules, &[], std::mem::take(segments), Version::MAX);
        Ok(())
    }
}

fn segment(rules: &Rules, row: &Row<'_>) -> Result<Segment, String> {
    let (_, start_ms, kind, ids, version, path) = row;
    let path = decode(path.as_bytes()).map_err(|error| error.to_string())?;
    if path.first().time_ms != DeviceTime(*start_ms) {
        return Err("its path starts at another time".to_owned());
    }
    let kind = Kind::from_name(kind).ok_or_else(|| format!("its kind is {kind:?}"))?;
    let history = |versions: &Vec<i64>| versions.iter().copied().map(Version).collect();
    let points = ids.iter().map(|(t_star_ms, it)| (DeviceTime(*t_star_ms), history(it)));
    let points: MintPoints = points.collect();
    if points.live().is_none() {
        return Err("none of its ids names it".to_owned());
    }
    Ok(Segment::loaded(&rules.0.segments(), kind, points, Version(*version), path))
}
