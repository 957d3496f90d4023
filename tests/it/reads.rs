//! Rows read per row found, on each store: a query by prefix, newest first, by day or by UUID costs
//! no more than its result.

use std::sync::Arc;

use tstar::internals::identity::{AnyId, TripId, prefix, prefix_range, shard};
use tstar::internals::model::scalar::{Day, DeviceTime};
use tstar::internals::model::time::format_time;
use tstar::internals::pipeline::daemon::LiveWorkers;
use tstar::internals::store::fresh::FreshStore;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::sqlite::SqliteStore;
use tstar::internals::store::{
    DeviceScope, Kinds, LookupResult, Order, TripRow, TripStore, latest_end,
};
use tstar::internals::timeline::{DAY_MS, day_of};

use crate::cli::Folder;
use crate::conformance::{MIDNIGHT, trip};
use crate::keyspace::{ClusteringOrder, Keyspace};
use crate::support::block_on;

const DEVICES: usize = 40;
const DAYS: usize = 30;
/// Trips per device and day.
const TRIPS: usize = 3;

/// Days that a range query reads first.
const FIRST_DAYS: u64 = 16;

/// Rows that a lookup of a time reads at most, where no trips overlap.
const LOOKUP: u64 = 4;

fn device(nth: usize) -> String {
    format!("van-{nth:02}")
}

/// Trips at 8:00, 12:00 and 16:00 of each day.
fn trips_of(nth: usize) -> Vec<TripRow> {
    let mut trips = Vec::new();
    for day in 0..DAYS {
        for hour in 0..TRIPS {
            let minute = (day * 1440 + 480 + hour * 240) as i64;
            let version = 2 * (1 + trips.len()) as i64;
            trips.push(trip(&device(nth), &[minute, minute + 10], version));
        }
    }
    trips
}

/// A query, with the number of rows found and read.
struct QueryCost {
    name: &'static str,
    found: usize,
    read: u64,
}

/// Runs a query and counts the rows that it reads.
async fn measure<T>(
    name: &'static str,
    rows_read: &impl Fn() -> u64,
    query: impl Future<Output = (T, usize)>,
) -> (T, QueryCost) {
    let before = rows_read();
    let (answer, found) = query.await;
    (answer, QueryCost { name, found, read: rows_read() - before })
}

async fn queries(store: &impl TripStore, rows_read: impl Fn() -> u64) -> Vec<QueryCost> {
    for nth in 0..DEVICES {
        store.apply(&trips_of(nth)).await.unwrap();
    }
    let (count, mut all) = (&rows_read, Vec::new());
    let day = day_of(MIDNIGHT).get() + 7;
    let date = format_time(day * DAY_MS)[..10].to_owned();

    let by_prefix = async {
        let (device, from, upto) = prefix_range(&prefix(&device(7), &date).unwrap()).unwrap();
        let found =
            store.range(&device, Kinds::All, from, upto, Order::Asc, usize::MAX).await.unwrap();
        let count = found.len();
        (found, count)
    };
    let (found, cost) = measure("trips --prefix, a day", count, by_prefix).await;
    assert!(found.iter().all(|row| day_of(row.t_star_ms).get() == day), "those of the day");
    all.push(cost);

    let newest = async {
        let found = store
            .range(&device(7), Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Desc, 10)
            .await
            .unwrap();
        let count = found.len();
        (found, count)
    };
    let (found, cost) = measure("trips --order desc --limit 10", count, newest).await;
    let mut expected = trips_of(7).split_off(DAYS * TRIPS - 10);
    expected.reverse();
    assert_eq!(found, expected);
    all.push(cost);

    let of_day = async {
        let devices = store.devices(DeviceScope::OfDay(Day(day)), None, 1000).await.unwrap();
        let mut found = 0;
        for device in &devices {
            let from = Day(day).start_ms();
            found += store
                .range(device, Kinds::All, from, from + (DAY_MS - 1), Order::Asc, usize::MAX)
                .await
                .unwrap()
                .len();
        }
        (devices, found)
    };
    let (devices, cost) = measure("trips --day", count, of_day).await;
    assert_eq!(devices, (0..DEVICES).map(device).collect::<Vec<_>>());
    all.push(cost);

    let page = async {
        let devices =
            store.devices(DeviceScope::OfDay(Day(day)), Some(&device(20)), 5).await.unwrap();
        let count = devices.len();
        (devices, count)
    };
    let (devices, cost) = measure("devices --day, a page of 5", count, page).await;
    assert_eq!(devices, (21..26).map(device).collect::<Vec<_>>());
    all.push(cost);

    let wanted = &trips_of(7)[7 * TRIPS + 1];
    let uuid = TripId::new(device(7), wanted.t_star_ms).unwrap().uuid().unwrap().to_string();
    let alone = FreshStore::new(store, None::<Arc<LiveWorkers>>);
    let by_uuid = async { (alone.find(&AnyId::parse(&uuid).unwrap()).await.unwrap().result, 1) };
    let (found, cost) = measure("trip UUID", count, by_uuid).await;
    assert!(matches!(found, LookupResult::Trip(row) if *row == *wanted), "the trip of the UUID");
    all.push(cost);
    let by_time = async { (store.covering(&device(7), wanted.end_ms).await.unwrap(), 1) };
    let (found, cost) = measure("lookup", count, by_time).await;
    assert_eq!(found.as_ref(), Some(wanted));
    all.push(cost);
    all.push(last_trip(store, count).await);
    all
}

async fn last_trip(store: &impl TripStore, rows_read: &impl Fn() -> u64) -> QueryCost {
    let last = async { (latest_end(store, &device(7)).await.unwrap(), 1) };
    let (found, cost) = measure("devices, the last trip of one", rows_read, last).await;
    assert_eq!(found.map(|end| end.end_ms), trips_of(7).last().map(|row| row.end_ms));
    cost
}

/// Compares the rows read with the schema's limits.
fn is_cheap(store: &str, all: &[QueryCost]) {
    let of_shard = (0..DEVICES).filter(|nth| shard(&device(*nth)) == shard(&device(7))).count();
    assert!(of_shard < DEVICES / 4, "{of_shard} devices of one shard");
    let day_of_all = (DEVICES * (1 + 1 + TRIPS)) as u64;
    let expected = [
        (TRIPS, TRIPS as u64 + 1),
        // Whole days: the last one has more trips than are wanted.
        (10, FIRST_DAYS + 12),
        (DEVICES * TRIPS, day_of_all),
        (5, 16 * 5),
        (1, of_shard as u64 + LOOKUP),
        (1, LOOKUP),
        // Some days, and some trips of the last one.
        (1, LOOKUP + LOOKUP),
    ];
    for (cost, (found, most)) in all.iter().zip(expected) {
        println!("{store}: {}: {} rows read for {} found", cost.name, cost.read, cost.found);
        assert_eq!(cost.found, found, "{}", cost.name);
        assert!(cost.read <= most, "{}: {} rows read, {most} allowed", cost.name, cost.read);
        assert!(cost.read >= found.min(5) as u64, "{}: {} rows counted", cost.name, cost.read);
    }
    assert_eq!(all.len(), expected.len());
}

#[test]
fn questions_to_a_file_read_what_they_find() {
    let folder = Folder::new();
    let rules = tstar::internals::model::rules::Rules::default();
    let store = SqliteStore::open_writer(&folder.path("reads.db"), &rules, 0).unwrap();
    is_cheap("sqlite", &block_on(queries(&store, || store.rows_read())));
}

#[test]
fn questions_to_a_keyspace_read_what_they_find() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let store = keyspace.store();
    is_cheap("cql", &keyspace.runtime.block_on(queries(&store, || store.rows_read())));
}
