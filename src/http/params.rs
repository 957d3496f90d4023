//! Parameters of a request. All faults are reported at once.

use axum::extract::Query;
use axum::http::Uri;
use utoipa::openapi::{KnownFormat, Object, OneOf, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::problem::{ParamError, Problem};
use crate::identity::{DeviceId, TripId, device_of_token};
use crate::model::scalar::DeviceTime;
use crate::model::zone::{CLOCKS_BACK_MS, LocalDay, Zone};
use crate::ops::trip_filter::MAX_DISTANCE_M;
use crate::store::Order;
use crate::timeline::DAY_MS;
use crate::views::Detail;

/// Default items per page.
pub(crate) const DEFAULT_LIMIT: usize = 100;

/// Maximum items per page.
pub(crate) const MAX_LIMIT: usize = 1000;

/// Maximum number of days of a span of all devices.
const MAX_DAYS: i64 = 31;

/// Maximum length of such a span, ms.
const MAX_SPAN_MS: i64 = MAX_DAYS * DAY_MS + CLOCKS_BACK_MS;

/// The fault of a request with both.
const DAY_OR_SPAN: &str = "give either a day, or from and to";

/// The span of a question about all devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FleetSpan {
    /// A day.
    Day(LocalDay),
    /// From a time to another one, both inclusive.
    Times(DeviceTime, DeviceTime),
}

impl FleetSpan {
    /// Its first and its last millisecond.
    pub(crate) fn ends(self) -> (DeviceTime, DeviceTime) {
        match self {
            Self::Day(day) => day.span(),
            Self::Times(from_ms, to_ms) => (from_ms, to_ms),
        }
    }

    /// The same for sums of durations, to which the time at its end adds nothing.
    pub(crate) fn ends_of_sums(self) -> (DeviceTime, DeviceTime) {
        match self {
            Self::Day(day) => day.span(),
            Self::Times(from_ms, to_ms) => (from_ms, to_ms.saturating_sub(1)),
        }
    }
}

/// A number above 0, up to a maximum.
pub(crate) fn positive(text: &str, max: f64, what: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number <= max => Ok(number),
        _ => Err(format!("`{text}` is not {what} above 0, up to {max}")),
    }
}

/// The parameters of a request. Each can be read once; [`Params::finish`] rejects unread ones.
#[derive(Debug, Default)]
pub(crate) struct Params {
    /// Parameters that were not read yet.
    unread: Vec<(String, String)>,
    faults: Vec<ParamError>,
}

impl Params {
    /// The parameters of a URL.
    pub(crate) fn of_uri(uri: &Uri) -> Self {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
        Self { unread: pairs.map(|pairs| pairs.0).unwrap_or_default(), faults: Vec::new() }
    }

    /// An optional text.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let at = self.unread.iter().position(|(other, _)| other == name)?;
        let (_, value) = self.unread.remove(at);
        if self.unread.iter().any(|(other, _)| other == name) {
            self.fault(name, "given more than once");
            self.unread.retain(|(other, _)| other != name);
        }
        Some(value)
    }

    /// An optional parameter, parsed by `parse`.
    pub(crate) fn read<T, E: ToString>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        parse(&text).map_err(|error| self.fault(name, error)).ok()
    }

    /// A required parameter, parsed by `parse`; `None` after a fault.
    pub(crate) fn required<T, E: ToString>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name);
        if text.is_none() {
            self.fault(name, "missing");
        }
        let text = text.filter(|_| !self.has_fault(name))?;
        parse(&text).map_err(|error| self.fault(name, error)).ok()
    }

    /// The device id in the URL path, decoded: its token, or else the id itself. `None` after a
    /// fault.
    pub(crate) fn token(&mut self, segment: &str) -> Option<DeviceId> {
        let device = device_of_token(segment).or_else(|_| DeviceId::new(segment));
        device.map_err(|error| self.fault("token", error)).ok()
    }

    /// The zone of days, of times without an offset, and of the times of CSV; UTC after a fault.
    pub(crate) fn zone(&mut self) -> Zone {
        self.read("tz", Zone::from_name).unwrap_or_default()
    }

    /// The span of a question about one device: a day, or `from` and `to`, which are optional.
    pub(crate) fn device_span(&mut self, zone: Zone) -> (DeviceTime, DeviceTime) {
        let (day, span) = (self.day(zone), self.span(zone));
        match day {
            Some(_) if span != (DeviceTime::MIN, DeviceTime::MAX) => {
                self.fault("day", DAY_OR_SPAN);
                span
            }
            Some(day) => day.span(),
            None => span,
        }
    }

    /// The span from `from` to `to`, ms since 1970, both inclusive and optional. It is empty if
    /// `from` is later than `to`.
    fn span(&mut self, zone: Zone) -> (DeviceTime, DeviceTime) {
        let from_ms = self.read("from", |text| zone.parse_time(text)).unwrap_or(DeviceTime::MIN);
        let to_ms = self.read("to", |text| zone.parse_time(text)).unwrap_or(DeviceTime::MAX);
        (from_ms, to_ms)
    }

    /// The span of a question about all devices: a day, or `from` and `to`. `None` after a fault.
    pub(crate) fn fleet_span(&mut self, zone: Zone) -> Option<FleetSpan> {
        let day = self.day(zone);
        let span = self.span(zone);
        if self.has_fault("day") || self.has_fault("from") || self.has_fault("to") {
            return None;
        }
        let (from_ms, to_ms) = span;
        let (has_from, has_to) = (from_ms != DeviceTime::MIN, to_ms != DeviceTime::MAX);
        let problem = match day {
            Some(day) if !has_from && !has_to => return Some(FleetSpan::Day(day)),
            Some(_) => ("day", DAY_OR_SPAN.to_owned()),
            None if !has_from => {
                let what = "required for trips of all devices: from and to, or day=2026-11-20";
                ("from", what.to_owned())
            }
            None if !has_to => ("to", "required with from".to_owned()),
            None if to_ms < from_ms => ("to", "it is earlier than from; swap them".to_owned()),
            None if to_ms.ms().saturating_sub(from_ms.ms()) > MAX_SPAN_MS => {
                ("to", format!("more than {MAX_DAYS} days after from; ask for fewer"))
            }
            None => return Some(FleetSpan::Times(from_ms, to_ms)),
        };
        self.fault(problem.0, problem.1);
        None
    }

    /// A day of a zone.
    pub(crate) fn day(&mut self, zone: Zone) -> Option<LocalDay> {
        self.read("day", |text| zone.day(text))
    }

    /// Maximum items of the page.
    pub(crate) fn limit(&mut self) -> usize {
        let parse = |text: &str| match text.parse() {
            Ok(limit) if (1..=MAX_LIMIT).contains(&limit) => Ok(limit),
            _ => Err(format!("`{text}` is not a whole number from 1 to {MAX_LIMIT}")),
        };
        self.read("limit", parse).unwrap_or(DEFAULT_LIMIT)
    }

    /// Sort order of the page.
    pub(crate) fn order(&mut self) -> Order {
        let parse = |text: &str| match text {
            "asc" => Ok(Order::Asc),
            "desc" => Ok(Order::Desc),
            other => Err(format!("`{other}` is neither asc nor desc")),
        };
        self.read("order", parse).unwrap_or_default()
    }

    /// The start of the page: a device, and a time of it.
    pub(crate) fn cursor(&mut self) -> Option<TripId> {
        self.read("cursor", |text| {
            TripId::parse_key_text(text)
                .map_err(|_| format!("`{text}` is not a valid cursor; use `next` of a page"))
        })
    }

    /// A flag: true or false; false if it is absent.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        self.flag_or(name, false)
    }

    /// A flag: true or false, or this value if it is absent.
    pub(crate) fn flag_or(&mut self, name: &str, absent: bool) -> bool {
        let parse = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{other}` is neither true nor false")),
        };
        self.read(name, parse).unwrap_or(absent)
    }

    /// How much of the path the answer holds.
    pub(crate) fn detail(&mut self) -> Detail {
        let parse = |text: &str| positive(text, MAX_DISTANCE_M, "a distance in metres");
        let (path, simplify_m) = (self.flag("path"), self.read("simplify", parse));
        Detail { path, simplify_m }
    }

    /// Whether a parameter has a fault.
    pub(crate) fn has_fault(&self, name: &str) -> bool {
        self.faults.iter().any(|fault| fault.location == name)
    }

    /// Adds a fault.
    pub(crate) fn fault(&mut self, location: &str, problem: impl ToString) {
        self.faults.push(ParamError::new(location, problem));
    }

    /// Reports all faults. Parameters that were not read are unknown, which is a fault, too.
    pub(crate) fn finish(&mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.unread) {
            self.fault(&name, "unknown parameter");
        }
        let faults = std::mem::take(&mut self.faults);
        if faults.is_empty() { Ok(()) } else { Err(Problem::faults(faults)) }
    }
}

/// Schema of a time in requests.
#[derive(Debug)]
pub(crate) struct Moment;

impl PartialSchema for Moment {
    fn schema() -> RefOr<Schema> {
        let text = Object::builder()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .examples(["2026-11-20T21:38:00Z"]);
        let number = Object::builder()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
        Schema::OneOf(OneOf::builder().item(text).item(number).build()).into()
    }
}

impl ToSchema for Moment {}
