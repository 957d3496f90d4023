//! Binds and reads the number types of the model as integers.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};

use crate::model::scalar::{DeviceTime, LogTime, Offset, Version};

/// Stores a type as its number.
macro_rules! as_integer {
    ($($name:ident)+) => {$(
        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                i64::column_result(value).map(Self)
            }
        }
    )+};
}

as_integer! { DeviceTime LogTime Version Offset }
