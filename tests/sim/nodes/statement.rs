//! Statements with their values: which mutation a write is, and what a read asks for.

use scylla::frame::response::result::ColumnSpec;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

use super::data::{
    Bytes, Cell, Cells, Change, Component, Deletion, Key, Mutation, Place, Row, Slice, locate,
};
use super::plan::{Action, Origin, Plan, SelectPlan, SlicePlan, Source};
use super::syntax::Wrong;

/// A bound value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Unset,
    Some(Bytes),
}

/// The values that a client binds, as it sends them.
pub fn bind(specs: &[ColumnSpec<'_>], values: &impl SerializeRow) -> Result<Vec<Value>, Wrong> {
    let mut sent = Vec::new();
    let mut writer = RowWriter::new(&mut sent);
    let context = RowSerializationContext::from_specs(specs);
    values.serialize(&context, &mut writer).map_err(|error| error.to_string())?;
    let (mut bound, mut rest) = (Vec::new(), &sent[..]);
    while let Some((length, tail)) = rest.split_first_chunk::<4>() {
        let length = i32::from_be_bytes(*length);
        let (value, tail) = tail.split_at(usize::try_from(length).unwrap_or(0));
        bound.push(match length {
            -1 => Value::Null,
            -2 => Value::Unset,
            _ => Value::Some(value.into()),
        });
        rest = tail;
    }
    if bound.len() != specs.len() {
        return Err(format!("{} values for {} markers", bound.len(), specs.len()));
    }
    Ok(bound)
}

impl Source {
    fn value(&self, bound: &[Value]) -> Value {
        match &self.from {
            Origin::Bound(index) => bound[*index].clone(),
            Origin::Fixed(bytes) => Value::Some(bytes.clone()),
        }
    }

    fn component(&self, bound: &[Value]) -> Result<Component, Wrong> {
        let Value::Some(bytes) = self.value(bound) else {
            return Err("a key is null or unset".to_owned());
        };
        Component::read(&bytes, &self.kind).ok_or_else(|| "a key has a wrong length".to_owned())
    }

    fn number(&self, bound: &[Value]) -> Result<i64, Wrong> {
        match self.component(bound)? {
            Component::Number(number) => Ok(number),
            Component::Text(text) => Err(format!("`{text}` is not a number")),
        }
    }
}

fn key(sources: &[Source], bound: &[Value]) -> Result<Key, Wrong> {
    sources.iter().map(|source| source.component(bound)).collect()
}

impl SlicePlan {
    pub fn slice(&self, bound: &[Value]) -> Result<Slice, Wrong> {
        let side = |side: &Option<(Source, bool)>| {
            let component = |(source, inclusive): &(Source, bool)| {
                Ok::<_, Wrong>((source.component(bound)?, *inclusive))
            };
            side.as_ref().map(component).transpose()
        };
        let (from, upto) = (side(&self.from)?, side(&self.upto)?);
        Ok(Slice { equal: key(&self.equal, bound)?, from, upto })
    }
}

/// The write timestamp of a statement. As on servers, an unset one means the server's clock, and
/// null is an error.
fn timestamp(at: &Option<Source>, bound: &[Value], clock: i64) -> Result<i64, Wrong> {
    match at {
        Some(source) if source.value(bound) != Value::Unset => source.number(bound),
        _ => Ok(clock),
    }
}

/// What a conditional write asks first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    None,
    NotExists,
    Exists,
    /// A column has a value.
    Equals(usize, Bytes),
}

fn equals((column, source): &(usize, Source), bound: &[Value]) -> Result<Condition, Wrong> {
    match source.value(bound) {
        Value::Some(bytes) => Ok(Condition::Equals(*column, bytes)),
        _ => Err("a condition on null is not simulated".to_owned()),
    }
}

fn cells(columns: &[(usize, Source)], bound: &[Value], at: i64) -> Cells {
    let cell = |(column, source): &(usize, Source)| {
        let value = match source.value(bound) {
            Value::Unset => return None,
            Value::Null => None,
            Value::Some(bytes) => Some(bytes),
        };
        Some(((*column, Vec::new()), Cell { at, value }))
    };
    columns.iter().filter_map(cell).collect()
}

impl Plan {
    /// The mutation of a write, its condition, and the key of the row that the condition is about.
    pub fn mutation(
        &self,
        bound: &[Value],
        clock: i64,
    ) -> Result<(Mutation, Condition, Key), Wrong> {
        let at_place =
            |sources: &[Source]| Ok::<_, Wrong>(locate(self.table, key(sources, bound)?));
        match &self.action {
            Action::Insert { partition, key: of, cells: columns, at, once } => {
                let at = timestamp(at, bound, clock)?;
                let of = key(of, bound)?;
                let row = Row { marker: Some(at), cells: cells(columns, bound, at) };
                let changes = vec![Change::Row(of.clone(), row.into())];
                let condition = if *once { Condition::NotExists } else { Condition::None };
                Ok((Mutation { place: at_place(partition)?, changes }, condition, of))
            }
            Action::SetElement { partition, column, element, value, at } => {
                let at = timestamp(at, bound, clock)?;
                let (Value::Some(element), Value::Some(value)) =
                    (element.value(bound), value.value(bound))
                else {
                    return Err("an element of a map has a key and a value".to_owned());
                };
                let cell = Cell { at, value: Some(value) };
                let cells = Cells::from([((*column, element.to_vec()), cell)]);
                let changes = vec![Change::Statics(cells)];
                let mutation = Mutation { place: at_place(partition)?, changes };
                Ok((mutation, Condition::None, Key::new()))
            }
            Action::Replace { partition, key: of, cells: columns, equal } => {
                let of = key(of, bound)?;
                let row = Row { marker: None, cells: cells(columns, bound, clock) };
                let changes = vec![Change::Row(of.clone(), row.into())];
                let mutation = Mutation { place: at_place(partition)?, changes };
                Ok((mutation, equals(equal, bound)?, of))
            }
            Action::Delete { partition, slice, at, existing, equal } => {
                let at = timestamp(at, bound, clock)?;
                let slice = slice.slice(bound)?;
                let of = slice.equal.clone();
                let changes = vec![Change::Deletion(Deletion { slices: vec![slice], at })];
                let condition = match equal {
                    Some(equal) => equals(equal, bound)?,
                    None if *existing => Condition::Exists,
                    None => Condition::None,
                };
                Ok((Mutation { place: at_place(partition)?, changes }, condition, of))
            }
            Action::Select(_) => Err(format!("`{}` does not write", self.text)),
        }
    }

    /// What a read asks for.
    pub fn select(&self) -> Result<&SelectPlan, Wrong> {
        match &self.action {
            Action::Select(select) => Ok(select),
            _ => Err(format!("`{}` does not read", self.text)),
        }
    }
}

impl SelectPlan {
    /// The partition to read; `None`: the whole table.
    pub fn locate(&self, table: usize, bound: &[Value]) -> Result<Option<Place>, Wrong> {
        let of = |sources: &Vec<Source>| Ok::<_, Wrong>(locate(table, key(sources, bound)?));
        self.partition.as_ref().map(of).transpose()
    }

    /// The maximum number of rows of all pages together.
    pub fn limit(&self, bound: &[Value]) -> Result<usize, Wrong> {
        let Some(source) = &self.limit else { return Ok(usize::MAX) };
        match source.number(bound)? {
            ..=0 => Err("a limit is above 0".to_owned()),
            number => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        }
    }
}
