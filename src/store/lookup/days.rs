//! Pages through the days of a device for a range query: the first trips of a device with thousands
//! of days need only a few of them.

use crate::codec::trip_row::resolve_overlaps;
use crate::model::scalar::{Day, DeviceTime};
use crate::store::skip::is_whole;
use crate::store::{Order, TripRow};
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

/// Adds the rows of the next day to the trips that a range query returns, in the requested order.
/// The copy of a trip is skipped if an earlier day had it. Days are read at different moments: of
/// overlapping trips the one with the highest version stands, whichever of its days has it.
pub(in crate::store) fn add_day(
    found: &mut Vec<TripRow>,
    rows: Vec<TripRow>,
    upto_ms: DeviceTime,
    order: Order,
) {
    let mut rows = resolve_overlaps(rows);
    rows.retain(|row| row.start_ms <= upto_ms);
    if order == Order::Desc {
        rows.reverse();
    }
    for row in rows {
        let is_newer = |last: &mut TripRow| last.overlaps(&row) && last.version < row.version;
        while found.pop_if(is_newer).is_some() {}
        if found.last().is_none_or(|last| !last.overlaps(&row)) {
            found.push(row);
        }
    }
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

/// The whole trip that is nearest to a time, of the nearest rows of its day. Only the paths of rows
/// that may be it are decoded.
pub(in crate::store) fn nearest(mut rows: Vec<TripRow>, order: Order) -> Option<TripRow> {
    loop {
        let mut trips = resolve_overlaps(rows.iter().collect::<Vec<_>>()).into_iter();
        let found = match order {
            Order::Asc => trips.next(),
            Order::Desc => trips.next_back(),
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
    use crate::segment::MintPoints;
    use crate::timeline::LegFilter;

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
        let sample = |hour: &i64| {
            let none = [crate::timeline::Reading::ABSENT; crate::timeline::READINGS];
            crate::timeline::Sample::new(DeviceTime(hour * 3_600_000), (0, 0), none)
        };
        let path = crate::timeline::Path::from_sorted(hours.iter().map(sample)).unwrap();
        let (t_star, version) = (path.first().time_ms, Version(version));
        let ids = MintPoints::new(t_star, version);
        TripRow::from_path("truck-17", &path, (&ids, version), LegFilter::default())
    }

    #[test]
    fn a_damaged_row_hides_no_neighbour() {
        let (early, near, late) = (trip(&[5], 4), trip(&[10, 12], 2), trip(&[20], 6));
        let damaged = TripRow { path: vec![9], ..trip(&[9, 13], 8) };
        let rows = |rows: &[&TripRow]| rows.iter().copied().cloned().collect::<Vec<_>>();
        let before = rows(&[&early, &damaged, &near]);
        assert_eq!(nearest(before, Order::Desc).as_ref(), Some(&near));
        let after = rows(&[&damaged, &near, &late]);
        assert_eq!(nearest(after, Order::Asc).as_ref(), Some(&near));
        // An older version of a trip does not stand for it.
        let newer = trip(&[8, 14], 10);
        assert_eq!(nearest(rows(&[&near, &newer]), Order::Desc).as_ref(), Some(&newer));
        assert_eq!(nearest(rows(&[&damaged]), Order::Asc), None);
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
                let mut found = Vec::new();
                for rows in days {
                    add_day(&mut found, rows, DeviceTime::MAX, order);
                }
                assert_eq!(found.iter().collect::<Vec<_>>(), want, "{order:?}");
            }
        }
    }
}
