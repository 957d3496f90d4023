//! The compact protocol of Thrift, as Parquet uses it. Nothing is allocated for what bytes claim.

/// Maximum number of elements of a list.
const MAX_ELEMENTS: u64 = 1 << 15;

/// Maximum depth of structures.
const MAX_DEPTH: usize = 16;

/// Types of values.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const STRUCT: u8 = 12;

/// Walks over values; `None` where the bytes are none.
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    /// Position of the next byte.
    pub at: usize,
}

/// A field of a structure that is an integer or a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Integer(i64),
    Boolean(bool),
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// An integer of up to 64 bits, 7 in each byte.
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Walks over a structure. `on` is called with the path of ids of each field that is a number
    /// or a boolean, of this structure and of those in it.
    pub(super) fn structure(&mut self, on: &mut dyn FnMut(&[i64], Field)) -> Option<()> {
        self.fields(&mut Vec::new(), on)
    }

    fn fields(&mut self, path: &mut Vec<i64>, on: &mut dyn FnMut(&[i64], Field)) -> Option<()> {
        if path.len() >= MAX_DEPTH {
            return None;
        }
        let mut id = 0_i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(());
            }
            let kind = head & 0x0f;
            id = match head >> 4 {
                0 => self.signed()?,
                step => id.checked_add(i64::from(step))?,
            };
            path.push(id);
            match kind {
                TRUE | FALSE => on(path, Field::Boolean(kind == TRUE)),
                4..=6 => on(path, Field::Integer(self.signed()?)),
                _ => self.value(kind, path, on)?,
            }
            path.pop();
        }
    }

    /// Walks over a value of a type, which is not a field that `on` is called with.
    fn value(
        &mut self,
        kind: u8,
        path: &mut Vec<i64>,
        on: &mut dyn FnMut(&[i64], Field),
    ) -> Option<()> {
        match kind {
            TRUE | FALSE | 3 => self.byte().map(drop),
            4..=6 => self.signed().map(drop),
            7 => self.skip(8),
            8 => {
                let length = usize::try_from(self.unsigned()?).ok()?;
                self.skip(length)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.unsigned()?,
                    count => u64::from(count),
                };
                self.check_count(count)?;
                (0..count).try_for_each(|_| self.element(head & 0x0f, path, on))
            }
            11 => {
                let count = self.unsigned()?;
                self.check_count(count)?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                (0..count).try_for_each(|_| {
                    self.element(kinds >> 4, path, on)?;
                    self.element(kinds & 0x0f, path, on)
                })
            }
            STRUCT => self.fields(path, on),
            _ => None,
        }
    }

    /// Walks over an element, whose fields are of no interest.
    fn element(
        &mut self,
        kind: u8,
        path: &mut Vec<i64>,
        on: &mut dyn FnMut(&[i64], Field),
    ) -> Option<()> {
        if path.len() >= MAX_DEPTH {
            return None;
        }
        path.push(-1);
        self.value(kind, path, on)?;
        path.pop();
        Some(())
    }

    /// Each element has at least a byte.
    fn check_count(&self, count: u64) -> Option<()> {
        let left = (self.bytes.len() - self.at) as u64;
        (count <= left.min(MAX_ELEMENTS)).then_some(())
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        let end = self.at.checked_add(bytes)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn walk(bytes: &[u8]) -> Option<Vec<(Vec<i64>, Field)>> {
        let mut found = Vec::new();
        Walk::new(bytes).structure(&mut |path, field| found.push((path.to_vec(), field)))?;
        Some(found)
    }

    #[test]
    fn fields_are_found_by_their_path() {
        // 1: 3; 3: true; 5: {1: -1}; 6: [{1: 1}]; 20: 2.
        let bytes = [0x15, 6, 0x21, 0x2c, 0x15, 1, 0, 0x19, 0x1c, 0x15, 2, 0, 0x05, 40, 4, 0];
        let expected = vec![
            (vec![1], Field::Integer(3)),
            (vec![3], Field::Boolean(true)),
            (vec![5, 1], Field::Integer(-1)),
            (vec![6, -1, 1], Field::Integer(1)),
            (vec![20], Field::Integer(2)),
        ];
        assert_eq!(walk(&bytes), Some(expected));
        for cut in 0..bytes.len() {
            assert_eq!(walk(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_is_longer_or_deeper_than_its_bytes_is_none() {
        let list = [0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        let map = [0x1b, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x55, 0, 0];
        let text = [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        for bytes in [&list[..], &map, &text, &[0x1c; 1000], &[0x19; 1000]] {
            assert_eq!(walk(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            walk(&bytes);
        }
    }
}
