//! The rows that a read returns, in bytes.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use scylla::cluster::metadata::{CollectionType, ColumnType};

use super::data::{Bytes, Cells, Component, Key, Partition, Place, Replica, Row, Slice};
use super::plan::{SelectPlan, Table};
use super::syntax::Selector;

/// Where the next page begins: a token and a partition key, the last row of that partition that was
/// returned, and how many rows the limit leaves.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cursor {
    token: u64,
    key: Key,
    after: Option<Key>,
    left: usize,
}

/// The row of a partition with static columns alone.
static NO_ROW: (Key, Row) = (Key::new(), Row { marker: None, cells: Cells::new() });

/// A row: the length and the bytes of each column.
pub type Encoded = Vec<u8>;

/// A read of a page.
pub struct Page<'a> {
    pub table: (usize, &'a Table),
    pub select: &'a SelectPlan,
    pub slice: Slice,
    pub limit: usize,
    pub rows: usize,
    pub from: Option<Cursor>,
}

impl Page<'_> {
    /// The page of what replicas have together, and where the next one begins. It may be empty.
    pub fn read(&self, replicas: &[Replica]) -> (Vec<Encoded>, Option<Cursor>) {
        let index = self.table.0;
        let from = self.from.as_ref().map(|from| (index, from.token, from.key.clone()));
        let places = replicas.iter().flat_map(|replica| replica.places(index, from.as_ref()));
        let places: BTreeSet<&Place> = places.collect();
        if self.select.is_aggregate() {
            let all = places.into_iter().map(|place| (place, merged(replicas, place)));
            return (vec![self.aggregates(all)], None);
        }
        let mut left = self.from.as_ref().map_or(self.limit, |from| from.left);
        let mut found = Vec::new();
        for place in places {
            let partition = merged(replicas, place);
            let is_first = self.from.as_ref().is_some_and(|of| of.key == place.2);
            let from = self.from.as_ref().filter(|_| is_first);
            let mut last = from.and_then(|from| from.after.clone());
            for (key, row) in self.rows(&partition, last.as_ref()) {
                if left == 0 {
                    return (found, None);
                }
                if found.len() == self.rows {
                    let (_, token, of) = place.clone();
                    return (found, Some(Cursor { token, key: of, after: last, left }));
                }
                found.push(self.encoded(place, &partition, (key, row)));
                last = Some(key.clone());
                left -= 1;
            }
        }
        (found, None)
    }

    /// Live rows of a partition after a key, in the order of the read. A partition with static
    /// columns alone has one row, whose other columns are null, unless rows are restricted.
    fn rows<'p>(&self, partition: &'p Partition, after: Option<&Key>) -> Vec<(&'p Key, &'p Row)> {
        let is_read = |(key, row): &(&Key, &Row)| self.slice.contains(key) && row.is_live();
        let range = match (after, self.select.descends) {
            (None, _) => (Bound::Unbounded, Bound::Unbounded),
            (Some(key), false) => (Bound::Excluded(key), Bound::Unbounded),
            (Some(key), true) => (Bound::Unbounded, Bound::Excluded(key)),
        };
        let rows = partition.rows.range::<Key, _>(range).map(|(key, row)| (key, &**row));
        let mut rows: Vec<_> = rows.filter(is_read).collect();
        if self.select.descends {
            rows.reverse();
        }
        let has_static = partition.statics.values().any(|cell| cell.value.is_some());
        let is_empty = !partition.rows.values().any(|row| row.is_live());
        if has_static && is_empty && self.slice.is_everything() && after.is_none() {
            rows.push((&NO_ROW.0, &NO_ROW.1));
        }
        if self.select.distinct {
            rows.truncate(usize::from(after.is_none()));
        }
        rows
    }

    fn encoded(&self, place: &Place, partition: &Partition, row: (&Key, &Row)) -> Encoded {
        let mut encoded = Encoded::new();
        for (column, _) in &self.select.columns {
            put(&mut encoded, self.table.1.value(*column, place, partition, row).as_deref());
        }
        encoded
    }

    /// The greatest values of columns over all rows, and how many are not null, as one row.
    fn aggregates<'p>(&self, all: impl Iterator<Item = (&'p Place, Arc<Partition>)>) -> Encoded {
        let table = self.table.1;
        let mut found = vec![(None, 0); self.select.columns.len()];
        for (place, partition) in all {
            for (key, row) in self.rows(&partition, None) {
                for ((column, _), (greatest, count)) in self.select.columns.iter().zip(&mut found) {
                    let value = table.value(*column, place, &partition, (key, row));
                    let kind = &table.columns[*column].kind;
                    *count += i64::from(value.is_some());
                    let value = value.and_then(|bytes| Component::read(&bytes, kind));
                    *greatest = std::mem::take(greatest).max(value);
                }
            }
        }
        let mut encoded = Encoded::new();
        for ((column, shown), (greatest, count)) in self.select.columns.iter().zip(found) {
            let kind = &table.columns[*column].kind;
            match shown {
                Selector::Count => put(&mut encoded, Some(&i64::to_be_bytes(count))),
                _ => put(&mut encoded, greatest.and_then(|it| it.bytes(kind)).as_deref()),
            }
        }
        encoded
    }
}

/// What replicas have of a partition together. Most of the time they have the same.
fn merged(replicas: &[Replica], place: &Place) -> Arc<Partition> {
    let mut partitions = replicas.iter().map(|replica| replica.partition(place));
    let first = partitions.next().unwrap_or_default();
    partitions.fold(
        first,
        |merged, other| {
            if merged == other { merged } else { merged.merged(&other).into() }
        },
    )
}

fn put(encoded: &mut Encoded, value: Option<&[u8]>) {
    let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("values are small"));
    encoded.extend_from_slice(&length.to_be_bytes());
    encoded.extend_from_slice(value.unwrap_or_default());
}

impl Table {
    /// The value of a column in a row; `None` is null.
    pub fn value(
        &self,
        column: usize,
        place: &Place,
        partition: &Partition,
        (key, row): (&Key, &Row),
    ) -> Option<Bytes> {
        let of = &self.columns[column];
        if let Some(at) = self.partition.iter().position(|it| *it == column) {
            return place.2[at].bytes(&of.kind);
        }
        if let Some(at) = self.clustering.iter().position(|it| *it == column) {
            return key.get(at)?.bytes(&of.kind);
        }
        let cells = if of.is_static { &partition.statics } else { &row.cells };
        if !of.has_elements {
            return cells.get(&(column, Vec::new()))?.value.clone();
        }
        elements(cells, column, &of.kind)
    }
}

/// A map of cells as one value: the number of elements, and the keys and values with lengths.
fn elements(cells: &Cells, column: usize, kind: &ColumnType<'_>) -> Option<Bytes> {
    let ColumnType::Collection { typ: CollectionType::Map(keys, _), .. } = kind else {
        return None;
    };
    let of_column = cells.iter().filter(|((of, _), _)| *of == column);
    let mut elements: Vec<_> = of_column
        .filter_map(|((_, element), cell)| Some((element, cell.value.as_ref()?)))
        .collect();
    elements.sort_by_key(|(element, _)| Component::read(element, keys));
    let count = i32::try_from(elements.len()).ok().filter(|count| *count > 0)?;
    let mut encoded = count.to_be_bytes().to_vec();
    for (element, value) in elements {
        put(&mut encoded, Some(element));
        put(&mut encoded, Some(value));
    }
    Some(encoded.into())
}
