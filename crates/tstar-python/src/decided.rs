//! What was decided: the trips and stops of all devices, and what became of each row.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use tstar_core::fleet::Refusal;
use tstar_core::model::reason::{DeadReason, DropReason};
use tstar_core::model::scalar::Version;
use tstar_core::segment::Kind;
use tstar_core::{Arrival, Effect, Fleet, Record, Segment, Timeline};

use crate::input::{Chunk, Fields, Letter};
use crate::rules::Rules;
use crate::tables::Table;
use crate::{events, tables, wrong};

/// Names of what a row can do, but for the reasons of dead letters and drops.
const CONFLICTING: &str = "conflicting";

/// The trips and stops of all devices, and what became of each row.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub rules: Rules,
    pub fleet: Fleet,
    /// The devices of a store that was read, of which the fleet has none.
    pub stored: BTreeMap<Arc<str>, Timeline>,
    /// Whether only a span of the store was read.
    pub is_span: bool,
    /// What each row did, as places in [`effect_names`].
    pub effects: Vec<u8>,
    pub letters: Vec<Letter>,
    /// The columns of the last frame.
    pub fields: Fields,
    /// Number of rows that arrived.
    arrived: i64,
    /// The row of each arrival; empty: rows arrived in their order.
    arrivals: Vec<u64>,
    /// Number of samples whose ignition was neither on nor off.
    unknown_ignitions: u64,
    /// Whether the first row that is not a sample is an error.
    pub is_strict: bool,
    /// Whether tables of trips and stops have the path.
    pub has_path: bool,
}

/// What a row can do: arrival kinds, duplicates, then reasons.
pub(crate) fn effect_names() -> impl Iterator<Item = &'static str> {
    let duplicates = [Effect::DUPLICATE, CONFLICTING];
    arrival_names().chain(duplicates).chain(drop_names()).chain(dead_names())
}

fn arrival_names() -> impl Iterator<Item = &'static str> {
    Arrival::ALL.iter().map(|it| it.name())
}

fn drop_names() -> impl Iterator<Item = &'static str> {
    DropReason::ALL.iter().map(|it| it.name())
}

fn dead_names() -> impl Iterator<Item = &'static str> {
    DeadReason::ALL.iter().map(|it| it.name())
}

/// The place of an effect in [`effect_names`].
fn code(name: &str) -> u8 {
    let place = effect_names().zip(0..).find(|(known, _)| *known == name);
    place.map_or(u8::MAX, |(_, place)| place)
}

impl State {
    /// Nothing decided yet.
    pub(crate) fn new(rules: &Rules, is_strict: bool, has_path: bool) -> Self {
        Self {
            rules: rules.clone(),
            fleet: Fleet::new(&rules.0),
            stored: BTreeMap::new(),
            is_span: false,
            effects: Vec::new(),
            letters: Vec::new(),
            fields: Fields::default(),
            arrived: 0,
            arrivals: Vec::new(),
            unknown_ignitions: 0,
            is_strict,
            has_path,
        }
    }

    /// The devices with their trips and stops.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (&str, &Timeline)> {
        self.fleet.devices().chain(self.stored.iter().map(|(id, timeline)| (&**id, timeline)))
    }

    /// The trips and stops of a device.
    pub(crate) fn device(&self, device_id: &str) -> Option<&Timeline> {
        self.fleet.device(device_id).or_else(|| self.stored.get(device_id))
    }

    /// All trips and stops with their devices.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (&str, &Segment)> {
        self.devices().flat_map(|(id, timeline)| timeline.segments().map(move |it| (id, it)))
    }

    /// Number of rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.effects.len() as u64
    }

    /// The next rows arrive in this order. Numbers are of rows of all frames.
    pub(crate) fn arrive(&mut self, rows: impl Iterator<Item = u64>) {
        if self.arrivals.is_empty() {
            self.arrivals = (0..self.rows()).collect();
        }
        self.arrivals.extend(rows);
    }

    /// Rows that did not arrive, because of an error, do not count.
    pub(crate) fn stop(&mut self) {
        let arrived = usize::try_from(self.arrived).expect("it was counted in memory");
        self.arrivals.truncate(arrived);
    }

    /// Adds rows that are decided by and by, in another order.
    pub(crate) fn reserve(&mut self, rows: usize) {
        self.effects.resize(self.effects.len() + rows, u8::MAX);
    }

    /// The row at which a version arrived.
    pub(crate) fn row_of(&self, version: Version) -> u64 {
        let arrival = version.get().cast_unsigned() / 2;
        if self.arrivals.is_empty() {
            return arrival;
        }
        usize::try_from(arrival).ok().and_then(|at| self.arrivals.get(at)).copied().unwrap_or(0)
    }

    /// What a row did.
    pub(crate) fn effect_at(&self, row: u64) -> &'static str {
        let code = usize::try_from(row).ok().and_then(|row| self.effects.get(row));
        code.and_then(|&code| effect_names().nth(code.into())).unwrap_or_default()
    }

    /// Decides the rows of a part, in their order.
    ///
    /// # Errors
    /// A row is not a sample, where that is an error.
    pub(crate) fn absorb(&mut self, chunk: &Chunk) -> PyResult<()> {
        self.effects.reserve(chunk.len);
        if !self.arrivals.is_empty() {
            self.arrive(chunk.first..chunk.first + chunk.len as u64);
        }
        for at in 0..chunk.len {
            let effect = self.decide(chunk, at)?;
            self.effects.push(effect);
        }
        Ok(())
    }

    /// Decides the row at a place of a part, for which there is an effect.
    ///
    /// # Errors
    /// As [`State::absorb`].
    pub(crate) fn absorb_at(&mut self, chunk: &Chunk, at: usize) -> PyResult<()> {
        let effect = self.decide(chunk, at)?;
        let row = usize::try_from(chunk.first).expect("it was counted in memory") + at;
        self.effects[row] = effect;
        Ok(())
    }

    /// Decides a sample that is not in a frame, and returns what it did.
    ///
    /// # Errors
    /// As [`State::absorb`].
    pub(crate) fn absorb_record(&mut self, record: &Record<'_>) -> PyResult<&'static str> {
        let row = self.rows();
        if !self.arrivals.is_empty() {
            self.arrive(row..=row);
        }
        let effect = match self.judge(record) {
            Ok(effect) => effect,
            Err(refusal) => self.refuse(Letter::refused(row, &refusal, record))?,
        };
        self.effects.push(effect);
        Ok(self.effect_at(row))
    }

    /// What a record does.
    #[inline]
    fn judge(&mut self, record: &Record<'_>) -> Result<u8, Refusal> {
        // As in a store that is built from files: a record that is not a sample has its place, too.
        let version = Version(2 * self.arrived);
        self.arrived += 1;
        match self.fleet.absorb_at(version, record) {
            Effect::Applied(arrival) => Ok(arrival as u8),
            Effect::Duplicate { conflict: None } => Ok(code(Effect::DUPLICATE)),
            Effect::Duplicate { conflict: Some(_) } => Ok(code(CONFLICTING)),
            Effect::Dropped(reason) => Ok(code(reason.name())),
            Effect::Refused(refusal) => Err(refusal),
        }
    }

    #[inline]
    fn decide(&mut self, chunk: &Chunk, at: usize) -> PyResult<u8> {
        let row = match chunk.row(at) {
            Ok(row) => row,
            Err(letter) => {
                self.arrived += 1;
                return self.refuse(letter);
            }
        };
        self.unknown_ignitions += u64::from(row.has_unknown_ignition);
        let number = chunk.first + at as u64;
        self.judge(&row.record)
            .or_else(|refusal| self.refuse(Letter::refused(number, &refusal, &row.record)))
    }

    #[cold]
    fn refuse(&mut self, letter: Letter) -> PyResult<u8> {
        if self.is_strict {
            // It did not arrive, as the error says.
            self.arrived -= 1;
            let message = letter.message(self.fields.column(letter.field));
            return Err(wrong(format!("row {}: {message}", letter.row)));
        }
        let code = code(letter.reason.name());
        self.letters.push(letter);
        Ok(code)
    }

    /// Numbers of rows by what they did.
    fn by_effect(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = [0_u64; 256];
        for &effect in &self.effects {
            counts[usize::from(effect)] += 1;
        }
        effect_names().zip(counts).collect()
    }
}

/// How many rows did what, as `tstar ingest --json` counts them.
#[derive(IntoPyObject)]
struct Counts {
    delivered: u64,
    applied: u64,
    duplicates: u64,
    conflicting: u64,
    dropped: BTreeMap<&'static str, u64>,
    dead_letters: BTreeMap<&'static str, u64>,
    arrivals: BTreeMap<&'static str, u64>,
    unknown_ignition: u64,
    devices: u64,
    trips: u64,
    stops: u64,
}

impl Counts {
    fn new(state: &State) -> Self {
        let by_effect = state.by_effect();
        let of = |name| by_effect.get(name).copied().unwrap_or(0);
        let arrivals: BTreeMap<_, _> = arrival_names().map(|it| (it, of(it))).collect();
        let found = |(name, count)| (count > 0).then_some((name, count));
        let conflicting = of(CONFLICTING);
        let segments =
            |kind| state.segments().filter(|(_, it)| it.outline().kind == kind).count() as u64;
        Self {
            delivered: state.rows(),
            applied: arrivals.values().sum(),
            duplicates: of(Effect::DUPLICATE) + conflicting,
            conflicting,
            dropped: drop_names().map(|it| (it, of(it))).filter_map(found).collect(),
            dead_letters: dead_names().map(|it| (it, of(it))).filter_map(found).collect(),
            arrivals,
            unknown_ignition: state.unknown_ignitions,
            devices: state.devices().count() as u64,
            trips: segments(Kind::Trip),
            stops: segments(Kind::Stop),
        }
    }
}

/// The trips, stops, points and events of the rows so far, as tables.
#[pyclass(frozen, name = "Trips", module = "tstar")]
#[derive(Debug)]
pub(crate) struct Decided(pub Arc<State>);

#[pymethods]
impl Decided {
    /// The trips: a row for each, by device and time.
    #[getter]
    fn trips(&self) -> Table {
        tables::segments(&self.0, Kind::Trip)
    }

    /// The stops: a row for each, by device and time.
    #[getter]
    fn stops(&self) -> Table {
        tables::segments(&self.0, Kind::Stop)
    }

    /// The kept samples, by device and time, each with the id of its trip or stop.
    #[getter]
    fn points(&self) -> Table {
        tables::points(&self.0)
    }

    /// What became of ids, by row: minted, retired by a merge, revived by a split.
    #[getter]
    fn events(&self, py: Python<'_>) -> Table {
        py.detach(|| events::of_ids(&self.0))
    }

    /// What each row did.
    #[getter]
    fn effects(&self) -> Table {
        tables::effects(&self.0)
    }

    /// The rows that are not samples: row, reason, column, and a message with the value.
    #[getter]
    fn dead_letters(&self) -> Table {
        tables::letters(&self.0)
    }

    /// How many rows did what.
    #[getter]
    fn counts(&self, py: Python<'_>) -> Counts {
        py.detach(|| Counts::new(&self.0))
    }

    /// The evidence of the trip or stop with an id, as JSON: what it is, the rules, and the kept
    /// samples of its device within two days of it, at most 1,000,000. `verify` checks it.
    /// There is none of what `read` selected by time, which may lack samples of these days.
    fn evidence(&self, py: Python<'_>, id: &str) -> PyResult<String> {
        py.detach(|| self.0.evidence(id))
    }

    /// The rules that decided.
    #[getter]
    fn rules(&self) -> Rules {
        self.0.rules.clone()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Counts { delivered, trips, stops, devices, .. } = self.counts(py);
        format!("<{trips} trips and {stops} stops of {devices} devices, of {delivered} rows>")
    }
}
