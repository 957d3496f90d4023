//! The rows that a search by the id alone reads in SQLite: the trips of a device's day, and the
//! newest 100 of a device. There is no other index. A function in the condition counts every row
//! that the query looks at.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use tstar::internals::identity::token_of_device;
use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::timeline::day_of;

use crate::log::device_id;
use crate::pass::{History, TripRecord};
use crate::schemes::{Id, Order, Scheme};
use crate::table::ratio;

/// Number of devices to search for.
const DEVICES: u32 = 20;

/// Number of newest trips to search for.
const NEWEST: usize = 100;

/// The cost of one kind of search, over all devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// Rows that the queries looked at.
    pub read: u64,
    /// Wanted rows that were found.
    pub found: u64,
    /// Wanted rows.
    pub wanted: u64,
    /// Whether the ids could narrow the search.
    pub is_narrowed: bool,
}

impl Search {
    /// Rows read per row found.
    pub fn cost(&self) -> f64 {
        ratio(self.read, self.found)
    }
}

/// Trips by their ids.
pub struct Table<'a> {
    scheme: Scheme,
    history: &'a History,
    trips: HashMap<u32, Vec<&'a TripRecord>>,
    connection: Connection,
    read: Arc<AtomicU64>,
}

impl<'a> Table<'a> {
    /// A table of the remaining trips.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn new(scheme: Scheme, history: &'a History, ids: &[Option<Id>]) -> anyhow::Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        connection.create_scalar_function(
            "is_wanted",
            5,
            FunctionFlags::SQLITE_UTF8,
            move |row| {
                counter.fetch_add(1, Ordering::Relaxed);
                let (device, start_ms): (i64, i64) = (row.get(0)?, row.get(1)?);
                let range = row.get::<i64>(3)?..row.get::<i64>(4)?;
                Ok(device == row.get::<i64>(2)? && range.contains(&start_ms))
            },
        )?;
        connection.execute_batch(
            "CREATE TABLE trips (id BLOB PRIMARY KEY, device INTEGER, start_ms INTEGER)
             WITHOUT ROWID",
        )?;
        let mut trips: HashMap<u32, Vec<&TripRecord>> = HashMap::new();
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare("INSERT INTO trips VALUES (?, ?, ?)")?;
        for (at, trip) in history.remaining() {
            let id = ids[at as usize].as_ref().context("a remaining trip has an id")?;
            let key = match scheme.order() {
                Order::Device => id.text.as_bytes(),
                _ => &id.bytes,
            };
            insert.execute(params![key, trip.device, trip.start_ms.ms()])?;
            trips.entry(trip.device).or_default().push(trip);
        }
        drop(insert);
        transaction.commit()?;
        Ok(Self { scheme, history, trips, connection, read })
    }

    fn devices(&self) -> impl Iterator<Item = u32> {
        let devices = self.history.trips.iter().map(|trip| trip.device).max().unwrap_or(0);
        (0..DEVICES.min(devices)).map(move |nth| 1 + nth * devices / DEVICES.min(devices))
    }

    /// The start times that a query finds. `more` is appended to the query.
    fn query_starts(
        &self,
        range: Option<&(Vec<u8>, Vec<u8>)>,
        wanted: (u32, DeviceTime, DeviceTime),
        more: &str,
    ) -> anyhow::Result<Vec<DeviceTime>> {
        let narrow = if range.is_some() { "id >= ?4 AND id < ?5 AND" } else { "" };
        let query = format!(
            "SELECT start_ms FROM trips WHERE {narrow} is_wanted(device, start_ms, ?1, ?2, ?3) {more}"
        );
        let mut select = self.connection.prepare(&query)?;
        let (device, from_ms, until_ms) = (wanted.0, wanted.1.ms(), wanted.2.ms());
        let start_ms = |row: &rusqlite::Row<'_>| row.get(0).map(DeviceTime);
        let starts = match range {
            Some((from, until)) => {
                let values = params![device, from_ms, until_ms, from, until];
                select.query_map(values, start_ms)?.collect::<Result<_, _>>()
            }
            None => {
                let values = params![device, from_ms, until_ms];
                select.query_map(values, start_ms)?.collect::<Result<_, _>>()
            }
        };
        Ok(starts?)
    }

    /// Searches the trips of one day of each device: the day of its middle trip.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn day(&self) -> anyhow::Result<Search> {
        let mut search = Search::default();
        for device in self.devices() {
            let trips = self.trips.get(&device).map_or(&[][..], |trips| trips);
            let middle = trips.get(trips.len() / 2).context("every device has trips")?;
            let day = day_of(middle.start_ms);
            let range = self.scheme.day(device, day.get())?;
            self.read.store(0, Ordering::Relaxed);
            let span = (device, day.start_ms(), (day + 1).start_ms());
            let starts = self.query_starts(range.as_ref(), span, "")?;
            search.is_narrowed = range.is_some();
            search.read += self.read.load(Ordering::Relaxed);
            search.found += starts.len() as u64;
            search.wanted +=
                trips.iter().filter(|trip| day_of(trip.start_ms) == day).count() as u64;
        }
        Ok(search)
    }

    /// Searches the newest trips of each device.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn newest(&self) -> anyhow::Result<Search> {
        let order = self.scheme.order();
        let by = match order {
            Order::Device | Order::Rising => "id DESC",
            Order::Falling => "id",
            Order::None => "start_ms DESC",
        };
        let more = format!("ORDER BY {by} LIMIT {NEWEST}");
        let mut search = Search { is_narrowed: order != Order::None, ..Search::default() };
        for device in self.devices() {
            let token = token_of_device(&device_id(device));
            // In a text id, `~` ends the device; 7f is the byte after `~`.
            let bounds = (format!("{token}~").into_bytes(), format!("{token}\x7f").into_bytes());
            let range = (order == Order::Device).then_some(&bounds);
            self.read.store(0, Ordering::Relaxed);
            let starts =
                self.query_starts(range, (device, DeviceTime::MIN, DeviceTime::MAX), &more)?;
            search.read += self.read.load(Ordering::Relaxed);
            let trips = self.trips.get(&device).map_or(&[][..], |trips| trips);
            let mut newest: Vec<_> = trips.iter().map(|trip| trip.start_ms).collect();
            newest.sort_unstable_by(|a, b| b.cmp(a));
            newest.truncate(NEWEST);
            let newest: HashSet<_> = newest.into_iter().collect();
            search.wanted += newest.len() as u64;
            search.found += starts.iter().filter(|start| newest.contains(start)).count() as u64;
        }
        Ok(search)
    }
}
