//! What a request asks for: its parameters, read with every fault at once.

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;

use utoipa::openapi::{KnownFormat, Object, OneOf, RefOr, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

use super::problem::{ParamError, Problem};
use crate::identity::{TripId, check_device_id, device_of_token};
use crate::model::time::{parse_day, parse_time};
use crate::store::Order;

/// Trips or devices of a page, where nothing else is asked for.
pub const LIMIT: usize = 100;

/// The most of a page.
pub const MOST: usize = 1000;

/// The parameters of a request. Each is taken once; [`Ask::done`] refuses what nobody took.
#[derive(Debug, Default)]
pub struct Params {
    given: Vec<(String, String)>,
    faults: Vec<ParamError>,
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        Ok(Self { given: pairs.map(|pairs| pairs.0).unwrap_or_default(), faults: Vec::new() })
    }
}

impl Params {
    /// A text.
    pub fn text(&mut self, name: &str) -> Option<String> {
        let at = self.given.iter().position(|(known, _)| known == name)?;
        let (_, value) = self.given.remove(at);
        if self.given.iter().any(|(known, _)| known == name) {
            self.fault(name, "it is given twice");
            self.given.retain(|(known, _)| known != name);
        }
        Some(value)
    }

    /// A text that has to be there; the empty one where it is not.
    pub fn required(&mut self, name: &str) -> String {
        self.text(name).unwrap_or_else(|| {
            self.fault(name, "it is missing");
            String::new()
        })
    }

    /// What `read` makes of a parameter.
    pub fn read<T, E: ToString>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        read(&text).map_err(|error| self.fault(name, error)).ok()
    }

    /// A device id that has to be there.
    pub fn device(&mut self) -> String {
        let device = self.required("device");
        if let (false, Err(error)) = (self.has_fault("device"), check_device_id(&device)) {
            self.fault("device", error);
        }
        device
    }

    /// The device id of a token in a path.
    pub fn token(&mut self, token: &str) -> String {
        device_of_token(token).unwrap_or_else(|error| {
            self.fault("token", error);
            String::new()
        })
    }

    /// A time, ms since 1970, that has to be there.
    pub fn needed_time(&mut self, name: &str) -> i64 {
        let text = self.required(name);
        match (self.has_fault(name), parse_time(&text)) {
            (false, Ok(time_ms)) => time_ms,
            (false, Err(error)) => {
                self.fault(name, error);
                0
            }
            (true, _) => 0,
        }
    }

    /// A span of times, ms since 1970, both ends inclusive; without an end it is open there. One
    /// that ends before it begins is empty.
    pub fn span(&mut self) -> (i64, i64) {
        let from_ms = self.read("from", parse_time).unwrap_or(i64::MIN);
        let upto_ms = self.read("to", parse_time).unwrap_or(i64::MAX);
        (from_ms, upto_ms)
    }

    /// A UTC day, whole days since 1970.
    pub fn day(&mut self) -> Option<i64> {
        self.read("day", parse_day)
    }

    /// How many of a page.
    pub fn limit(&mut self) -> usize {
        let read = |text: &str| match text.parse() {
            Ok(limit) if (1..=MOST).contains(&limit) => Ok(limit),
            _ => Err(format!("`{text}` is no whole number from 1 to {MOST}")),
        };
        self.read("limit", read).unwrap_or(LIMIT)
    }

    /// Which way a page goes.
    pub fn order(&mut self) -> Order {
        let read = |text: &str| match text {
            "asc" => Ok(Order::Asc),
            "desc" => Ok(Order::Desc),
            other => Err(format!("`{other}` is neither asc nor desc")),
        };
        self.read("order", read).unwrap_or_default()
    }

    /// Where a page goes on: a device, and a time in it.
    pub fn cursor(&mut self) -> Option<TripId> {
        self.read("cursor", |text| {
            TripId::parse_key_text(text)
                .map_err(|_| format!("`{text}` is no cursor of an earlier page"))
        })
    }

    /// true or false.
    pub fn flag(&mut self, name: &str) -> bool {
        let read = |text: &str| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{other}` is neither true nor false")),
        };
        self.read(name, read).unwrap_or(false)
    }

    /// How much of a path is wanted.
    pub fn detail(&mut self) -> Detail {
        let read = |text: &str| match text.parse::<f64>() {
            Ok(metres) if metres > 0.0 && metres <= 1e6 => Ok(metres),
            _ => Err(format!("`{text}` is no number of metres above 0, up to 1000000")),
        };
        Detail { path: self.flag("path"), simplify_m: self.read("simplify", read) }
    }

    /// Whether something is wrong with a parameter.
    pub fn has_fault(&self, name: &str) -> bool {
        self.faults.iter().any(|fault| fault.place == name)
    }

    /// Adds what is wrong.
    pub fn fault(&mut self, place: &str, problem: impl ToString) {
        self.faults.push(ParamError::new(place, problem));
    }

    /// Everything that is wrong with the request, parameters that nobody took among it.
    pub fn finish(mut self) -> Result<(), Problem> {
        for (name, _) in std::mem::take(&mut self.given) {
            self.fault(&name, "there is no such parameter");
        }
        let Some(first) = self.faults.first() else { return Ok(()) };
        let nowhere = |fault: &ParamError| matches!(&*fault.place, "token" | "cursor");
        if !self.faults.iter().all(nowhere) {
            return Err(Problem::faults(self.faults));
        }
        // As with any other path that leads nowhere.
        let code = if first.place == "token" { "no_device" } else { "no_page" };
        let problems: Vec<_> = self.faults.iter().map(|fault| &*fault.problem).collect();
        Err(Problem::new(StatusCode::NOT_FOUND, code, problems.join("; ")))
    }
}

/// A time as requests give it, for the description of the API.
#[derive(Debug)]
pub struct Moment;

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

/// How much of a path an answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Detail {
    /// The path is wanted.
    pub path: bool,
    /// Points may be left out that lie no further than this from the line of the others, m.
    pub simplify_m: Option<f64>,
}
