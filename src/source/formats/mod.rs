//! The formats of files. A format is a file here and a line of [`definition`], besides its name in
//! [`InputFormat`].

pub(super) mod csv;
mod gpx;
mod nmea;
mod rec;

use super::NoSample;
use super::record::Fields;
use super::shape::Shape;
use crate::model::input_format::InputFormat;

/// How records are found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// A record per line.
    Lines,
    /// The rows of a table, after a header.
    Rows,
    /// JSON values of any number of lines.
    Values,
    /// Elements of an XML document.
    Elements(ElementNames),
}

/// The elements of an XML format, by their names without prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElementNames {
    pub root: &'static str,
    pub record: &'static str,
}

/// Collects the values of a record.
type Read = for<'r> fn(&'r str, &Shape, &mut Fields<'r>) -> Result<(), NoSample>;

/// What a format consists of.
pub(super) struct Format {
    pub framing: Framing,
    /// Whether this is a record, or the first line of a file.
    pub is_record: fn(&[u8]) -> bool,
    /// The part of a record that is read.
    pub body: fn(&[u8]) -> &[u8],
    /// Reads that part; unset: it is JSON, or a row.
    pub read: Option<Read>,
    /// The preset for the names of the format; unset: records have names of their own.
    pub preset: Option<&'static str>,
}

/// The format of an input.
pub(super) fn definition(format: InputFormat) -> Format {
    let json = Format {
        framing: Framing::Lines,
        is_record: |record| matches!(record.first(), Some(b'{' | b'[')),
        body: |record| record,
        read: None,
        preset: None,
    };
    match format {
        InputFormat::Ndjson => json,
        InputFormat::Json => Format { framing: Framing::Values, ..json },
        InputFormat::Csv => Format { framing: Framing::Rows, is_record: |_| false, ..json },
        // A line of JSON for each row.
        InputFormat::Parquet => Format { is_record: |_| false, ..json },
        InputFormat::Gpx => gpx::FORMAT,
        InputFormat::Nmea => nmea::FORMAT,
        InputFormat::Rec => Format { is_record: rec::is_line, body: rec::body, ..json },
    }
}
