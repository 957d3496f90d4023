//! Pages through the days of a device for a range query: the first trips of a device with thousands
//! of days need only a few of them.

use super::{Order, TripRow};
use crate::codec::trip_row::resolve_overlaps;
use crate::model::scalar::{Day, DeviceTime};
use crate::timeline::day_of;

/// Size of the first page and of the largest, days. Each page is twice as large as the one before.
const PAGE_SIZES: (usize, usize) = (16, 1024);

/// The days that are still to be read.
pub(super) struct Days {
    from: Day,
    upto: Day,
    order: Order,
    page_size: usize,
    is_done: bool,
}

impl Days {
    /// Days are whole days since 1970; both bounds are inclusive.
    pub(super) fn new(from: Day, upto: Day, order: Order) -> Self {
        Self { from, upto, order, page_size: PAGE_SIZES.0, is_done: false }
    }

    /// The remaining span and the maximum number of days to read; `None` at the end.
    pub(super) fn next_page(&self) -> Option<((Day, Day), usize)> {
        let has_more = !self.is_done && self.from <= self.upto;
        has_more.then_some(((self.from, self.upto), self.page_size))
    }

    /// Records the days of the page that was read, in the requested order.
    pub(super) fn record_page(&mut self, days: &[Day]) {
        self.is_done = days.len() < self.page_size;
        self.page_size = (self.page_size * 2).min(PAGE_SIZES.1);
        let Some(&last) = days.last() else { return };
        match self.order {
            Order::Asc => self.from = last + 1,
            Order::Desc => self.upto = last - 1,
        }
    }
}

/// The trips that a range query returns for one day, in the requested order. A trip is returned
/// with the first of its days that lies in the range, so each trip is returned once, and the days
/// yield the trips in order of their start.
pub(super) fn trips_of_day(
    day: Day,
    rows: Vec<TripRow>,
    (first_day, upto_ms): (Day, DeviceTime),
    order: Order,
) -> Vec<TripRow> {
    let mut rows = resolve_overlaps(rows);
    rows.retain(|row| row.start_ms <= upto_ms && day_of(row.start_ms).max(first_day) == day);
    if order == Order::Desc {
        rows.reverse();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
