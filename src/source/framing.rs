//! Which schema a record has, by the forms that clients of a Confluent-compatible registry write:
//! before the value or in a header, a byte that names the form and an id.

use uuid::Uuid;

use super::wire::{Bytes, WireError, unzigzag};
use crate::model::schema::SchemaId;

/// Header with the id of the schema of a record's value.
pub(crate) const SCHEMA_ID_HEADER: &str = "__value_schema_id";

/// Maximum number of message indexes: one for each level of messages inside messages.
const MAX_INDEXES: i64 = 64;

/// The value of a record, and its schema.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Framed<'a> {
    pub id: SchemaId,
    /// Indexes of the message in its schema; empty for Avro.
    pub indexes: Vec<u32>,
    /// The value without the id.
    pub value: &'a [u8],
}

/// Finds the id of a record's schema: in the header if there is one, else before the value. After
/// the id of a protobuf schema follow indexes of a message.
///
/// # Errors
/// What is wrong with the id.
pub(super) fn unframe<'a>(
    header: Option<&[u8]>,
    value: &'a [u8],
    is_protobuf: bool,
) -> Result<Framed<'a>, String> {
    let Some(header) = header else {
        let mut rest = Bytes(value);
        let (id, indexes) = frame(&mut rest, is_protobuf).map_err(|problem| {
            format!("the value does not begin with the id of a schema: {problem}")
        })?;
        return Ok(Framed { id, indexes, value: rest.0 });
    };
    let wrong = |problem: &dyn std::fmt::Display| {
        format!("header `{SCHEMA_ID_HEADER}` is not the id of a schema: {problem}")
    };
    let mut rest = Bytes(header);
    let (id, indexes) = frame(&mut rest, is_protobuf).map_err(|problem| wrong(&problem))?;
    if !rest.is_empty() {
        return Err(wrong(&format_args!("{} bytes follow it", rest.0.len())));
    }
    Ok(Framed { id, indexes, value })
}

fn frame(rest: &mut Bytes<'_>, is_protobuf: bool) -> Result<(SchemaId, Vec<u32>), WireError> {
    let id = match rest.array()? {
        [0] => SchemaId::Number(u32::from_be_bytes(rest.array()?)),
        [1] => SchemaId::Guid(Uuid::from_bytes(rest.array()?)),
        [byte] => return Err(WireError::new(format!("its first byte is {byte:#04x}"))),
    };
    let indexes = if is_protobuf { indexes(rest)? } else { Vec::new() };
    Ok((id, indexes))
}

/// A count, then that number of indexes; the count 0 means the first message.
fn indexes(rest: &mut Bytes<'_>) -> Result<Vec<u32>, WireError> {
    let count = rest.varint().map(unzigzag)?;
    if count == 0 {
        return Ok(vec![0]);
    }
    if !(0..=MAX_INDEXES).contains(&count) {
        return Err(WireError::new(format!("it has {count} message indexes")));
    }
    let index = |_| {
        let index = rest.varint().map(unzigzag)?;
        u32::try_from(index).map_err(|_| WireError::new(format!("a message index is {index}")))
    };
    (0..count).map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_before_the_value_or_in_a_header() {
        let number = [0, 0, 0, 1, 2, 9, 9];
        let framed = unframe(None, &number, false).unwrap();
        assert_eq!((framed.id, framed.value), (SchemaId::Number(258), &[9, 9][..]));
        let guid: Vec<u8> = std::iter::once(1).chain(0..16).collect();
        let id = "00010203-0405-0607-0809-0a0b0c0d0e0f".parse().unwrap();
        assert_eq!(unframe(None, &guid, false).unwrap().id, id);
        let framed = unframe(Some(&guid), &number, false).unwrap();
        assert_eq!((framed.id, framed.value), (id, &number[..]));
    }

    #[test]
    fn indexes_of_a_message_follow_the_id_of_a_protobuf_schema() {
        for (bytes, indexes, value) in [
            (&[0, 0, 0, 0, 8, 0, 7][..], vec![0], &[7][..]),
            (&[0, 0, 0, 0, 8, 2, 2, 7], vec![1], &[7]),
            (&[0, 0, 0, 0, 8, 4, 2, 0x80, 1], vec![1, 64], &[]),
        ] {
            let framed = unframe(None, bytes, true).unwrap();
            assert_eq!((framed.indexes, framed.value), (indexes, value), "{bytes:?}");
        }
        let header = [0, 0, 0, 0, 8, 2, 2];
        let framed = unframe(Some(&header), &[7], true).unwrap();
        assert_eq!((framed.indexes, framed.value), (vec![1], &[7][..]));
    }

    #[test]
    fn what_is_not_an_id_has_a_reason() {
        let many = [0, 0, 0, 0, 8, 0xfe, 0xff, 0xff, 0xff, 0x0f];
        for (header, value, is_protobuf, why) in [
            (None, &[][..], false, "1 bytes begins where 0 are left"),
            (None, b"{\"a\":1}", false, "its first byte is 0x7b"),
            (None, &[0, 0, 7], false, "4 bytes begins where 2"),
            (None, &[0, 0, 0, 0, 8], true, "they end within a number"),
            (None, &[0, 0, 0, 0, 8, 1], true, "-1 message indexes"),
            (None, &[0, 0, 0, 0, 8, 2, 1], true, "a message index is -1"),
            (None, &many, true, "2147483647 message indexes"),
            (Some(&[0, 0, 0, 0, 8, 0][..]), &[], false, "1 bytes follow it"),
            (Some(b"7"), &[], false, "header `__value_schema_id` is not the id"),
        ] {
            let problem = unframe(header, value, is_protobuf).unwrap_err();
            assert!(problem.contains(why), "{problem}");
        }
    }
}
