//! The walk of a range over the days of a device, some at a time: a few trips of a device with
//! thousands of days cost a few of its days.

use super::{Order, TripRow};
use crate::codec::trip_row::resolve_overlaps;
use crate::timeline::day_of;

/// Days asked for at first, and at most; each time twice as many.
const CHUNK: (usize, usize) = (16, 1024);

/// Which days are to be asked for.
pub(super) struct Days {
    from: i64,
    upto: i64,
    order: Order,
    chunk: usize,
    is_done: bool,
}

impl Days {
    /// From one day to another, both inclusive.
    pub(super) fn new(from: i64, upto: i64, order: Order) -> Self {
        Self { from, upto, order, chunk: CHUNK.0, is_done: false }
    }

    /// The span that is left, and how many days of it to ask for; `None` at the end.
    pub(super) fn next_page(&self) -> Option<((i64, i64), usize)> {
        let is_left = !self.is_done && self.from <= self.upto;
        is_left.then_some(((self.from, self.upto), self.chunk))
    }

    /// These were found, in the order of the walk.
    pub(super) fn record_page(&mut self, days: &[i64]) {
        self.is_done = days.len() < self.chunk;
        self.chunk = (self.chunk * 2).min(CHUNK.1);
        let Some(last) = days.last() else { return };
        match self.order {
            Order::Asc => self.from = last + 1,
            Order::Desc => self.upto = last - 1,
        }
    }
}

/// Of the rows of one day, the trips that a range shows in it, in the order asked for. Each trip
/// shows in the first of its days that the range has: so every trip comes once, and the days bring
/// the trips in order of their start.
pub(super) fn shown_in(
    day: i64,
    rows: Vec<TripRow>,
    (first_day, upto_ms): (i64, i64),
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

    /// Walks over these days, as a store that has them; gives them as they come, and how many
    /// were asked for.
    fn walked(days: &[i64], span: (i64, i64), order: Order) -> (Vec<i64>, Vec<usize>) {
        let mut walk = Days::new(span.0, span.1, order);
        let (mut found, mut asked) = (Vec::new(), Vec::new());
        while let Some(((from, upto), most)) = walk.next_page() {
            let mut some: Vec<_> =
                days.iter().copied().filter(|day| (from..=upto).contains(day)).collect();
            if order == Order::Desc {
                some.reverse();
            }
            some.truncate(most);
            asked.push(some.len());
            walk.record_page(&some);
            found.append(&mut some);
        }
        (found, asked)
    }

    #[test]
    fn every_day_comes_once_in_either_order() {
        let days: Vec<i64> = (0..100).map(|day| day * 3).collect();
        let (found, asked) = walked(&days, (i64::MIN, i64::MAX), Order::Asc);
        assert_eq!((found, asked), (days.clone(), vec![16, 32, 52]));
        let (mut found, _) = walked(&days, (30, 60), Order::Desc);
        found.reverse();
        assert_eq!(found, days[10..=20]);
        let exactly: Vec<i64> = (0..48).collect();
        assert_eq!(walked(&exactly, (0, 47), Order::Desc).0.len(), 48);
        assert_eq!(walked(&exactly, (50, 40), Order::Asc).0, [0_i64; 0]);
    }
}
