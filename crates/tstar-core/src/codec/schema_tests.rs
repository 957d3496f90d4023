//! Table `trips` in CQL has the columns of the list, in its order, and no others.

use super::kind::{self, ColumnKind};
use super::trip_row::trip_columns;

/// Name, type, whether it may be null.
type Column = (&'static str, &'static str, bool);

/// The columns of table `trips` in a schema: a line each, up to the primary key or the end.
fn columns(schema: &'static str) -> Vec<Column> {
    let lines = schema
        .lines()
        .skip_while(|line| !(line.starts_with("CREATE TABLE ") && line.ends_with(" trips (")));
    let lines = lines.skip(1).map(|line| line.split("--").next().unwrap_or_default().trim());
    let lines = lines.take_while(|line| !line.starts_with("PRIMARY KEY") && !line.starts_with(')'));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').expect(line);
            let rest = rest.trim().trim_end_matches(',');
            let required = rest.strip_suffix("NOT NULL");
            (name, required.unwrap_or(rest).trim(), required.is_none())
        })
        .collect()
}

macro_rules! define_lists {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $field:ident,)*) => {
        const CQL: &[Column] = &[$((stringify!($name), <$kind>::CQL, true)),*];
    };
}

trip_columns!(define_lists);

#[test]
fn trips_cql_has_the_columns() {
    // CQL knows no required columns but the key.
    let mut expected = vec![("device_id", "text", true)];
    expected.extend(["bucket", "end_time", "start_time"].map(|name| (name, "timestamp", true)));
    expected.extend(CQL);
    assert_eq!(columns(include_str!("../../schema/trips.cql")), expected);
}
