//! A log in pieces: replayed in any order, the pieces give the same spans; in the log's order, also
//! the same ids.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use tstar::internals::model::scalar::{DeviceTime, Version};
use tstar::internals::segment::{Segment, SegmentRules, Timeline};
use tstar::internals::store::memory::{ApplyRows as _, MemoryStore};
use tstar::internals::store::{Kinds, Order, TripRow, TripStore};
use tstar::internals::timeline::{LegFilter, READINGS, Reading, Sample};

use crate::support::block_on;
use tstar_sim::model::spans::spans;

const MINUTE: i64 = 60_000;
/// 2026-11-20T23:00:00Z: an hour before a midnight.
const EVENING: i64 = 1_795_215_600_000;
const DEVICE: &str = "truck-1";
/// Version of the first record.
const BASE: i64 = 1000;

fn sample(time_ms: i64) -> Sample {
    Sample::new(DeviceTime(time_ms), (525_170_000, 134_050_000), [Reading::ABSENT; READINGS])
}

/// Reads a piece of a log as a worker that knows nothing but the store; flushes after `each`
/// records.
async fn read(store: &MemoryStore, log: &[i64], piece: Range<usize>, each: usize) {
    let rules = SegmentRules::default();
    let mut timeline = Timeline::default();
    let version = |offset: usize| BASE + 2 * i64::try_from(offset).unwrap();
    for offset in piece.clone() {
        let time_ms = log[offset];
        let version = Version(version(offset));
        let mut load = timeline.days_to_load(&rules, DeviceTime(time_ms));
        let (mut trips, mut read) = (Vec::new(), 0);
        while let Some(&day) = load.days().get(read) {
            for row in store.rows_of_day(DEVICE, day).await.unwrap() {
                if row.version >= version {
                    load.add_around(&rules, row.start_ms, row.end_ms);
                }
                trips.push(row.to_segment(&rules).unwrap());
            }
            read += 1;
        }
        timeline.insert_loaded(&rules, load.days(), trips, version);
        timeline.absorb(&rules, Sample { version, ..sample(time_ms) }, None);
        if offset % each == 0 || offset + 1 == piece.end {
            let taken = timeline.take_groups(true);
            let changed = taken.iter().flat_map(|group| &group.segments);
            let row = |trip: &&Segment| TripRow::from_segment(DEVICE, trip, LegFilter::default());
            store.apply(&changed.map(row).collect::<Vec<_>>()).await.unwrap();
            timeline.evict();
        }
    }
}

async fn all(store: &MemoryStore) -> Vec<TripRow> {
    store
        .range(DEVICE, Kinds::All, DeviceTime::MIN, DeviceTime::MAX, Order::Asc, 10_000)
        .await
        .unwrap()
}

/// Arrivals, the cuts between pieces, and how far each piece reaches back into the one before.
fn logs() -> impl Strategy<Value = (Vec<i64>, Vec<(prop::sample::Index, usize)>, usize)> {
    let arrivals = prop::collection::vec(0..240_i64, 1..120);
    let cuts = prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize), 0..8);
    (arrivals, cuts, 1..12_usize).prop_map(|(minutes, cuts, each)| {
        (minutes.into_iter().map(|minute| EVENING + minute * MINUTE).collect(), cuts, each)
    })
}

fn pieces(log: &[i64], cuts: &[(prop::sample::Index, usize)]) -> Vec<Range<usize>> {
    let cuts: BTreeMap<usize, usize> =
        cuts.iter().map(|(at, back)| (at.index(log.len()), *back)).collect();
    let mut starts: Vec<_> = cuts.into_iter().collect();
    starts.insert(0, (0, 0));
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([log.len()]);
    let piece = |((at, back), end): (&(usize, usize), usize)| at.saturating_sub(*back)..end;
    starts.iter().zip(ends).map(piece).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_in_the_order_of_the_log_give_the_same_rows((log, cuts, each) in logs()) {
        block_on(async {
            let (whole, cut) = (MemoryStore::default(), MemoryStore::default());
            read(&whole, &log, 0..log.len(), usize::MAX).await;
            for piece in pieces(&log, &cuts) {
                read(&cut, &log, piece, each).await;
            }
            let expected = all(&whole).await;
            prop_assert_eq!(&all(&cut).await, &expected);
            // A replay of any of them changes nothing.
            for piece in pieces(&log, &cuts).into_iter().rev() {
                read(&cut, &log, piece, each).await;
            }
            prop_assert_eq!(&all(&cut).await, &expected);
            Ok(())
        })?;
    }

    #[test]
    fn pieces_sent_in_any_order_give_the_same_spans(
        (log, cuts, each) in logs(),
        order in prop::collection::vec(any::<u64>(), 9),
    ) {
        let mut pieces = pieces(&log, &cuts);
        let mut order = order.into_iter().cycle();
        pieces.sort_by_cached_key(|_| order.next());
        // Sent again they are new records.
        let sent: Vec<i64> = pieces.into_iter().flat_map(|piece| log[piece].to_vec()).collect();
        let max_gap = SegmentRules::default().max_gap_ms;
        block_on(async {
            let store = MemoryStore::default();
            read(&store, &sent, 0..sent.len(), each).await;
            let rows = all(&store).await;
            let span = |row: &TripRow| (row.start_ms.ms(), row.end_ms.ms());
            let found: Vec<_> = rows.iter().map(span).collect();
            let expected = spans(&log, max_gap);
            let expected: Vec<_> = expected.iter().map(|it| (it.start, it.end)).collect();
            prop_assert_eq!(found, expected);
            let ids: Vec<_> = rows.iter().map(|row| row.t_star_ms.ms()).collect();
            let by_sent: Vec<_> = spans(&sent, max_gap).iter().map(|it| it.t_star).collect();
            prop_assert_eq!(ids, by_sent);
            Ok(())
        })?;
    }
}
