//! A Parquet file that is written row by row, in row groups of bounded size.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use parquet::basic::{Compression, ConvertedType, Encoding, Type, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::columns::{Columns, Row};
use crate::views::ViewError;

/// Maximum number of rows in a row group: what DuckDB gives to one thread.
const MAX_ROWS: usize = 122_880;

/// Maximum size of the values in a row group before they are encoded, bytes. One row may exceed it.
const MAX_BYTES: usize = 32 << 20;

/// A Parquet file. Memory holds one row group.
pub(super) struct Table<W: Write> {
    out: W,
    writer: SerializedFileWriter<Encoded>,
    encoded: Encoded,
    columns: Columns,
}

/// Encoded bytes on their way to the output, which need not be `Send`, as the writer demands.
#[derive(Clone, Default)]
struct Encoded(Arc<Mutex<Vec<u8>>>);

impl Encoded {
    /// Moves the bytes to an output.
    fn drain_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(&bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Write for Encoded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write> Table<W> {
    /// Begins a file with the columns of a schema.
    pub(crate) fn new(out: W, schema: &str) -> Result<Self, ViewError> {
        let schema = Arc::new(parse_message_type(schema)?);
        let descriptor = SchemaDescriptor::new(Arc::clone(&schema));
        let (columns, encoded) = (Columns::new(&descriptor), Encoded::default());
        let properties = Arc::new(properties(&descriptor));
        let writer = SerializedFileWriter::new(encoded.clone(), schema, properties)?;
        Ok(Self { out, writer, encoded, columns })
    }

    /// Adds a row; `fill` adds a value for each column, in order.
    pub(crate) fn write(&mut self, fill: impl FnOnce(&mut Row<'_>)) -> Result<(), ViewError> {
        self.columns.add(fill);
        if self.columns.rows >= MAX_ROWS || self.columns.bytes >= MAX_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ViewError> {
        self.columns.flush(self.writer.next_row_group()?)?;
        Ok(self.encoded.drain_to(&mut self.out)?)
    }

    /// Completes the file, with an entry in its footer.
    pub(crate) fn finish(mut self, entry: Option<KeyValue>) -> Result<(), ViewError> {
        if self.columns.rows > 0 {
            self.flush()?;
        }
        if let Some(entry) = entry {
            self.writer.append_key_value_metadata(entry);
        }
        self.writer.close()?;
        self.encoded.drain_to(&mut self.out)?;
        Ok(self.out.flush()?)
    }
}

/// How the columns are encoded: times as differences, numbers and paths without a dictionary.
fn properties(schema: &SchemaDescriptor) -> WriterProperties {
    let level = ZstdLevel::default();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    let columns = schema.columns().iter();
    let properties = columns.fold(properties, |properties, column| {
        let path = ColumnPath::clone(column.path());
        match column.physical_type() {
            Type::INT64 => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Type::DOUBLE if column.max_def_level() == 0 => {
                properties.set_column_dictionary_enabled(path, false)
            }
            // Paths: no query asks for the first and the last one.
            Type::BYTE_ARRAY if column.converted_type() == ConvertedType::NONE => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path, EnabledStatistics::None),
            _ => properties,
        }
    });
    properties.build()
}
