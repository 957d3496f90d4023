//! Splits plain JSON in one pass.

use memchr::memchr2_iter;
use serde_json::value::RawValue;

use super::Splitter;
use crate::source::fields::Node;
use crate::source::json::{Odd, Plain};
use crate::source::map::Token;
use crate::source::record::Fields;

/// Maximum number of brackets in an element that is not plain: one with more may be nested too
/// deep, which is an error of the whole record.
const MAX_BRACKETS: usize = 64;

impl Splitter<'_, '_> {
    /// Splits plain JSON in one pass, without finding the ends of its samples first. If it is not
    /// plain, undoes that and returns false.
    pub(super) fn in_one_pass<'t>(
        &mut self,
        text: &'t str,
        add: impl FnOnce(&mut Self, &mut Plain<'t>) -> Result<(), Odd>,
    ) -> bool {
        // Entries of earlier samples could have been changed.
        if self.count > 0 {
            return false;
        }
        let before = (self.batch.entries.len(), self.batch.text.len(), self.batch.raw.len());
        let mut json = Plain::of_text(text);
        if (add(self, &mut json).is_ok() && json.is_at_end()) || self.is_over {
            return true;
        }
        self.batch.entries.truncate(before.0);
        self.batch.text.truncate(before.1);
        self.batch.raw.truncate(before.2);
        (self.count, self.empty, self.bad) = (0, 0, 0);
        self.more.clear();
        false
    }

    /// Adds the samples of an array in a text.
    pub(super) fn elements(&mut self, text: &str, json: &mut Plain<'_>) -> Result<(), Odd> {
        json.each(*b"[]", |json, _| {
            if self.is_full() {
                return Err(Odd);
            }
            json.peek();
            let (mut own, mut fields) = (*json, Fields::default());
            if own.object(&self.decoder.shape.root, &mut fields).is_ok() {
                self.finish(&text[json.at..own.at], Ok(&mut fields), None);
                json.at = own.at;
                return Ok(());
            }
            let mut values = serde_json::Deserializer::from_str(&text[json.at..]).into_iter();
            let element: &RawValue = values.next().and_then(Result::ok).ok_or(Odd)?;
            json.at += values.byte_offset();
            if memchr2_iter(b'{', b'[', element.get().as_bytes()).count() > MAX_BRACKETS {
                return Err(Odd);
            }
            self.sample(element.get(), None);
            Ok(())
        })
    }

    /// Adds a record that is itself a sample, and has no name of an array of samples.
    pub(super) fn lone_sample(&mut self, text: &str, json: &mut Plain<'_>) -> Result<(), Odd> {
        let (mut own, mut fields) = (*json, Fields::default());
        own.object(&self.decoder.shape.root, &mut fields)?;
        if !own.is_at_end() {
            return Err(Odd);
        }
        self.finish(text, Ok(&mut fields), None);
        json.at = own.at;
        Ok(())
    }

    /// Adds the samples of the array at a path of an object that has no other name of the field
    /// map.
    pub(super) fn lone_array(
        &mut self,
        (text, json): (&str, &mut Plain<'_>),
        node: &Node,
        path: &[Token],
    ) -> Result<(), Odd> {
        let Some((Token::Name(name), path)) = path.split_first() else { return Err(Odd) };
        let mut is_found = false;
        json.each(*b"{}", |json, _| {
            let own = json.name()?;
            match node.child(own) {
                None => json.skip(),
                Some(at) if own == &**name && !is_found => {
                    is_found = true;
                    match path {
                        [] => self.elements(text, json),
                        path => self.lone_array((text, json), &node.children[at].node, path),
                    }
                }
                Some(_) => Err(Odd),
            }
        })?;
        if is_found { Ok(()) } else { Err(Odd) }
    }
}

#[cfg(test)]
#[path = "one_pass_tests.rs"]
mod tests;
