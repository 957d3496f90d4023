//! Splits arrays of plain samples without parsing them first to find the ends of their elements.

use memchr::memchr2_iter;
use serde_json::value::RawValue;

use super::{Splitter, checked};
use crate::source::fields::Node;
use crate::source::json_fast::{skip_spaces, skip_value, take_text};
use crate::source::map::Token;

/// Maximum number of brackets in an element that the template does not read: one with more may be
/// nested too deep, which is an error of the whole record.
const MAX_BRACKETS: usize = 64;

/// Maximum number of names on the path of an array.
const MAX_PATH: usize = 32;

/// The text after spaces.
fn after_spaces(text: &str) -> &str {
    &text[text.len() - skip_spaces(text.as_bytes()).len()..]
}

impl Splitter<'_, '_> {
    /// Adds the samples of a list. Does nothing and returns false if it is not a list of samples
    /// with nothing around them, or cannot be split.
    pub(super) fn is_plain_list(&mut self, text: &str) -> bool {
        let list = after_spaces(text).strip_prefix('[');
        let Some(list) = list.filter(|_| self.decoder.shape.outer.is_empty()) else { return false };
        self.attempt(|splitter| splitter.elements(list))
    }

    /// Adds samples; undoes that, and returns false, unless nothing but spaces follows them.
    fn attempt<'t>(&mut self, add: impl FnOnce(&mut Self) -> Option<&'t str>) -> bool {
        // Entries of earlier samples could have been changed.
        if self.count > 0 {
            return false;
        }
        let before = (self.batch.entries.len(), self.batch.text.len(), self.batch.raw.len());
        if add(self).is_some_and(|rest| after_spaces(rest).is_empty()) || self.is_over {
            return true;
        }
        self.batch.entries.truncate(before.0);
        self.batch.text.truncate(before.1);
        self.batch.raw.truncate(before.2);
        (self.count, self.empty, self.bad) = (0, 0, 0);
        self.more.clear();
        false
    }

    /// Adds the samples of an array after its bracket, and returns what follows the array.
    fn elements<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let mut rest = after_spaces(text);
        if let Some(after) = rest.strip_prefix(']') {
            return Some(after);
        }
        loop {
            rest = after_spaces(self.element(rest)?);
            if self.is_over {
                return None;
            }
            if let Some(after) = rest.strip_prefix(']') {
                return Some(after);
            }
            rest = after_spaces(rest.strip_prefix(',')?);
        }
    }

    /// Adds the sample that a text begins with, and returns the rest.
    fn element<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let (context, out) = (&self.input.context, &mut self.batch.text);
        let before = out.len();
        let read = self.template.read_next(&self.decoder.shape, text.as_bytes(), context, out);
        if let Some((decoded, rest)) = read {
            let (element, rest) = text.split_at(text.len() - rest.len());
            let content = checked(decoded, self.input.check, out, before);
            self.emit(element, content);
            return Some(rest);
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        let element = values.next()?.ok()?.get();
        let end = values.byte_offset();
        if memchr2_iter(b'{', b'[', element.as_bytes()).count() > MAX_BRACKETS {
            return None;
        }
        self.sample(element, None);
        Some(&text[end..])
    }

    /// Adds a record that is itself a sample, if the template reads it: it has then no array.
    pub(super) fn is_plain_record(&mut self, text: &str) -> bool {
        let samples = self.decoder.shape.map.samples.as_ref();
        if !samples.is_some_and(|samples| samples.or_record) {
            return false;
        }
        let (context, out) = (&self.input.context, &mut self.batch.text);
        let before = out.len();
        let read = self.template.read(&self.decoder.shape, text.as_bytes(), context, out);
        let Some(decoded) = read else { return false };
        let content = checked(decoded, self.input.check, out, before);
        self.emit(text, content);
        true
    }

    /// Adds the samples of the array at the first path, if there is nothing around it that counts.
    /// Otherwise does nothing and returns false.
    pub(super) fn is_plain_array(&mut self, text: &str) -> bool {
        let shape = &self.decoder.shape;
        let (Some(samples), Some([names])) =
            (&shape.map.samples, shape.outer.first().map(|path| &path[..]))
        else {
            return false;
        };
        let path = &samples.list[0][0];
        if !shape.is_plain || path.len() > MAX_PATH {
            return false;
        }
        self.attempt(|splitter| splitter.object(after_spaces(text), names, path))
    }

    /// Reads an object on the path of the array, and returns what follows it. `None` if it is not
    /// plain, or has another name of the field map.
    fn object<'t>(&mut self, text: &'t str, node: &Node, path: &[Token]) -> Option<&'t str> {
        let (Token::Name(name), path) = path.split_first()? else { return None };
        let mut rest = after_spaces(text.strip_prefix('{')?);
        let mut is_found = false;
        loop {
            let mut bytes = rest.as_bytes();
            let own = take_text(&mut bytes)?;
            rest = after_spaces(&rest[rest.len() - bytes.len()..]);
            rest = after_spaces(rest.strip_prefix(':')?);
            let own = std::str::from_utf8(own).ok()?;
            match node.child(own).map(|at| &node.children[at].node) {
                None => {
                    let mut bytes = rest.as_bytes();
                    skip_value(&mut bytes)?;
                    rest = &rest[rest.len() - bytes.len()..];
                }
                Some(child) if own == &**name && !is_found => {
                    is_found = true;
                    rest = match path {
                        [] => self.elements(rest.strip_prefix('[')?)?,
                        path => self.object(rest, child, path)?,
                    };
                }
                Some(_) => return None,
            }
            rest = after_spaces(rest);
            if let Some(after) = rest.strip_prefix('}') {
                return is_found.then_some(after);
            }
            rest = after_spaces(rest.strip_prefix(',')?);
        }
    }
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
