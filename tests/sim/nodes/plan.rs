//! Tables, and statements prepared for them: what a server checks before it takes values.

use scylla::cluster::metadata::{CollectionType, ColumnType, NativeType};
use scylla::frame::response::result::{ColumnSpec, TableSpec};

use super::data::{Bytes, Component};
use super::syntax::{self, Condition, Operator, Selector, Statement, Term, Wrong};

const KEYSPACE: &str = "simulated";

pub struct Column {
    pub name: String,
    pub kind: ColumnType<'static>,
    pub is_static: bool,
    /// Each element is a cell of its own: a collection that is not frozen.
    pub has_elements: bool,
}

pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// Indexes of the columns of the partition key.
    pub partition: Vec<usize>,
    pub clustering: Vec<usize>,
    pub descends: bool,
}

pub struct Schema(pub Vec<Table>);

/// Where a value comes from, and its type.
pub struct Source {
    pub from: Origin,
    pub kind: ColumnType<'static>,
}

pub enum Origin {
    Bound(usize),
    Fixed(Bytes),
}

/// A [`Slice`](super::data::Slice) without values.
#[derive(Default)]
pub struct SlicePlan {
    pub equal: Vec<Source>,
    pub from: Option<(Source, bool)>,
    pub upto: Option<(Source, bool)>,
}

pub struct SelectPlan {
    /// `None` reads the whole table.
    pub partition: Option<Vec<Source>>,
    pub slice: SlicePlan,
    pub columns: Vec<(usize, Selector)>,
    pub distinct: bool,
    /// Whether the rows come in the reverse of their key's order.
    pub descends: bool,
    pub limit: Option<Source>,
}

pub enum Action {
    Insert {
        partition: Vec<Source>,
        key: Vec<Source>,
        cells: Vec<(usize, Source)>,
        at: Option<Source>,
        once: bool,
    },
    SetElement {
        partition: Vec<Source>,
        column: usize,
        element: Source,
        value: Source,
        at: Option<Source>,
    },
    /// Sets columns of a row if another column has a value.
    Replace {
        partition: Vec<Source>,
        key: Vec<Source>,
        cells: Vec<(usize, Source)>,
        equal: (usize, Source),
    },
    Delete {
        partition: Vec<Source>,
        slice: SlicePlan,
        at: Option<Source>,
        existing: bool,
        equal: Option<(usize, Source)>,
    },
    Select(SelectPlan),
}

/// A prepared statement.
pub struct Plan {
    pub text: String,
    pub table: usize,
    /// The bound values.
    pub bound: Vec<ColumnSpec<'static>>,
    /// The columns of the answer.
    pub answer: Vec<ColumnSpec<'static>>,
    pub action: Action,
}

fn native(kind: NativeType) -> ColumnType<'static> {
    ColumnType::Native(kind)
}

/// A type, and whether it is frozen.
fn column_type(text: &str) -> Result<(ColumnType<'static>, bool), Wrong> {
    if let Some(inner) = text.strip_prefix("frozen<").and_then(|text| text.strip_suffix('>')) {
        return Ok((column_type(inner)?.0, true));
    }
    let collection = |typ| Ok((ColumnType::Collection { frozen: false, typ }, false));
    let inner = |text: &str| column_type(text).map(|(kind, _)| Box::new(kind));
    if let Some(types) = text.strip_prefix("map<").and_then(|text| text.strip_suffix('>')) {
        let (key, value) = types.split_once(',').ok_or("a map has a key and a value")?;
        return collection(CollectionType::Map(inner(key)?, inner(value)?));
    }
    if let Some(kind) = text.strip_prefix("set<").and_then(|text| text.strip_suffix('>')) {
        return collection(CollectionType::Set(inner(kind)?));
    }
    if let Some(kind) = text.strip_prefix("list<").and_then(|text| text.strip_suffix('>')) {
        return collection(CollectionType::List(inner(kind)?));
    }
    let kind = match text {
        "text" => NativeType::Text,
        "boolean" => NativeType::Boolean,
        "int" => NativeType::Int,
        "bigint" => NativeType::BigInt,
        "timestamp" => NativeType::Timestamp,
        "double" => NativeType::Double,
        "blob" => NativeType::Blob,
        other => return Err(format!("type `{other}` is not simulated")),
    };
    Ok((native(kind), false))
}

impl Table {
    fn from_statement(statement: Statement) -> Result<Self, Wrong> {
        let Statement::Create { table, columns, partition, clustering, descends } = statement
        else {
            return Err("a schema creates tables".to_owned());
        };
        let column = |(name, kind, is_static): (String, String, bool)| {
            let (kind, frozen) = column_type(&kind)?;
            let has_elements = matches!(kind, ColumnType::Collection { .. }) && !frozen;
            Ok(Column { name, kind, is_static, has_elements })
        };
        let columns = columns.into_iter().map(column).collect::<Result<Vec<_>, Wrong>>()?;
        let mut made =
            Self { name: table, columns, partition: vec![], clustering: vec![], descends };
        made.partition = partition.iter().map(|name| made.index(name)).collect::<Result<_, _>>()?;
        made.clustering =
            clustering.iter().map(|name| made.index(name)).collect::<Result<_, _>>()?;
        Ok(made)
    }

    fn index(&self, name: &str) -> Result<usize, Wrong> {
        let found = self.columns.iter().position(|column| column.name == name);
        found.ok_or_else(|| format!("table {} has no column {name}", self.name))
    }
}

/// The bound values of a statement, as it names them.
struct Markers<'a> {
    table: &'a Table,
    specs: Vec<(usize, ColumnSpec<'static>)>,
}

impl Markers<'_> {
    fn source(
        &mut self,
        term: Term,
        name: &str,
        kind: &ColumnType<'static>,
    ) -> Result<Source, Wrong> {
        let from = match term {
            Term::Marker(index, given) => {
                let name = given.unwrap_or_else(|| name.to_owned());
                self.specs.push((index, spec(self.table, name, kind.clone())));
                Origin::Bound(index)
            }
            Term::Text(text) if *kind == native(NativeType::Text) => {
                Origin::Fixed(text.into_bytes().into())
            }
            Term::Number(number) => {
                let component = Component::Number(number);
                Origin::Fixed(component.bytes(kind).ok_or("a number of another type")?)
            }
            Term::Text(text) => return Err(format!("'{text}' is of another type")),
        };
        Ok(Source { from, kind: kind.clone() })
    }

    fn of_column(&mut self, term: Term, column: usize) -> Result<Source, Wrong> {
        let column = &self.table.columns[column];
        self.source(term, &column.name, &column.kind)
    }

    fn timestamp(&mut self, term: Option<Term>) -> Result<Option<Source>, Wrong> {
        let kind = native(NativeType::BigInt);
        term.map(|term| self.source(term, "[timestamp]", &kind)).transpose()
    }

    /// A column, and the value that it has to have.
    fn equal(&mut self, (name, term): (String, Term)) -> Result<(usize, Source), Wrong> {
        let column = self.table.index(&name)?;
        Ok((column, self.of_column(term, column)?))
    }

    /// What the conditions restrict; `None` without a partition.
    fn restrict(
        &mut self,
        conditions: Vec<Condition>,
    ) -> Result<(Option<Vec<Source>>, SlicePlan), Wrong> {
        let table = self.table;
        let mut left = conditions;
        let mut take = |column: usize, operators: &[Operator]| {
            let name = &table.columns[column].name;
            let found = left
                .iter()
                .position(|(of, operator, _)| of == name && operators.contains(operator));
            found.map(|at| left.remove(at))
        };
        let mut partition = Vec::new();
        for &column in &table.partition {
            if let Some((_, _, term)) = take(column, &[Operator::Equal]) {
                partition.push(self.of_column(term, column)?);
            }
        }
        let mut slice = SlicePlan::default();
        for &column in &table.clustering {
            if let Some((_, _, term)) = take(column, &[Operator::Equal]) {
                slice.equal.push(self.of_column(term, column)?);
                continue;
            }
            if let Some((_, operator, term)) = take(column, &[Operator::More, Operator::AtLeast]) {
                let inclusive = operator == Operator::AtLeast;
                slice.from = Some((self.of_column(term, column)?, inclusive));
            }
            if let Some((_, operator, term)) = take(column, &[Operator::Less, Operator::AtMost]) {
                let inclusive = operator == Operator::AtMost;
                slice.upto = Some((self.of_column(term, column)?, inclusive));
            }
            break;
        }
        if let Some((column, ..)) = left.first() {
            return Err(format!("column {column} cannot be restricted"));
        }
        let partition = match partition.len() {
            0 if slice.equal.is_empty() && slice.from.is_none() && slice.upto.is_none() => None,
            given if given == table.partition.len() => Some(partition),
            _ => return Err("a part of the partition key is missing".to_owned()),
        };
        Ok((partition, slice))
    }
}

fn spec(table: &Table, name: String, kind: ColumnType<'static>) -> ColumnSpec<'static> {
    ColumnSpec::owned(name, kind, TableSpec::owned(KEYSPACE.to_owned(), table.name.clone()))
}

impl Schema {
    /// The tables that statements create.
    pub fn parse(ddl: &[String]) -> Result<Self, Wrong> {
        let table = |text: &String| syntax::parse(text).and_then(Table::from_statement);
        ddl.iter().map(table).collect::<Result<_, _>>().map(Self)
    }

    /// Prepares a statement.
    pub fn prepare(&self, text: &str) -> Result<Plan, Wrong> {
        let statement = syntax::parse(text)?;
        let (Statement::Insert { table: name, .. }
        | Statement::Update { table: name, .. }
        | Statement::Replace { table: name, .. }
        | Statement::Delete { table: name, .. }
        | Statement::Select { table: name, .. }) = &statement
        else {
            return Err("tables are not created later".to_owned());
        };
        let found = self.0.iter().position(|table| table.name == *name);
        let at = found.ok_or_else(|| format!("there is no table {name}"))?;
        let table = &self.0[at];
        let mut markers = Markers { table, specs: Vec::new() };
        let action = match statement {
            Statement::Select { .. } => select(&mut markers, statement),
            _ => write(&mut markers, statement),
        };
        let action = action.map_err(|wrong| format!("{wrong} in `{text}`"))?;
        let answer = match &action {
            Action::Select(select) => select
                .columns
                .iter()
                .map(|(column, shown)| {
                    let column = &table.columns[*column];
                    let kind = match shown {
                        Selector::Count => native(NativeType::BigInt),
                        _ => column.kind.clone(),
                    };
                    spec(table, column.name.clone(), kind)
                })
                .collect(),
            _ => Vec::new(),
        };
        let mut bound = markers.specs;
        bound.sort_by_key(|(index, _)| *index);
        let bound = bound.into_iter().map(|(_, spec)| spec).collect();
        Ok(Plan { text: text.to_owned(), table: at, bound, answer, action })
    }
}

fn write(markers: &mut Markers<'_>, statement: Statement) -> Result<Action, Wrong> {
    let table = markers.table;
    match statement {
        Statement::Insert { columns, terms, at, once, .. } => {
            let mut given = Vec::new();
            for (name, term) in columns.iter().zip(terms) {
                let column = table.index(name)?;
                if table.columns[column].has_elements || table.columns[column].is_static {
                    return Err(format!("an insert into {name} is not simulated"));
                }
                given.push((column, markers.of_column(term, column)?));
            }
            if once && at.is_some() {
                return Err("a condition excludes a timestamp".to_owned());
            }
            let mut key = |columns: &[usize]| -> Result<Vec<Source>, Wrong> {
                let mut take = |column: &usize| {
                    let found = given.iter().position(|(of, _)| of == column);
                    let at = found.ok_or("a part of the key is missing")?;
                    Ok(given.remove(at).1)
                };
                columns.iter().map(&mut take).collect()
            };
            let (partition, key) = (key(&table.partition)?, key(&table.clustering)?);
            Ok(Action::Insert { partition, key, cells: given, at: markers.timestamp(at)?, once })
        }
        Statement::Update { at, column, element, term, conditions, .. } => {
            let column = table.index(&column)?;
            let Column { name, kind, is_static, has_elements } = &table.columns[column];
            let ColumnType::Collection { typ: CollectionType::Map(keys, values), .. } = kind else {
                return Err(format!("{name} is not a map"));
            };
            let element = markers.source(element, &format!("key({name})"), keys)?;
            let value = markers.source(term, &format!("value({name})"), values)?;
            let (partition, slice) = markers.restrict(conditions)?;
            let partition = partition.ok_or("a write needs a partition")?;
            if !(*is_static && *has_elements && slice.equal.is_empty()) {
                return Err(format!("an update of {name} is not simulated"));
            }
            Ok(Action::SetElement { partition, column, element, value, at: markers.timestamp(at)? })
        }
        Statement::Replace { columns, terms, conditions, equal, .. } => {
            let mut cells = Vec::new();
            for (name, term) in columns.iter().zip(terms) {
                let column = table.index(name)?;
                cells.push((column, markers.of_column(term, column)?));
            }
            let (partition, slice) = markers.restrict(conditions)?;
            let partition = partition.ok_or("a write needs a partition")?;
            if slice.equal.len() < table.clustering.len() {
                return Err("a condition is about one row".to_owned());
            }
            let equal = markers.equal(equal)?;
            Ok(Action::Replace { partition, key: slice.equal, cells, equal })
        }
        Statement::Delete { at, conditions, existing, equal, .. } => {
            let (partition, slice) = markers.restrict(conditions)?;
            let partition = partition.ok_or("a write needs a partition")?;
            let is_conditional = existing || equal.is_some();
            if is_conditional && (at.is_some() || slice.equal.len() < table.clustering.len()) {
                return Err("a condition is about one row, without a timestamp".to_owned());
            }
            let equal = equal.map(|equal| markers.equal(equal)).transpose()?;
            Ok(Action::Delete { partition, slice, at: markers.timestamp(at)?, existing, equal })
        }
        _ => Err("it is not a write".to_owned()),
    }
}

fn select(markers: &mut Markers<'_>, statement: Statement) -> Result<Action, Wrong> {
    let table = markers.table;
    let Statement::Select { distinct, columns, conditions, order, limit, .. } = statement else {
        return Err("it is not a read".to_owned());
    };
    let columns = columns.iter().map(|(name, shown)| Ok((table.index(name)?, *shown)));
    let columns = columns.collect::<Result<Vec<_>, Wrong>>()?;
    let values = columns.iter().filter(|(_, shown)| *shown == Selector::Value).count();
    if values > 0 && values < columns.len() {
        return Err("a maximum or a number next to a column is not simulated".to_owned());
    }
    let is_of_partition = |(column, _): &(usize, Selector)| table.partition.contains(column);
    if distinct && !columns.iter().all(is_of_partition) {
        return Err("DISTINCT is about the partition key".to_owned());
    }
    let (partition, slice) = markers.restrict(conditions)?;
    let descends = match order.first() {
        None => table.descends,
        Some((_, descends)) => *descends,
    };
    let ordered = order.iter().map(|(name, _)| table.index(name));
    let ordered = ordered.collect::<Result<Vec<_>, Wrong>>()?;
    if !table.clustering.starts_with(&ordered)
        || order.iter().any(|(_, other)| *other != descends)
        || !order.is_empty() && partition.is_none()
    {
        return Err("rows cannot be read in this order".to_owned());
    }
    let int = native(NativeType::Int);
    let limit = limit.map(|term| markers.source(term, "[limit]", &int)).transpose()?;
    Ok(Action::Select(SelectPlan { partition, slice, columns, distinct, descends, limit }))
}

impl SelectPlan {
    /// Whether its answer is one row about all rows.
    pub fn is_aggregate(&self) -> bool {
        self.columns.iter().any(|(_, shown)| *shown != Selector::Value)
    }
}

impl Component {
    /// Its bytes as a value of a type.
    pub fn bytes(&self, kind: &ColumnType<'_>) -> Option<Bytes> {
        match (self, kind) {
            (Self::Number(number), ColumnType::Native(NativeType::Int)) => {
                Some(Bytes::from(i32::try_from(*number).ok()?.to_be_bytes().as_slice()))
            }
            (
                Self::Number(number),
                ColumnType::Native(NativeType::BigInt | NativeType::Timestamp),
            ) => Some(Bytes::from(number.to_be_bytes().as_slice())),
            (Self::Text(text), ColumnType::Native(NativeType::Text)) => {
                Some(Bytes::from(text.as_bytes()))
            }
            _ => None,
        }
    }

    /// Reads the bytes of a value of a type.
    pub fn read(bytes: &[u8], kind: &ColumnType<'_>) -> Option<Self> {
        match kind {
            ColumnType::Native(NativeType::Int) => {
                Some(Self::Number(i32::from_be_bytes(bytes.try_into().ok()?).into()))
            }
            ColumnType::Native(NativeType::BigInt | NativeType::Timestamp) => {
                Some(Self::Number(i64::from_be_bytes(bytes.try_into().ok()?)))
            }
            ColumnType::Native(NativeType::Text) => {
                Some(Self::Text(String::from_utf8(bytes.to_vec()).ok()?))
            }
            _ => None,
        }
    }
}
