//! Pages through the days of a device for a range query: the first trips of a device with thousands
//! of days need only a few of them.

use crate::codec::trip_row::resolve_overlaps;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::skip::is_whole;
use crate::store::{Kinds, Order, TripRow};
use crate::timeline::{DAY_MS, day_of};

/// Size of the first page and of the largest, days. Each page is twice as large as the one before.
const PAGE_SIZES: (usize, usize) = (16, 1024);

/// The first and the last day that a device time may have.
pub(in crate::store) const ALL_DAYS: (Day, Day) = (Day::MIN, Day::MAX);

/// The days that are still to be read.
pub(in crate::store) struct Days {
    from: Day,
    upto: Day,
    order: Order,
    page_size: usize,
    is_done: bool,
}

impl Days {
    /// Days are whole days since 1970; both bounds are inclusive.
    pub(in crate::store) fn new(from: Day, upto: Day, order: Order) -> Self {
        Self { from, upto, order, page_size: PAGE_SIZES.0, is_done: false }
    }

    /// The remaining span and the maximum number of days to read; `None` at the end.
    pub(in crate::store) fn next_page(&self) -> Option<((Day, Day), usize)> {
        let has_more = !self.is_done && self.from <= self.upto;
        has_more.then_some(((self.from, self.upto), self.page_size))
    }

    /// Records the days of the page that was read, in the requested order.
    pub(in crate::store) fn record_page(&mut self, days: &[Day]) {
        self.is_done = days.len() < self.page_size;
        self.page_size = (self.page_size * 2).min(PAGE_SIZES.1);
        let Some(&last) = days.last() else { return };
        match self.order {
            Order::Asc => self.from = last + 1,
            Order::Desc => self.upto = last - 1,
        }
    }
}

/// The segments that a range query returns, in its order, from days that are added in that order.
#[derive(Debug)]
pub(in crate::store) struct Listing {
    kinds: Kinds,
    upto_ms: DeviceTime,
    order: Order,
    /// Disjoint. Up to `settled`, those that no further day can change, of the wanted kinds only.
    found: Vec<TripRow>,
    settled: usize,
    last: Option<Day>,
}

impl Listing {
    /// A list of nothing yet.
    pub(in crate::store) fn new(kinds: Kinds, upto_ms: DeviceTime, order: Order) -> Self {
        Self { kinds, upto_ms, order, found: Vec::new(), settled: 0, last: None }
    }

    /// Number of segments of the wanted kinds.
    pub(in crate::store) fn len(&self) -> usize {
        let open = self.found[self.settled..].iter();
        self.settled + open.filter(|row| self.kinds.has(row.kind)).count()
    }

    /// At most `limit` of them.
    pub(in crate::store) fn finish(mut self, limit: usize) -> Vec<TripRow> {
        let kinds = self.kinds;
        self.found.retain(|row| kinds.has(row.kind));
        self.found.truncate(limit);
        self.found
    }

    /// The day before, if one of these rows of the next day overlaps another segment of it.
    pub(in crate::store) fn torn(&self, rows: &[TripRow]) -> Option<Day> {
        let is_torn = |row: &TripRow| {
            let same = |other: &TripRow| {
                (other.start_ms, other.end_ms, other.version)
                    == (row.start_ms, row.end_ms, row.version)
            };
            let near = self.found.iter().rev().take_while(|other| match self.order {
                Order::Asc => other.end_ms >= row.start_ms,
                Order::Desc => other.start_ms <= row.end_ms,
            });
            near.into_iter().any(|other| other.overlaps(row) && !same(other))
        };
        self.last.filter(|_| rows.iter().any(is_torn))
    }

    /// Replaces the rows of the last day, which was read again.
    pub(in crate::store) fn replace(&mut self, day: Day, rows: Vec<TripRow>) {
        while self.found.pop_if(|row| row.days().any(|of| of == day)).is_some() {}
        self.add(day, rows);
    }

    /// Adds the rows of the next day. The copy of a segment is left out if an earlier day had it.
    /// Of overlapping segments the one with the highest version stays.
    pub(in crate::store) fn add(&mut self, day: Day, rows: Vec<TripRow>) {
        let mut rows = resolve_overlaps(rows);
        rows.retain(|row| row.start_ms <= self.upto_ms);
        if self.order == Order::Desc {
            rows.reverse();
        }
        for row in rows {
            let is_newer = |last: &mut TripRow| last.overlaps(&row) && last.version < row.version;
            while self.found.pop_if(is_newer).is_some() {}
            if self.found.last().is_none_or(|last| !last.overlaps(&row)) {
                self.found.push(row);
            }
        }
        self.last = Some(day);
        self.settle(day);
    }

    /// Leaves out what is not wanted, of segments that no longer touch the last day.
    fn settle(&mut self, day: Day) {
        let kinds = self.kinds;
        let mut rest = self.found.split_off(self.settled.min(self.found.len()));
        let open = rest.iter().position(|row| row.days().any(|of| of == day));
        let open = rest.split_off(open.unwrap_or(rest.len()));
        self.found.extend(rest.into_iter().filter(|row| kinds.has(row.kind)));
        self.settled = self.found.len();
        self.found.extend(open);
    }
}

/// Whether any of the rows of a day overlap.
pub(in crate::store) fn overlap(rows: &[TripRow]) -> bool {
    let mut spans: Vec<_> = rows.iter().map(|row| (row.start_ms, row.end_ms)).collect();
    spans.sort_unstable();
    spans.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}

/// The span of the days after that of a time, or in descending order before it; `None` if there
/// are none.
pub(in crate::store) fn beyond(
    time_ms: DeviceTime,
    order: Order,
) -> Option<(DeviceTime, DeviceTime)> {
    let start_ms = day_of(time_ms).start_ms().ms();
    Some(match order {
        Order::Asc => (DeviceTime(start_ms.checked_add(DAY_MS)?), DeviceTime::MAX),
        Order::Desc => (DeviceTime::MIN, DeviceTime(start_ms.checked_sub(1)?)),
    })
}

/// The whole segment of some kinds that is nearest to a time, of the nearest rows of its day. Only
/// the paths of rows that may be it are decoded.
pub(in crate::store) fn nearest(
    mut rows: Vec<TripRow>,
    kinds: Kinds,
    order: Order,
) -> Option<TripRow> {
    loop {
        let segments = resolve_overlaps(rows.iter().collect::<Vec<_>>()).into_iter();
        let mut segments = segments.filter(|row| kinds.has(row.kind));
        let found = match order {
            Order::Asc => segments.next(),
            Order::Desc => segments.next_back(),
        }?;
        let at = rows.iter().position(|row| std::ptr::eq(row, found))?;
        let found = rows.swap_remove(at);
        if is_whole(&found) {
            return Some(found);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::model::scalar::Version;
    use crate::segment::{Class, Kind, MintPoints};
    use crate::timeline::{LegFilter, Sample};

    /// Pages through `days` like a store; returns the days in the order they were read, and the
    /// sizes of the pages.
    fn read_all(days: &[Day], span: (Day, Day), order: Order) -> (Vec<Day>, Vec<usize>) {
        let mut walk = Days::new(span.0, span.1, order);
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        while let Some(((from, upto), limit)) = walk.next_page() {
            let mut page: Vec<_> =
                days.iter().copied().filter(|day| (from..=upto).contains(day)).collect();
            if order == Order::Desc {
                page.reverse();
            }
            page.truncate(limit);
            sizes.push(page.len());
            walk.record_page(&page);
            found.append(&mut page);
        }
        (found, sizes)
    }

    #[test]
    fn every_day_is_read_once_in_either_order() {
        let days: Vec<_> = (0..100).map(|day| Day(day * 3)).collect();
        let (found, sizes) = read_all(&days, (Day::MIN, Day::MAX), Order::Asc);
        assert_eq!((found, sizes), (days.clone(), vec![16, 32, 52]));
        let (mut found, _) = read_all(&days, (Day(30), Day(60)), Order::Desc);
        found.reverse();
        assert_eq!(found, days[10..=20]);
        let whole_pages: Vec<_> = (0..48).map(Day).collect();
        assert_eq!(read_all(&whole_pages, (Day(0), Day(47)), Order::Desc).0.len(), 48);
        assert_eq!(read_all(&whole_pages, (Day(50), Day(40)), Order::Asc).0, [Day(0); 0]);
    }

    /// A trip of these hours at a version.
    fn trip(hours: &[i64], version: i64) -> TripRow {
        segment(Class::Moving, hours, version)
    }

    fn segment(class: Class, hours: &[i64], version: i64) -> TripRow {
        let sample = |hour: &i64| {
            let none = [crate::timeline::Reading::ABSENT; crate::timeline::READINGS];
            let sample = Sample::new(DeviceTime(hour * 3_600_000), (0, 0), none);
            Sample { class, ..sample }
        };
        let path = crate::timeline::Path::from_sorted(hours.iter().map(sample)).unwrap();
        let (t_star, version) = (path.first().time_ms, Version(version));
        let ids = MintPoints::new(t_star, version);
        TripRow::from_path("truck-17", &path, (&ids, version), LegFilter::default())
    }

    /// A stop of these hours at a version.
    fn stop(hours: &[i64], version: i64) -> TripRow {
        TripRow { kind: Kind::Stop, ..segment(Class::Separator, hours, version) }
    }

    #[test]
    fn segments_of_the_other_kind_are_left_out() {
        let (night, drive, rest) = (stop(&[1, 6], 2), trip(&[7, 9], 4), stop(&[10, 12], 6));
        let (ride, next) = (trip(&[20, 30], 8), stop(&[31, 32], 10));
        for (kinds, want) in [
            (Kinds::All, vec![&night, &drive, &rest, &ride, &next]),
            (Kinds::Trips, vec![&drive, &ride]),
            (Kinds::Stops, vec![&night, &rest, &next]),
        ] {
            let mut listing = Listing::new(kinds, DeviceTime::MAX, Order::Asc);
            let first = [&night, &drive, &rest, &ride].map(Clone::clone);
            listing.add(Day(0), first.to_vec());
            listing.add(Day(1), vec![ride.clone(), next.clone()]);
            assert_eq!(listing.len(), want.len());
            assert_eq!(listing.finish(9).iter().collect::<Vec<_>>(), want, "{kinds}");
        }
        let rows = vec![night.clone(), drive.clone(), rest];
        assert_eq!(nearest(rows.clone(), Kinds::Trips, Order::Desc), Some(drive));
        assert_eq!(nearest(rows, Kinds::Stops, Order::Asc), Some(night));
    }

    #[test]
    fn a_change_of_two_days_that_was_half_read_is_seen() {
        let whole = trip(&[20, 22, 26, 30], 4);
        let (evening, morning) = (trip(&[20, 22], 8), trip(&[26, 30], 8));
        for (order, first, second) in [(Order::Asc, 0, 1), (Order::Desc, 1, 0)] {
            let mut listing = Listing::new(Kinds::All, DeviceTime::MAX, order);
            listing.add(Day(first), vec![whole.clone()]);
            assert_eq!(listing.torn(std::slice::from_ref(&whole)), None);
            let parts = if first == 0 { [&evening, &morning] } else { [&morning, &evening] };
            let rows = vec![parts[1].clone()];
            assert_eq!(listing.torn(&rows), Some(Day(first)));
            listing.replace(Day(first), vec![parts[0].clone()]);
            assert_eq!(listing.torn(&rows), None);
            listing.add(Day(second), rows);
            assert_eq!(listing.finish(9).iter().collect::<Vec<_>>(), parts);
        }
    }

    #[test]
    fn a_day_that_was_half_read_is_seen() {
        let (whole, parts) = (trip(&[1, 9], 4), [trip(&[1, 2], 8), trip(&[9], 8)]);
        assert!(!overlap(&parts) && !overlap(&[]));
        // The page with the whole was read before the change, the next one after it.
        assert!(overlap(&[whole, parts[1].clone()]));
    }

    #[test]
    fn a_damaged_row_hides_no_neighbour() {
        let (early, near, late) = (trip(&[5], 4), trip(&[10, 12], 2), trip(&[20], 6));
        let damaged = TripRow { path: vec![9], ..trip(&[9, 13], 8) };
        let rows = |rows: &[&TripRow]| rows.iter().copied().cloned().collect::<Vec<_>>();
        let before = rows(&[&early, &damaged, &near]);
        assert_eq!(nearest(before, Kinds::All, Order::Desc).as_ref(), Some(&near));
        let after = rows(&[&damaged, &near, &late]);
        assert_eq!(nearest(after, Kinds::All, Order::Asc).as_ref(), Some(&near));
        // An older version of a trip does not stand for it.
        let newer = trip(&[8, 14], 10);
        assert_eq!(
            nearest(rows(&[&near, &newer]), Kinds::Trips, Order::Desc).as_ref(),
            Some(&newer)
        );
        assert_eq!(nearest(rows(&[&damaged]), Kinds::All, Order::Asc), None);
    }

    #[test]
    fn a_trip_is_listed_while_the_days_that_it_touches_change() {
        let (before, after) = (trip(&[25, 30], 2), trip(&[20, 25, 30], 8));
        let (evening, merged) = (trip(&[20], 4), trip(&[20, 22, 25, 30], 8));
        // The days in order, and what a list of them shows.
        for (days, want) in [
            ([vec![], vec![before.clone()]], vec![&before]),
            ([vec![], vec![after.clone()]], vec![&after]),
            ([vec![after.clone()], vec![before.clone()]], vec![&after]),
            ([vec![after.clone()], vec![after.clone()]], vec![&after]),
            ([vec![evening.clone()], vec![before.clone()]], vec![&evening, &before]),
            ([vec![evening.clone()], vec![merged.clone()]], vec![&merged]),
            ([vec![merged.clone()], vec![before.clone()]], vec![&merged]),
        ] {
            for order in [Order::Asc, Order::Desc] {
                let (mut days, mut want) = (days.clone(), want.clone());
                if order == Order::Desc {
                    days.reverse();
                    want.reverse();
                }
                let mut listing = Listing::new(Kinds::All, DeviceTime::MAX, order);
                for (nth, rows) in (0..).zip(days) {
                    listing.add(Day(if order == Order::Asc { nth } else { 1 - nth }), rows);
                }
                assert_eq!(listing.finish(9).iter().collect::<Vec<_>>(), want, "{order:?}");
            }
        }
    }
}
