//! Message `Path` as protobuf: what writers of `schema/path.proto` may write, and no other bytes.

use super::{BlobError, Message};
use crate::model::column::{push_unsigned, take_unsigned};

/// Number of the field with the count of samples.
const COUNT: u32 = 1;

/// Number of the field with the names of drivers.
const DRIVERS: u32 = 17;

/// Wire type of a number.
const VARINT: u64 = 0;

/// Wire type of bytes after their length.
const BYTES: u64 = 2;

impl Message {
    /// Clears every field, and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.count = 0;
        for number in 0..=DRIVERS + 1 {
            self.field_mut(number).into_iter().for_each(Vec::clear);
        }
        self.drivers.clear();
    }

    /// Appends the fields in the order of their numbers.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        if self.count != 0 {
            push_unsigned(to, u64::from(COUNT) << 3 | VARINT);
            push_unsigned(to, self.count.into());
        }
        let fields = self.fields();
        let (before, after) = fields.split_at(fields.partition_point(|(at, _)| *at < DRIVERS));
        let is_set = |(_, bytes): &&(u32, &Vec<u8>)| !bytes.is_empty();
        before.iter().filter(is_set).for_each(|(number, bytes)| put(to, *number, bytes));
        self.drivers.iter().for_each(|name| put(to, DRIVERS, name.as_bytes()));
        after.iter().filter(is_set).for_each(|(number, bytes)| put(to, *number, bytes));
    }

    /// Reads a message. The order of its fields may be another.
    ///
    /// # Errors
    /// A field is unknown, empty, cut or repeated, or a number is not in its shortest form.
    pub(super) fn read(mut rest: &[u8]) -> Result<Self, BlobError> {
        let wrong = |reason: &str| BlobError::Message(reason.to_owned());
        let mut message = Self::default();
        while !rest.is_empty() {
            let mut number = || take_unsigned(&mut rest).ok_or(wrong("a number is malformed"));
            let (tag, value) = (number()?, number()?);
            let field = u32::try_from(tag >> 3).map_err(|_| wrong("a field is unknown"))?;
            if field == COUNT && tag & 7 == VARINT {
                let count = u32::try_from(value).ok().filter(|count| *count > 0);
                let count = count.filter(|_| message.count == 0);
                message.count = count.ok_or(wrong("its count is 0, too large or repeated"))?;
                continue;
            }
            let length = usize::try_from(value).ok().filter(|length| *length <= rest.len());
            let (bytes, later) = rest.split_at(length.ok_or(wrong("it is cut"))?);
            rest = later;
            if tag & 7 != BYTES || bytes.is_empty() {
                return Err(wrong("it has bytes that belong to no field"));
            }
            if field == DRIVERS {
                let name = std::str::from_utf8(bytes).map_err(|_| wrong("a name is not UTF-8"))?;
                message.drivers.push(name.to_owned());
                continue;
            }
            let column = message.field_mut(field).filter(|column| column.is_empty());
            let column = column.ok_or(wrong("it has bytes that belong to no field"))?;
            column.extend_from_slice(bytes);
        }
        Ok(message)
    }
}

fn put(to: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    push_unsigned(to, u64::from(number) << 3 | BYTES);
    push_unsigned(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    /// The fields as prost reads and writes them.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Fields {
        #[prost(uint32, tag = 1)]
        count: u32,
        #[prost(bytes = "vec", tag = 2)]
        time_ms: Vec<u8>,
        #[prost(bytes = "vec", tag = 5)]
        speed_cmps: Vec<u8>,
        #[prost(bytes = "vec", tag = 9)]
        speed_present: Vec<u8>,
        #[prost(bytes = "vec", tag = 16)]
        ignition_runs: Vec<u8>,
        #[prost(string, repeated, tag = 17)]
        drivers: Vec<String>,
        #[prost(bytes = "vec", tag = 18)]
        driver_runs: Vec<u8>,
    }

    impl From<Message> for Fields {
        fn from(message: Message) -> Self {
            let Message { count, time_ms, speed_cmps, speed_present, .. } = message;
            let Message { ignition_runs, drivers, driver_runs, .. } = message;
            Self { count, time_ms, speed_cmps, speed_present, ignition_runs, drivers, driver_runs }
        }
    }

    fn message() -> impl Strategy<Value = Message> {
        let column = || prop::collection::vec(any::<u8>(), 0..200);
        let names = prop::collection::vec("[a-z\u{e9}]{1,140}", 0..4);
        (any::<u32>(), column(), column(), column(), column(), names, column()).prop_map(
            |(count, time_ms, speed_cmps, speed_present, ignition_runs, drivers, driver_runs)| {
                let readings = Message { speed_cmps, speed_present, ..Message::default() };
                Message { count, time_ms, ignition_runs, drivers, driver_runs, ..readings }
            },
        )
    }

    /// Every changed byte: what is read has exactly one spelling, but for the order of the fields.
    fn check(bytes: &[u8]) {
        let Ok(read) = Message::read(bytes) else { return };
        let theirs = Fields::decode(bytes).unwrap();
        assert_eq!(Fields::from(read.clone()), theirs);
        let mut again = Vec::new();
        read.write(&mut again);
        assert_eq!(again.len(), bytes.len());
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_prost(
            message in message(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index,
        ) {
            let mut bytes = Vec::new();
            message.write(&mut bytes);
            prop_assert_eq!(&bytes, &Fields::from(message.clone()).encode_to_vec());
            prop_assert_eq!(Message::read(&bytes).ok(), Some(message));
            if !bytes.is_empty() {
                check(&bytes[..cut.index(bytes.len())]);
                let at = at.index(bytes.len());
                bytes[at] = byte;
                check(&bytes);
            }
        }
    }
}
