//! The fields of a message, as they are on the wire.

use crate::source::wire::{Bytes, MAX_DEPTH, WireError};

/// A value on the wire, by its wire type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Raw<'de> {
    Varint(u64),
    Fixed64([u8; 8]),
    /// A text, bytes, a message, or packed numbers.
    Bytes(&'de [u8]),
    /// The fields between the tags of a group.
    Group(&'de [u8]),
    Fixed32([u8; 4]),
}

const END_GROUP: u64 = 4;

/// Takes a field number and the value that follows it; `None` for a number at the end of a group.
fn next_field<'de>(rest: &mut Bytes<'de>, depth: u8) -> Result<(u32, Option<Raw<'de>>), WireError> {
    let tag = rest.varint()?;
    let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| WireError::new(format!("{tag} is not a tag")))?;
    let value = match tag & 7 {
        0 => Raw::Varint(rest.varint()?),
        1 => Raw::Fixed64(rest.array()?),
        2 => {
            let length = rest.varint()?;
            Raw::Bytes(rest.take_bytes(length)?)
        }
        3 => Raw::Group(group(rest, number, depth)?),
        END_GROUP => return Ok((number, None)),
        5 => Raw::Fixed32(rest.array()?),
        other => return Err(WireError::new(format!("field {number} has wire type {other}"))),
    };
    Ok((number, Some(value)))
}

/// Takes the fields of a group, up to its end.
fn group<'de>(rest: &mut Bytes<'de>, number: u32, depth: u8) -> Result<&'de [u8], WireError> {
    let (whole, depth) = (rest.0, deeper(depth)?);
    loop {
        let before = rest.0.len();
        match next_field(rest, depth)? {
            (_, Some(_)) => {}
            (end, None) if end == number => return Ok(&whole[..whole.len() - before]),
            (end, None) => return Err(WireError::new(format!("a group {end} ends in {number}"))),
        }
    }
}

pub(super) fn deeper(depth: u8) -> Result<u8, WireError> {
    if depth == MAX_DEPTH {
        return Err(WireError::new(format!("it is nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(depth + 1)
}

/// Takes the value of a field outside of any group.
pub(super) fn next_value<'de>(
    rest: &mut Bytes<'de>,
    depth: u8,
) -> Result<(u32, Raw<'de>), WireError> {
    match next_field(rest, depth)? {
        (number, Some(value)) => Ok((number, value)),
        (number, None) => Err(WireError::new(format!("a group {number} ends that did not begin"))),
    }
}
