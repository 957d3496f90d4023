//! The formats of input files: how their bytes are split into records.

use serde::{Deserialize, Serialize};

use super::named::named;

named! {
    /// Format of an input file.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    InputFormat {
        /// A JSON value per line.
        Ndjson = "ndjson",
        /// A table with a header.
        Csv = "csv",
        /// JSON values of any number of lines. Each element of an array at the top is a record.
        Json = "json",
        /// Tracks in XML: each `trkpt` is a record.
        Gpx = "gpx",
        /// A sentence of NMEA 0183 per line.
        Nmea = "nmea",
        /// Lines of the OwnTracks recorder: time, tab, kind, tab, JSON.
        Rec = "rec",
        /// Rows of columns, as Parquet stores them.
        Parquet = "parquet",
    }
}

impl InputFormat {
    /// The names in settings; `None` detects the format of each file from its content.
    pub const NAMES: [(&str, Option<Self>); 8] = [
        ("none", None),
        ("ndjson", Some(Self::Ndjson)),
        ("csv", Some(Self::Csv)),
        ("json", Some(Self::Json)),
        ("gpx", Some(Self::Gpx)),
        ("nmea", Some(Self::Nmea)),
        ("rec", Some(Self::Rec)),
        ("parquet", Some(Self::Parquet)),
    ];

    /// The names, for help.
    pub const HELP: &str = "Format of input files: ndjson, csv, json, gpx, nmea, rec or parquet; none: detected from the content";
}
