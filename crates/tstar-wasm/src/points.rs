//! The samples of a path as columns, for hosts.

use tstar_core::{DeviceTime, Path};

use crate::error::CallError;

/// Driver of a sample that names none.
const NO_DRIVER: u32 = u32::MAX;

/// The samples of a path: their number as 8 bytes, then columns of doubles: time, ms; latitude and
/// longitude, degrees; the readings in their units, NaN where there is none; version. Then 4 bytes
/// a sample: the number of its driver; then 1 each: ignition off, on or unknown (2), and class.
/// Last the names of the drivers as JSON.
pub(crate) fn columns(path: &Path) -> Result<Vec<u8>, CallError> {
    let mut answer = Vec::with_capacity(path.len() * 70 + 16);
    answer.extend((path.len() as u64).to_le_bytes());
    let mut real = |of: &mut dyn FnMut(&tstar_core::Sample) -> f64| {
        path.iter().for_each(|sample| answer.extend(of(&sample).to_le_bytes()));
    };
    #[expect(clippy::cast_precision_loss, reason = "times of ids and positions are below 2^53")]
    let number = |number: i64| number as f64;
    real(&mut |it| number(it.time_ms.ms()));
    real(&mut |it| it.lat());
    real(&mut |it| it.lon());
    for kind in tstar_core::ReadingKind::ALL {
        let value = |quanta: i32| kind.in_units(quanta);
        real(&mut |it| it.readings()[kind as usize].get().map_or(f64::NAN, value));
    }
    real(&mut |it| number(it.version.get()));
    let mut drivers = Drivers::new(path);
    path.iter().for_each(|it| answer.extend(drivers.at(it.time_ms).to_le_bytes()));
    answer.extend(path.iter().map(|it| it.ignition.map_or(2, u8::from)));
    answer.extend(path.iter().map(|it| it.class as u8));
    serde_json::to_writer(&mut answer, &drivers.names)
        .map_err(|error| CallError::input("drivers", error))?;
    Ok(answer)
}

/// The drivers of a path by time, each name once.
struct Drivers<'a> {
    runs: Vec<(DeviceTime, Option<&'a str>)>,
    names: Vec<&'a str>,
}

impl<'a> Drivers<'a> {
    fn new(path: &'a Path) -> Self {
        Self { runs: path.drivers().collect(), names: Vec::new() }
    }

    /// The number of the driver of a sample.
    fn at(&mut self, time_ms: DeviceTime) -> u32 {
        let before = self.runs.partition_point(|(from_ms, _)| *from_ms <= time_ms);
        let run = before.checked_sub(1).and_then(|at| self.runs.get(at));
        let Some(name) = run.and_then(|(_, name)| *name) else { return NO_DRIVER };
        let known = self.names.iter().position(|it| *it == name);
        let at = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        u32::try_from(at).unwrap_or(NO_DRIVER)
    }
}
