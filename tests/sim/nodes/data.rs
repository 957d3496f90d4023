//! What a replica holds: cells with write timestamps, and deletions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

pub type Bytes = Arc<[u8]>;

/// A value of a key, in the order of its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Component {
    Number(i64),
    Text(String),
}

pub type Key = Vec<Component>;

/// A table by its index, a token, and the partition key.
pub type Place = (usize, u64, Key);

/// The place of a partition. Tokens scatter the partitions of a table as a hash does.
pub fn locate(table: usize, key: Key) -> Place {
    let mut token = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |byte: u8| token = (token ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for component in &key {
        match component {
            Component::Number(number) => number.to_be_bytes().into_iter().for_each(&mut mix),
            Component::Text(text) => text.bytes().for_each(&mut mix),
        }
    }
    (table, token, key)
}

/// A cell; without a value it is the tombstone of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub at: i64,
    pub value: Option<Bytes>,
}

impl Cell {
    /// Of two cells the later one wins; with equal timestamps a tombstone, then the greater value.
    fn wins(&self, other: &Self) -> bool {
        let rank = |cell: &Self| (cell.at, cell.value.is_none());
        (rank(self), &self.value) > (rank(other), &other.value)
    }
}

/// A column by its index, and the element if the column is a map of cells; otherwise no bytes.
pub type CellKey = (usize, Vec<u8>);

pub type Cells = BTreeMap<CellKey, Cell>;

/// Rows that begin with some components, and whose next component is within bounds (inclusive if
/// so marked).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    pub equal: Key,
    pub from: Option<(Component, bool)>,
    pub upto: Option<(Component, bool)>,
}

impl Slice {
    pub fn is_everything(&self) -> bool {
        self.equal.is_empty() && self.from.is_none() && self.upto.is_none()
    }

    pub fn contains(&self, key: &[Component]) -> bool {
        let Some(rest) = key.strip_prefix(&self.equal[..]) else { return false };
        let Some(next) = rest.first() else { return true };
        let after =
            |(bound, inclusive): &(Component, bool)| next > bound || *inclusive && next == bound;
        let before =
            |(bound, inclusive): &(Component, bool)| next < bound || *inclusive && next == bound;
        self.from.as_ref().is_none_or(after) && self.upto.as_ref().is_none_or(before)
    }
}

/// Deletes what was written up to a timestamp, in rows that all of the slices contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub slices: Vec<Slice>,
    pub at: i64,
}

impl Deletion {
    fn covers(&self, key: &[Component], at: i64) -> bool {
        at <= self.at && self.slices.iter().all(|slice| slice.contains(key))
    }

    /// Whether it deletes whatever the other one does. Without this, each repair of a part of a
    /// partition would double the deletions of a replica.
    fn includes(&self, other: &Self) -> bool {
        other.at <= self.at && self.slices.iter().all(|slice| other.slices.contains(slice))
    }

    fn is_of_partition(&self) -> bool {
        self.slices.iter().all(Slice::is_everything)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Timestamp of the INSERT that made it a row, even if all of its columns are null.
    pub marker: Option<i64>,
    pub cells: Cells,
}

impl Row {
    pub fn is_live(&self) -> bool {
        self.marker.is_some() || self.cells.values().any(|cell| cell.value.is_some())
    }

    /// The timestamps in it.
    fn stamps(&self) -> impl Iterator<Item = i64> {
        self.marker.into_iter().chain(self.cells.values().map(|cell| cell.at))
    }
}

/// A part of a mutation.
#[derive(Clone, Debug)]
pub enum Change {
    Row(Key, Arc<Row>),
    Statics(Cells),
    Deletion(Deletion),
}

/// Changes of one partition, which a replica applies together.
#[derive(Clone, Debug)]
pub struct Mutation {
    pub place: Place,
    pub changes: Vec<Change>,
}

/// A partition without what its deletions cover. Replicas share rows that are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    pub deletions: Vec<Deletion>,
    pub statics: Cells,
    pub rows: BTreeMap<Key, Arc<Row>>,
}

/// Puts a cell in its place, if it wins. Returns whether another value has its timestamp.
fn reconcile(cells: &mut Cells, key: CellKey, cell: Cell) -> bool {
    let Some(kept) = cells.get_mut(&key) else {
        cells.insert(key, cell);
        return false;
    };
    let differs = kept.at == cell.at && kept.value != cell.value;
    if cell.wins(kept) {
        *kept = cell;
    }
    differs
}

impl Partition {
    /// Applies a change. Returns whether it wrote another value at an existing timestamp.
    pub fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Deletion(deletion) => {
                self.delete(deletion);
                false
            }
            Change::Statics(cells) => {
                let mut differs = false;
                for (key, cell) in cells {
                    let covers = |it: &Deletion| it.is_of_partition() && cell.at <= it.at;
                    if !self.deletions.iter().any(covers) {
                        differs |= reconcile(&mut self.statics, key.clone(), cell.clone());
                    }
                }
                differs
            }
            Change::Row(key, row) => self.insert(key, row),
        }
    }

    fn delete(&mut self, deletion: &Deletion) {
        if self.deletions.iter().any(|kept| kept.includes(deletion)) {
            return;
        }
        self.deletions.retain(|kept| !deletion.includes(kept));
        self.deletions.push(deletion.clone());
        if deletion.is_of_partition() {
            self.statics.retain(|_, cell| cell.at > deletion.at);
        }
        self.rows.retain(|key, row| {
            if !row.stamps().any(|at| deletion.covers(key, at)) {
                return true;
            }
            let row = Arc::make_mut(row);
            row.cells.retain(|_, cell| !deletion.covers(key, cell.at));
            row.marker = row.marker.filter(|at| !deletion.covers(key, *at));
            row.marker.is_some() || !row.cells.is_empty()
        });
    }

    fn insert(&mut self, key: &Key, row: &Arc<Row>) -> bool {
        let Self { deletions, rows, .. } = self;
        let is_deleted = |at: i64| deletions.iter().any(|deletion| deletion.covers(key, at));
        if !rows.contains_key(key) && !row.stamps().any(is_deleted) {
            rows.insert(key.clone(), Arc::clone(row));
            return false;
        }
        let marker = row.marker.filter(|at| !is_deleted(*at));
        let cells: Vec<_> = row.cells.iter().filter(|(_, cell)| !is_deleted(cell.at)).collect();
        if marker.is_none() && cells.is_empty() {
            return false;
        }
        let kept = Arc::make_mut(rows.entry(key.clone()).or_default());
        kept.marker = kept.marker.max(marker);
        let mut differs = false;
        for (column, cell) in cells {
            differs |= reconcile(&mut kept.cells, column.clone(), cell.clone());
        }
        differs
    }

    /// Everything of it, as changes.
    fn changes(&self) -> impl Iterator<Item = Change> {
        let deletions = self.deletions.iter().cloned().map(Change::Deletion);
        let rows = self.rows.iter().map(|(key, row)| Change::Row(key.clone(), Arc::clone(row)));
        let statics = (!self.statics.is_empty()).then(|| Change::Statics(self.statics.clone()));
        deletions.chain(statics).chain(rows)
    }

    /// What two replicas have together.
    pub fn merged(&self, other: &Self) -> Self {
        let mut merged = self.clone();
        let is_new = |change: &Change| match change {
            Change::Row(key, row) => self.rows.get(key) != Some(row),
            Change::Statics(cells) => self.statics != *cells,
            Change::Deletion(_) => true,
        };
        other.changes().filter(is_new).for_each(|change| {
            merged.apply(&change);
        });
        merged
    }

    /// What a read of some columns and rows returned to the coordinator, which sends it to replicas
    /// that lack it.
    pub fn repair(&self, slice: &Slice, columns: &[usize]) -> Vec<Change> {
        let is_read = |key: &CellKey| columns.contains(&key.0);
        let of = |cells: &Cells| -> Cells {
            let read = cells.iter().filter(|(key, _)| is_read(key));
            read.map(|(key, cell)| (key.clone(), cell.clone())).collect()
        };
        let narrowed = |change: Change| match change {
            Change::Deletion(mut deletion) => {
                if !deletion.slices.contains(slice) {
                    deletion.slices.push(slice.clone());
                }
                Some(Change::Deletion(deletion))
            }
            Change::Statics(cells) => Some(Change::Statics(of(&cells))),
            Change::Row(key, row) => slice
                .contains(&key)
                .then(|| Row { marker: row.marker, cells: of(&row.cells) })
                .map(|row| Change::Row(key, row.into())),
        };
        self.changes().filter_map(narrowed).collect()
    }
}

/// The partitions of one replica. A snapshot of one costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replica(BTreeMap<Place, Arc<Partition>>);

impl Replica {
    /// Applies a mutation. Returns whether it wrote another value at the timestamp of an existing
    /// one.
    pub fn apply(&mut self, mutation: &Mutation) -> bool {
        let partition = self.0.entry(mutation.place.clone()).or_default();
        let partition = Arc::make_mut(partition);
        let mut differs = false;
        for change in &mutation.changes {
            differs |= partition.apply(change);
        }
        differs
    }

    /// A copy of a partition, or of all of a table.
    pub fn snapshot(&self, table: usize, place: Option<&Place>) -> Self {
        let Some(place) = place else { return self.snapshot_of(table, |_| true) };
        let found = self.0.get(place).map(|found| (place.clone(), Arc::clone(found)));
        Self(found.into_iter().collect())
    }

    /// A copy of some partitions of a table.
    pub fn snapshot_of(&self, table: usize, is_meant: impl Fn(&Place) -> bool) -> Self {
        let partitions = self.0.range(Self::table(table, None));
        let meant = partitions.filter(|(place, _)| is_meant(place));
        Self(meant.map(|(place, of)| (place.clone(), Arc::clone(of))).collect())
    }

    /// Replaces some partitions by what they were.
    pub fn restore(&mut self, held: &Self, mut is_old: impl FnMut(&Place) -> bool) {
        let places: BTreeSet<Place> = self.0.keys().chain(held.0.keys()).cloned().collect();
        for place in places {
            if !is_old(&place) {
                continue;
            }
            match held.0.get(&place) {
                Some(partition) => self.0.insert(place, Arc::clone(partition)),
                None => self.0.remove(&place),
            };
        }
    }

    /// Adds what another replica has.
    pub fn merge(&mut self, other: &Self) {
        for (place, partition) in &other.0 {
            let merged = self.partition(place).merged(partition);
            self.0.insert(place.clone(), Arc::new(merged));
        }
    }

    pub fn partition(&self, place: &Place) -> Arc<Partition> {
        self.0.get(place).cloned().unwrap_or_default()
    }

    /// The places of a table from one on, in the order of tokens.
    pub fn places(&self, table: usize, from: Option<&Place>) -> impl Iterator<Item = &Place> {
        self.0.range(Self::table(table, from)).map(|(place, _)| place)
    }

    fn table(table: usize, from: Option<&Place>) -> Range<Place> {
        from.cloned().unwrap_or((table, 0, Key::new()))..(table + 1, 0, Key::new())
    }
}
