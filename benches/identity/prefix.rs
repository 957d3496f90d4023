//! What a search by the id alone reads, in SQLite: the trips of a device's day, and the newest 100
//! of a device. No other index; every row that the query looks at is counted by the condition
//! itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, params};
use tstar::identity::token_of_device;
use tstar::timeline::{DAY_MS, day_of};

use crate::log::device_id;
use crate::pass::{History, Seen};
use crate::schemes::{Id, Order, Scheme};
use crate::table::ratio;

/// How many devices are asked for.
const ASKED: u32 = 20;

/// Trips of the other question.
const NEWEST: usize = 100;

/// What one question cost, over all devices asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// Rows that the queries looked at.
    pub read: u64,
    /// Rows that were looked for and found.
    pub found: u64,
    /// Rows that were to be found.
    pub wanted: u64,
    /// Whether the ids alone could narrow it down.
    pub is_narrowed: bool,
}

impl Search {
    /// Rows read for each row that was found.
    pub fn cost(&self) -> f64 {
        ratio(self.read, self.found)
    }
}

/// Trips by their ids.
pub struct Table<'a> {
    scheme: Scheme,
    history: &'a History,
    trips: HashMap<u32, Vec<&'a Seen>>,
    connection: Connection,
    read: Arc<AtomicU64>,
}

impl<'a> Table<'a> {
    /// Of the trips that stand.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn of(scheme: Scheme, history: &'a History, ids: &[Option<Id>]) -> anyhow::Result<Self> {
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
        let mut trips: HashMap<u32, Vec<&Seen>> = HashMap::new();
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare("INSERT INTO trips VALUES (?, ?, ?)")?;
        for (at, trip) in history.standing() {
            let id = ids[at as usize].as_ref().context("a trip that stands has an id")?;
            let key = match scheme.order() {
                Order::Device => id.text.as_bytes(),
                _ => &id.bytes,
            };
            insert.execute(params![key, trip.device, trip.start_ms])?;
            trips.entry(trip.device).or_default().push(trip);
        }
        drop(insert);
        transaction.commit()?;
        Ok(Self { scheme, history, trips, connection, read })
    }

    fn devices(&self) -> impl Iterator<Item = u32> {
        let devices = self.history.trips.iter().map(|trip| trip.device).max().unwrap_or(0);
        (0..ASKED.min(devices)).map(move |nth| 1 + nth * devices / ASKED.min(devices))
    }

    /// Starts that a query finds; `more` is the end of it.
    fn ask(
        &self,
        range: Option<&(Vec<u8>, Vec<u8>)>,
        wanted: (u32, i64, i64),
        more: &str,
    ) -> anyhow::Result<Vec<i64>> {
        let narrow = if range.is_some() { "id >= ?4 AND id < ?5 AND" } else { "" };
        let query = format!(
            "SELECT start_ms FROM trips WHERE {narrow} is_wanted(device, start_ms, ?1, ?2, ?3) {more}"
        );
        let mut select = self.connection.prepare(&query)?;
        let (device, from_ms, until_ms) = wanted;
        let starts = match range {
            Some((from, until)) => {
                let told = params![device, from_ms, until_ms, from, until];
                select.query_map(told, |row| row.get(0))?.collect::<Result<_, _>>()
            }
            None => {
                let told = params![device, from_ms, until_ms];
                select.query_map(told, |row| row.get(0))?.collect::<Result<_, _>>()
            }
        };
        Ok(starts?)
    }

    /// The trips that start on one day, of each device asked for: the day in the middle of what the
    /// device drove.
    ///
    /// # Errors
    /// SQLite fails.
    pub fn day(&self) -> anyhow::Result<Search> {
        let mut search = Search::default();
        for device in self.devices() {
            let trips = self.trips.get(&device).map_or(&[][..], |trips| trips);
            let middle = trips.get(trips.len() / 2).context("every device drove")?;
            let day = day_of(middle.start_ms);
            let range = self.scheme.day(device, day)?;
            self.read.store(0, Ordering::Relaxed);
            let span = (device, day * DAY_MS, (day + 1) * DAY_MS);
            let starts = self.ask(range.as_ref(), span, "")?;
            search.is_narrowed = range.is_some();
            search.read += self.read.load(Ordering::Relaxed);
            search.found += starts.len() as u64;
            search.wanted +=
                trips.iter().filter(|trip| day_of(trip.start_ms) == day).count() as u64;
        }
        Ok(search)
    }

    /// The newest trips of each device asked for.
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
            // `~` ends a device in a text id; 7f follows it.
            let own = (format!("{token}~").into_bytes(), format!("{token}\x7f").into_bytes());
            let range = (order == Order::Device).then_some(&own);
            self.read.store(0, Ordering::Relaxed);
            let starts = self.ask(range, (device, i64::MIN, i64::MAX), &more)?;
            search.read += self.read.load(Ordering::Relaxed);
            let trips = self.trips.get(&device).map_or(&[][..], |trips| trips);
            let mut newest: Vec<_> = trips.iter().map(|trip| trip.start_ms).collect();
            newest.sort_unstable_by(|one, other| other.cmp(one));
            newest.truncate(NEWEST);
            let newest: HashSet<_> = newest.into_iter().collect();
            search.wanted += newest.len() as u64;
            search.found += starts.iter().filter(|start| newest.contains(start)).count() as u64;
        }
        Ok(search)
    }
}
