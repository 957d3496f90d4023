//! The values of a row group, column by column, until they are encoded.

use std::io::Write;

use parquet::basic::Type;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// A value of a column.
pub(super) trait Cell {
    /// Appends it, and returns its size, bytes.
    fn append_to(self, values: &mut Values) -> usize;
}

macro_rules! define_cells {
    ($($variant:ident: $cell:ty as $kind:ty, $value:ident => $bytes:expr;)*) => {
        /// The values of a column.
        pub(super) enum Values {
            $($variant(Vec<$cell>),)*
        }

        $(impl Cell for $cell {
            fn append_to(self, values: &mut Values) -> usize {
                let Values::$variant(values) = values else {
                    unreachable!("the schema has another type")
                };
                let $value = &self;
                let bytes = $bytes;
                values.push(self);
                bytes
            }
        })*

        impl Column {
            /// Encodes the values, and forgets them.
            fn flush<W: Write + Send>(
                &mut self,
                group: &mut SerializedRowGroupWriter<'_, W>,
            ) -> Result<()> {
                let mut column = group.next_column()?.expect("there are as many as in the schema");
                let definitions = (self.max_definition > 0).then_some(&self.definitions[..]);
                let repetitions = self.is_list.then_some(&self.repetitions[..]);
                match &mut self.values {
                    $(Values::$variant(values) => {
                        let out = column.typed::<$kind>();
                        out.write_batch(values, definitions, repetitions)?;
                        values.clear();
                    })*
                }
                self.definitions.clear();
                self.repetitions.clear();
                column.close()
            }
        }
    };
}

define_cells! {
    Int32: i32 as Int32Type, value => size_of_val(value);
    Int64: i64 as Int64Type, value => size_of_val(value);
    Double: f64 as DoubleType, value => size_of_val(value);
    // Its handle counts, too: most texts are short.
    Bytes: ByteArray as ByteArrayType, value => size_of_val(value) + value.len();
}

/// A column: its values, and the levels that mark absent values and lists in Parquet.
struct Column {
    values: Values,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    max_definition: i16,
    is_list: bool,
}

impl Column {
    fn new(column: &ColumnDescriptor) -> Self {
        let values = match column.physical_type() {
            Type::INT32 => Values::Int32(Vec::new()),
            Type::INT64 => Values::Int64(Vec::new()),
            Type::DOUBLE => Values::Double(Vec::new()),
            Type::BYTE_ARRAY => Values::Bytes(Vec::new()),
            other => unreachable!("no schema has {other}"),
        };
        let max_definition = column.max_def_level();
        let is_list = column.max_rep_level() > 0;
        let (definitions, repetitions) = Default::default();
        Self { values, definitions, repetitions, max_definition, is_list }
    }
}

/// All columns.
pub(super) struct Columns {
    columns: Vec<Column>,
    /// Number of rows.
    pub rows: usize,
    /// Size of the values, bytes.
    pub bytes: usize,
}

impl Columns {
    /// No rows yet.
    pub(crate) fn new(schema: &SchemaDescriptor) -> Self {
        let columns = schema.columns().iter().map(|column| Column::new(column)).collect();
        Self { columns, rows: 0, bytes: 0 }
    }

    /// Adds a row; `fill` adds a value for each column, in order.
    pub(crate) fn add(&mut self, fill: impl FnOnce(&mut Row<'_>)) {
        let mut row = Row { columns: self.columns.iter_mut(), bytes: 0 };
        fill(&mut row);
        debug_assert_eq!(row.columns.len(), 0, "a column has no value");
        self.bytes += row.bytes;
        self.rows += 1;
    }

    /// Encodes the rows as a row group, and forgets them.
    pub(crate) fn flush<W: Write + Send>(
        &mut self,
        mut group: SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        self.columns.iter_mut().try_for_each(|column| column.flush(&mut group))?;
        (self.rows, self.bytes) = (0, 0);
        group.close().map(drop)
    }
}

/// A row that is being filled, column by column.
pub(super) struct Row<'a> {
    columns: std::slice::IterMut<'a, Column>,
    bytes: usize,
}

impl<'a> Row<'a> {
    fn next(&mut self) -> &'a mut Column {
        self.columns.next().expect("no more values than columns")
    }

    /// A value that no row lacks.
    pub(crate) fn value(&mut self, value: impl Cell) {
        let column = self.next();
        self.bytes += value.append_to(&mut column.values);
    }

    /// A value that may be absent, unless the column is required.
    pub(crate) fn optional(&mut self, value: Option<impl Cell>) {
        let column = self.next();
        if column.max_definition > 0 {
            column.definitions.push(value.is_some().into());
        }
        self.bytes += value.map_or(0, |value| value.append_to(&mut column.values));
    }

    /// A list, which may be empty.
    pub(crate) fn list<C: Cell>(&mut self, values: impl IntoIterator<Item = C>) {
        let column = self.next();
        let before = column.repetitions.len();
        for value in values {
            column.repetitions.push((column.repetitions.len() > before).into());
            column.definitions.push(1);
            self.bytes += value.append_to(&mut column.values);
        }
        if column.repetitions.len() == before {
            column.repetitions.push(0);
            column.definitions.push(0);
        }
    }
}
