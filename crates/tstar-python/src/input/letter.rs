//! Dead letters: rows that are not samples, with the reason and the value.

use tstar_core::Record;
use tstar_core::fleet::Refusal;
use tstar_core::model::reason::DeadReason;
use tstar_core::model::time::format_time;

use super::fields::Field;

/// The value that is wrong, in little memory: a frame may have nothing else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    Nothing,
    Number(f64),
    Text(Box<str>),
}

impl Given {
    /// A text, cut if it is long.
    pub(crate) fn text(text: &str) -> Self {
        const MAX_CHARS: usize = 80;
        Self::Text(match text.char_indices().nth(MAX_CHARS) {
            None => text.into(),
            Some((cut, _)) => format!("{}... ({} bytes)", &text[..cut], text.len()).into(),
        })
    }
}

impl Field {
    /// The value of the field in a record, for a letter.
    pub(crate) fn given(self, record: &Record<'_>) -> Given {
        let number = |value: Option<f64>| value.map_or(Given::Nothing, Given::Number);
        let Record { device_id, sample, driver, .. } = *record;
        match self {
            Self::Device => Given::text(device_id),
            Self::Driver => driver.map_or(Given::Nothing, Given::text),
            Self::Time => Given::text(&format_time(sample.time_ms.ms())),
            Self::Lat => Given::Number(sample.lat),
            Self::Lon => Given::Number(sample.lon),
            Self::Speed => number(sample.speed_mps),
            Self::Heading => number(sample.heading_deg),
            Self::Altitude => number(sample.altitude_m),
            Self::Accuracy => number(sample.accuracy_m),
            Self::Ignition | Self::Received => Given::Nothing,
        }
    }
}

/// A row that is not a sample.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// Row of the frame, from 0.
    pub row: u64,
    pub reason: DeadReason,
    pub field: Field,
    pub given: Given,
}

impl Letter {
    /// The letter of a sample that the core refused.
    #[cold]
    pub(crate) fn refused(row: u64, refusal: &Refusal, record: &Record<'_>) -> Self {
        let field = match refusal {
            Refusal::Device(_) | Refusal::TripFull => Field::Device,
            Refusal::Driver { .. } => Field::Driver,
            Refusal::Range(error) => Field::of_core(error.field),
            Refusal::BeforeMin | Refusal::InFuture => Field::Time,
        };
        Self { row, reason: refusal.reason(), field, given: field.given(record) }
    }

    /// What is wrong, without the row.
    pub(crate) fn message(&self, column: Option<&str>) -> String {
        let column = column.unwrap_or(self.field.name());
        let given = match &self.given {
            Given::Nothing => "null".to_owned(),
            Given::Number(value) => value.to_string(),
            Given::Text(text) => format!("{text:?}"),
        };
        let least_most = match self.field {
            Field::Lat => ", outside of -90 to 90",
            Field::Lon => ", outside of -180 to 180",
            Field::Speed => ", outside of 0 to 1000 m/s",
            Field::Heading => ", outside of 0 to 360",
            Field::Altitude => ", outside of -12000 to 100000 m",
            Field::Accuracy => ", outside of 0 to 100000000 m",
            _ => ", outside of the years 0000 to 9999; time_unit= sets the unit of numbers",
        };
        let fault = match self.reason {
            DeadReason::MissingField => "; a sample needs it",
            DeadReason::OutOfRange => least_most,
            DeadReason::BadTime => {
                "; write RFC 3339 with an offset such as 2026-11-20T21:38:00Z, or numbers in \
                 time_unit="
            }
            DeadReason::TimeBeforeMin => ", before rule min_time",
            DeadReason::TimeInFuture => ", further in the future than rule max_future allows",
            DeadReason::BadDeviceId => "; a device id has 1 to 256 bytes, none of them NUL",
            DeadReason::TripFull => "; its trip has as many samples as rule max_samples allows",
            _ => "; the name of a driver has at most 256 bytes, none of them NUL",
        };
        format!("column `{column}` is {given}{fault}")
    }
}
