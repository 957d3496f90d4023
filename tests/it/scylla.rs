//! Behaviour of Scylla only. On another CQL server these tests print a message and do nothing.

use scylla::value::Row;
use tstar::internals::store::TripStore;
use tstar::internals::store::memory::ApplyRows as _;
use tstar::internals::store::scylla::{ScyllaStore, apply_schema};

use crate::conformance::{at, trip};
use crate::keyspace::{ClusteringOrder, Keyspace, patient};

/// Whether the server is Scylla; prints a message if it is not.
fn is_scylla(store: &ScyllaStore) -> bool {
    if !store.is_scylla() {
        // Listed as skipped by `tests/all`, also in CI, which has no Scylla.
        eprintln!("SKIPPED: the CQL server is not Scylla");
    }
    store.is_scylla()
}

#[test]
fn tombstones_are_kept_as_long_as_writes_may_come_late() {
    let Some(keyspace) = Keyspace::new(ClusteringOrder::Desc) else { return };
    if !is_scylla(&keyspace.store()) {
        return;
    }
    let applied = apply_schema(&keyspace.url, patient(), None);
    let notes = keyspace.runtime.block_on(applied).unwrap();
    assert!(!notes.iter().any(|note| note.contains("tombstone_gc")), "{notes:?}");
    for table in ["trips", "device_days", "days_of_device", "forgets", "trip_tags"] {
        let describe = keyspace.session.query_unpaged(format!("DESCRIBE TABLE {table}"), ());
        let described = keyspace.runtime.block_on(describe).unwrap().into_rows_result().unwrap();
        let described = format!("{:?}", described.first_row::<Row>().unwrap());
        // With one replica `repair`, the default, would drop them at once.
        assert!(described.contains("'mode': 'timeout'"), "{described}");
    }
}

#[test]
fn both_orders_agree_over_range_tombstones_in_memory() {
    let Some(desc) = Keyspace::new(ClusteringOrder::Desc) else { return };
    let (desc_store, asc) = (desc.store(), Keyspace::new(ClusteringOrder::Asc).unwrap());
    if !is_scylla(&desc_store) {
        return;
    }
    let asc_store = asc.store();
    let mut version = 2;
    for round in 0..8 {
        for nth in 0..40 {
            // Grows at both ends by turns, so that ranges nest, overlap and leave rows between
            // them.
            let (start, end) = (nth * 20 - round % 3, nth * 20 + round);
            let row = [trip("ghost", &[start, end.max(start + 1)], version)];
            desc.runtime.block_on(desc_store.apply(&row)).unwrap();
            asc.runtime.block_on(asc_store.apply(&row)).unwrap();
            version += 2;
        }
        for minute in 0..800 {
            let found = desc.runtime.block_on(desc_store.covering("ghost", at(minute))).unwrap();
            let expected = asc.runtime.block_on(asc_store.covering("ghost", at(minute))).unwrap();
            assert_eq!(found, expected, "minute {minute} of round {round}");
        }
    }
}
