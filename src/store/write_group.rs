//! Write groups: what is taken away from a device, and what comes instead.

use super::TripRow;
use crate::model::change::Change;
use crate::model::scalar::Day;
pub use crate::segment::TakenSpan;
use crate::timeline::day_of;

/// Spans of a device that are taken away, and the rows that come instead. A store writes it day by
/// day: all deletes and all rows of a day together, or several rows before the deletes.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteGroup {
    /// The spans that are taken away, those of the rows included.
    pub taken: Vec<TakenSpan>,
    /// The rows that come instead, of one device; at least one.
    pub rows: Vec<TripRow>,
    /// The change events of the rows.
    pub changes: Vec<Change>,
}

fn touches(span: &TakenSpan, day: Day) -> bool {
    (day_of(span.start_ms)..=day_of(span.end_ms)).contains(&day)
}

impl From<TripRow> for WriteGroup {
    /// A row that replaces what lies within its own span.
    fn from(row: TripRow) -> Self {
        let (start_ms, end_ms, version) = (row.start_ms, row.end_ms, row.version);
        let taken = vec![TakenSpan { start_ms, end_ms, version }];
        Self { taken, rows: vec![row], changes: Vec::new() }
    }
}

impl WriteGroup {
    /// The device id.
    #[must_use]
    pub fn device_id(&self) -> &str {
        &self.rows[0].device_id
    }

    /// The UTC days that the spans touch, ascending.
    #[must_use]
    pub fn days(&self) -> Vec<Day> {
        let mut days: Vec<_> = self.taken.iter().flat_map(|span| span.days()).collect();
        days.sort_unstable();
        days.dedup();
        days
    }

    /// The deletes of a day: each at its own version, as one at the highest version would delete
    /// rows between them. One that another makes superfluous is left out.
    pub(crate) fn taken_on(&self, day: Day) -> impl Iterator<Item = &TakenSpan> {
        let needed = |&(nth, span): &(usize, &TakenSpan)| {
            self.taken.iter().enumerate().all(|(other_nth, other)| {
                other_nth == nth
                    || !span.is_within(other)
                    || (other.is_within(span) && nth < other_nth)
            })
        };
        let spans = self.taken.iter().enumerate().filter(needed).map(|(_, span)| span);
        spans.filter(move |span| touches(span, day))
    }

    /// The rows of which a day gets a copy.
    pub(crate) fn rows_on(&self, day: Day) -> impl Iterator<Item = &TripRow> {
        let touches =
            move |row: &&TripRow| (day_of(row.start_ms)..=day_of(row.end_ms)).contains(&day);
        self.rows.iter().filter(touches)
    }

    /// The change events, each with its row.
    pub fn events(&self) -> impl Iterator<Item = (&Change, &TripRow)> {
        self.changes.iter().map(|change| (change, &self.rows[change.row]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::scalar::{DeviceTime, Version};

    fn span(start_ms: i64, end_ms: i64, version: i64) -> TakenSpan {
        let (start_ms, end_ms) = (DeviceTime(start_ms), DeviceTime(end_ms));
        TakenSpan { start_ms, end_ms, version: Version(version) }
    }

    #[test]
    fn a_day_gets_every_delete_that_no_other_contains() {
        const DAY: i64 = 86_400_000;
        let taken = vec![
            span(10, DAY + 10, 4),
            span(20, 30, 4),
            span(20, 30, 6),
            span(DAY, DAY + 20, 2),
            span(20, 30, 6),
            span(3 * DAY, 3 * DAY, 8),
        ];
        let group = WriteGroup { taken, rows: Vec::new(), changes: Vec::new() };
        assert_eq!(group.days(), [0, 1, 3].map(Day));
        let on = |day| group.taken_on(Day(day)).copied().collect::<Vec<_>>();
        assert_eq!(on(0), [span(10, DAY + 10, 4), span(20, 30, 6)]);
        assert_eq!(on(1), [span(10, DAY + 10, 4), span(DAY, DAY + 20, 2)]);
        assert_eq!((on(2), on(3)), (vec![], vec![span(3 * DAY, 3 * DAY, 8)]));
    }
}
