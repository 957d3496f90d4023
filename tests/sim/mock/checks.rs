//! What holds in the end.

use std::collections::BTreeSet;

use tstar::internals::model::scalar::DeviceTime;
use tstar::internals::store::{Kinds, Order, TripRow, TripStore};

use super::cluster::{FEED, LETTERS};
use super::group::Group;
use super::log::{DEVICES, Truth};
use super::member::History;
use crate::protocol::log::name;
use crate::protocol::outputs::{Event, Letter};
use crate::support::block_on;

/// The group reads the rest, and leaves; then nothing is skipped, and everything is as the model
/// says.
pub fn end(mut group: Group<'_>) {
    let feeding = group.feeding.take().expect("records are sent until now");
    let truth = Truth::new(group.cluster, feeding);
    group.until("all is stored", &mut |_| (), |group| has_all(&group.shared.seen(), &truth));
    let live = group.live.len();
    (0..live).for_each(|_| group.leave(0));
    assert_eq!(group.take_gone(), live, "a member left before all was stored and committed");
    let committed = group.cluster.committed().expect("the brokers answer");
    assert!(committed.into_values().eq(truth.ends.iter().copied()), "all is committed");
    let seen = group.shared.seen();
    let reads = check_reads(&seen, &truth);
    check_counts(&seen);
    let records: i64 = truth.ends.iter().sum();
    println!("{records} records, {} read again; {:?}", reads - records, seen.events);
    assert_eq!(seen.events.get("stopped or expired"), None);
    drop(seen);
    check_trips(&group, &truth);
}

/// Whether the workers have acknowledged every record.
fn has_all(seen: &History, truth: &Truth) -> bool {
    (0..).zip(&truth.ends).all(|(partition, end)| {
        let mut of = seen.handles.iter().filter(|(handle, _)| handle.partition() == partition);
        of.any(|(handle, _)| handle.acknowledged().get() == *end)
    })
}

/// The workers of each partition have read every record. Returns how many they have read.
fn check_reads(seen: &History, truth: &Truth) -> i64 {
    let mut reads = 0;
    for (partition, end) in (0..).zip(&truth.ends) {
        let of = seen.handles.iter().filter(|(handle, _)| handle.partition() == partition);
        let mut spans: Vec<_> =
            of.map(|(handle, from)| (*from, handle.progress().next())).collect();
        spans.sort_unstable();
        let mut read = 0;
        for (from, next) in spans {
            assert!(from <= read, "partition {partition}: {read} to {from} were skipped");
            read = read.max(next);
            reads += next - from;
        }
        assert_eq!(read, *end, "partition {partition}");
    }
    reads
}

/// I3, for each worker that ended.
fn check_counts(seen: &History) {
    for report in &seen.reports {
        let counts = &report.counts;
        assert!(report.error.is_none(), "{report:?}");
        let dropped: u64 = counts.dropped.values().sum();
        assert_eq!(
            counts.delivered,
            counts.applied + counts.duplicates + dropped + counts.dead(),
            "{report:?}"
        );
    }
}

/// Trips, dead letters and events are those of the model.
fn check_trips(group: &Group<'_>, truth: &Truth) {
    let store = &group.shared.store;
    let trips = |device| {
        let all = (DeviceTime::MIN, DeviceTime::MAX);
        block_on(store.range(&name(device), Kinds::All, all.0, all.1, Order::Asc, usize::MAX))
            .unwrap()
    };
    let trips: Vec<TripRow> = DEVICES.flat_map(trips).collect();
    assert_eq!(trips.len(), truth.trips.len());
    for (trip, expected) in trips.iter().zip(&truth.trips) {
        assert_eq!(trip, expected);
    }
    let sent = group.cluster.records(LETTERS);
    let letters: BTreeSet<_> =
        sent.iter().map(|(.., record)| Letter::parse(record).place).collect();
    assert!(letters.iter().eq(&truth.letters), "{letters:?}, {:?}", truth.letters);
    let announced = |event| match event {
        Event::Trip(of) => Some((of.device, of.t_star, of.version)),
        Event::Forgotten { .. } => None,
    };
    let events = group.cluster.records(FEED);
    let events: BTreeSet<_> =
        events.iter().filter_map(|(.., record)| announced(Event::parse(record))).collect();
    for trip in &trips {
        let device = trip.device_id.as_bytes()[0];
        let is_known = events.contains(&(device, trip.t_star_ms, trip.version.get()));
        assert!(is_known, "not announced: {trip:?}");
    }
    println!("{} trips, {} dead letters, {} events", trips.len(), letters.len(), events.len());
}
