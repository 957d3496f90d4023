//! The schemes, and both forms of their ids.

use anyhow::Context as _;
use chrono::DateTime;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use tstar::internals::identity::{TripId, prefix};
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::timeline::{DAY_MS, day_of};
use ulid::Ulid;
use uuid::Uuid;

use crate::log::device_id;
use crate::mint::{SNOWFLAKE_EPOCH_MS, kuuid_prefix, kuuid_prefix_reversed};
use crate::names::Name;
use crate::pass::TripRecord;

/// A scheme of naming trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheme {
    /// Natural key of device and start.
    DeviceStart,
    /// Natural key of device, start and end.
    DeviceStartEnd,
    /// Natural key of device, day, and number of the trip on that day.
    DeviceOrdinal,
    /// tstar's text form.
    TStar,
    /// tstar's UUID form.
    TStarUuid,
    /// UUID version 4.
    Uuid4,
    /// UUID version 4 in base64url.
    Uuid4Base64,
    /// A random number of 12 digits, under a unique index.
    Digits,
    /// npm's kuuid.
    Kuuid,
    /// kuuid with `reverse`: newest first.
    KuuidReversed,
    /// `MongoDB`'s `ObjectId`.
    ObjectId,
    /// ULID, monotonic.
    Ulid,
    /// UUID version 7.
    Uuid7,
    /// Twitter's Snowflake.
    Snowflake,
    /// Elasticsearch's before 6.0.
    ElasticFlake,
    /// Elasticsearch's since 6.0, and so `CrateDB`'s.
    CrateDb,
    /// One counter.
    Counter,
    /// One counter, with batches of numbers.
    Batches,
    /// A counter per writer, with batches of numbers.
    Counters,
}

/// An id in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id {
    /// The shortest binary form described by its authors.
    pub bytes: Vec<u8>,
    /// The text form.
    pub text: String,
}

/// How ids sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By device, then time.
    Device,
    /// Oldest first.
    Rising,
    /// Newest first.
    Falling,
    /// Not by time.
    None,
}

impl Scheme {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 19] = [
        Self::TStar,
        Self::TStarUuid,
        Self::DeviceStart,
        Self::DeviceStartEnd,
        Self::DeviceOrdinal,
        Self::Uuid4,
        Self::Uuid4Base64,
        Self::Digits,
        Self::Kuuid,
        Self::KuuidReversed,
        Self::ObjectId,
        Self::Ulid,
        Self::Uuid7,
        Self::Snowflake,
        Self::ElasticFlake,
        Self::CrateDb,
        Self::Counter,
        Self::Batches,
        Self::Counters,
    ];

    /// Name in the tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::DeviceStart => "device, start",
            Self::DeviceStartEnd => "device, start, end",
            Self::DeviceOrdinal => "device, nth of the day",
            Self::TStar => "device, `t*`: tstar",
            Self::TStarUuid => "tstar's UUIDv8",
            Self::Uuid4 => "UUIDv4",
            Self::Uuid4Base64 => "UUIDv4, base64url",
            Self::Digits => "12 random digits",
            Self::Kuuid => "kuuid",
            Self::KuuidReversed => "kuuid, reversed",
            Self::ObjectId => "ObjectId",
            Self::Ulid => "ULID",
            Self::Uuid7 => "UUIDv7",
            Self::Snowflake => "Snowflake",
            Self::ElasticFlake => "ElasticFlake",
            Self::CrateDb => "ElasticFlake, CrateDB",
            Self::Counter => "one counter",
            Self::Batches => "one counter, batches",
            Self::Counters => "8 counters, batches",
        }
    }

    /// The state of a trip that gives its id; `None` if the id is minted and kept in the row.
    pub fn name(self) -> Option<Name> {
        match self {
            Self::DeviceStart => Some(Name::Start),
            Self::DeviceStartEnd => Some(Name::StartEnd),
            Self::DeviceOrdinal => Some(Name::Ordinal),
            Self::TStar | Self::TStarUuid => Some(Name::TStar),
            _ => None,
        }
    }

    /// When a trip gets its final name, merges aside.
    pub fn names_from(self) -> &'static str {
        match self {
            Self::DeviceStart => "its start is final",
            Self::DeviceStartEnd => "it is complete",
            Self::DeviceOrdinal => "its day is complete",
            _ => "1st sample",
        }
    }

    /// Whether it needs a database request for each id, or for each batch.
    pub fn is_coordinated(self) -> bool {
        matches!(self, Self::Digits | Self::Counter | Self::Batches | Self::Counters)
    }

    /// Whether its bytes are an integer, which a database stores as such.
    pub fn is_number(self) -> bool {
        self.is_coordinated() || self == Self::Snowflake
    }

    /// How its ids sort.
    pub fn order(self) -> Order {
        match self {
            Self::TStar | Self::DeviceStart | Self::DeviceStartEnd | Self::DeviceOrdinal => {
                Order::Device
            }
            Self::Uuid4 | Self::Uuid4Base64 | Self::Digits | Self::CrateDb => Order::None,
            Self::KuuidReversed => Order::Falling,
            _ => Order::Rising,
        }
    }

    /// The id that follows from the state of a trip; `None` for a scheme that mints ids.
    ///
    /// # Errors
    /// The trip has no id of that form.
    pub fn natural(self, trip: &TripRecord, ordinal: u32) -> anyhow::Result<Option<Id>> {
        let id_at = |time_ms| TripId::new(device_id(trip.device), time_ms);
        Ok(Some(match self {
            Self::TStar | Self::DeviceStart => {
                let time_ms = if self == Self::TStar { trip.t_star_ms } else { trip.start_ms };
                let id = id_at(time_ms)?;
                Id { bytes: id.key(), text: id.text()? }
            }
            Self::TStarUuid => {
                let uuid = id_at(trip.t_star_ms)?.uuid()?;
                Id { bytes: uuid.as_bytes().to_vec(), text: uuid.to_string() }
            }
            Self::DeviceStartEnd => {
                let (start, end) = (id_at(trip.start_ms)?, id_at(trip.end_ms)?);
                let (key, text) = (end.key(), end.text()?);
                let (_, time) = text.rsplit_once('~').context("a text id has a time")?;
                let mut bytes = start.key();
                bytes.extend_from_slice(&key[key.len() - 8..]);
                Id { bytes, text: format!("{}~{time}", start.text()?) }
            }
            Self::DeviceOrdinal => {
                let device = device_id(trip.device);
                let day = u32::try_from(day_of(trip.start_ms).get())?.to_be_bytes();
                let nth = u16::try_from(ordinal)?.to_be_bytes();
                let bytes = [device.as_bytes(), &[0], &day, &nth].concat();
                let text = format!("{}~{ordinal:03}", day_prefix(trip.device, trip.start_ms)?);
                Id { bytes, text }
            }
            _ => return Ok(None),
        }))
    }

    /// Both forms of a minted id.
    ///
    /// # Errors
    /// The bytes are not an id of the scheme.
    pub fn minted(self, bytes: Vec<u8>) -> anyhow::Result<Id> {
        let text = match self {
            Self::Uuid4 | Self::Uuid7 => Uuid::from_slice(&bytes)?.to_string(),
            Self::Uuid4Base64 | Self::ElasticFlake | Self::CrateDb => {
                BASE64URL_NOPAD.encode(&bytes)
            }
            Self::Kuuid | Self::KuuidReversed => String::from_utf8(bytes.clone())?,
            Self::ObjectId => HEXLOWER.encode(&bytes),
            Self::Ulid => Ulid::from_bytes(bytes.as_slice().try_into()?).to_string(),
            _ => u64::from_be_bytes(bytes.as_slice().try_into()?).to_string(),
        };
        Ok(Id { bytes, text })
    }

    /// Start and exclusive end of the ids of a day, as stored for a search by prefix: natural keys
    /// as text, others as bytes. `None` if ids do not contain a time.
    ///
    /// # Errors
    /// The day has no id of that form.
    pub fn day(self, device: u32, day: i64) -> anyhow::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (from_ms, until_ms) = (DeviceTime(day * DAY_MS), DeviceTime((day + 1) * DAY_MS));
        if self.order() == Order::Device {
            let prefix = |ms| anyhow::Ok(day_prefix(device, ms)?.into_bytes());
            return Ok(Some((prefix(from_ms)?, prefix(until_ms)?)));
        }
        let time = |DeviceTime(ms): DeviceTime| -> anyhow::Result<Option<Vec<u8>>> {
            let seconds = u32::try_from(ms / 1000)?;
            Ok(Some(match self {
                Self::TStarUuid | Self::Uuid7 | Self::Ulid | Self::ElasticFlake => {
                    ms.to_be_bytes()[2..].to_vec()
                }
                Self::Kuuid => kuuid_prefix(ms).into_bytes(),
                // Later times are smaller, so the last second of the day comes first.
                Self::KuuidReversed => kuuid_prefix_reversed(ms - 1000).into_bytes(),
                Self::ObjectId => seconds.to_be_bytes().to_vec(),
                Self::Snowflake => ((ms - SNOWFLAKE_EPOCH_MS) << 22).to_be_bytes().to_vec(),
                _ => return Ok(None),
            }))
        };
        let (from, until) = (time(from_ms)?, time(until_ms)?);
        let range = from.zip(until);
        Ok(range.map(
            |(from, until)| {
                if self.order() == Order::Falling { (until, from) } else { (from, until) }
            },
        ))
    }
}

/// Common prefix of the natural keys of a device's day.
fn day_prefix(device: u32, time_ms: DeviceTime) -> anyhow::Result<String> {
    let time = DateTime::from_timestamp_millis(time_ms.ms()).context("a time of the log")?;
    Ok(prefix(&device_id(device), &time.format("%Y%m%d").to_string())?)
}
