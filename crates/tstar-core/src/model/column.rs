//! Columns of packed zigzag varints, written and read in place. Stored paths use them, and so do
//! long paths in memory.

/// Maximum length of a 64-bit varint, bytes.
const MAX_VARINT: usize = 10;

/// Appends a zigzag varint.
#[inline]
pub fn push(column: &mut Vec<u8>, value: i64) {
    push_unsigned(column, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// Appends a varint.
#[inline]
pub fn push_unsigned(column: &mut Vec<u8>, mut rest: u64) {
    while rest >= 0x80 {
        column.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    column.push(rest.to_le_bytes()[0]);
}

/// Counts the varints in a column: the last byte of each has no high bit.
pub fn entries(column: &[u8]) -> usize {
    column.iter().filter(|&&byte| byte < 0x80).count()
}

/// Removes the first zigzag varint from a column and returns its value. `None` if the column has no
/// complete varint, or if the varint is too long or not in its shortest form.
#[inline]
pub fn take_varint(column: &mut &[u8]) -> Option<i64> {
    let value = take_unsigned(column)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// As [`take_varint`], of a varint without a sign.
#[inline]
pub fn take_unsigned(column: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (at, &byte) in column.iter().take(MAX_VARINT).enumerate() {
        // Only one bit of the tenth byte is used.
        if at == MAX_VARINT - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            if byte == 0 && at > 0 {
                return None;
            }
            *column = &column[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Second differences, wrapping: every sequence of values can be encoded.
#[derive(Clone, Copy, Default)]
pub struct Steps {
    value: i64,
    step: i64,
    begun: bool,
}

impl Steps {
    /// Encodes the next value.
    #[inline]
    pub fn entry(&mut self, value: i64) -> i64 {
        if !self.begun {
            *self = Self { value, step: 0, begun: true };
            return value;
        }
        let step = value.wrapping_sub(self.value);
        let entry = step.wrapping_sub(self.step);
        (self.value, self.step) = (value, step);
        entry
    }

    /// Decodes the next entry.
    #[inline]
    pub fn value(&mut self, entry: i64) -> i64 {
        if !self.begun {
            *self = Self { value: entry, step: 0, begun: true };
            return entry;
        }
        self.step = self.step.wrapping_add(entry);
        self.value = self.value.wrapping_add(self.step);
        self.value
    }
}
