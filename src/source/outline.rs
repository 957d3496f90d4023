//! The names in records, and what their values look like: what a field map is proposed by.
//! Memory is bounded, whatever is observed.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::table_sample::TableSample;
use super::text::head_of;
use super::time_forms::TimeForms;
use super::value::Value;

/// Maximum number of names.
const MAX_NAMES: usize = 500;

/// Maximum length of a path, bytes.
const MAX_PATH: usize = 200;

/// Maximum depth of objects and arrays.
const MAX_DEPTH: usize = 12;

/// Maximum number of elements of an array in a record that are looked at.
const MAX_ELEMENTS: usize = 3;

/// Maximum number of elements of an array of records that are looked at.
const MAX_RECORDS: usize = 20;

/// Maximum number of different values of a name that are counted.
const MAX_VALUES: usize = 256;

/// Maximum length of an example, bytes.
const MAX_EXAMPLE: usize = 60;

/// Maximum number of examples of a name.
const MAX_EXAMPLES: usize = 200;

/// The names in records.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// What was seen, by path: of a table, the name of the column; of JSON, a pointer in which `*`
    /// is any element of an array of objects.
    names: BTreeMap<String, NameValues>,
    /// Paths of texts that contain a JSON object.
    opened: BTreeMap<String, u64>,
    /// Whether there were more than `MAX_NAMES`.
    pub is_cut: bool,
}

/// The values of a name.
#[derive(Debug, Default)]
pub(crate) struct NameValues {
    /// Number of values.
    pub count: u64,
    /// Number of those that are numbers, or texts of numbers.
    pub numbers: u64,
    /// Number of those that are true or false.
    pub booleans: u64,
    /// Smallest and largest number.
    pub range: Option<(f64, f64)>,
    /// Number of those that are a state of a switch, such as on, 0 or true.
    pub switches: u64,
    /// Number of those that are a word for off, and for on: neither a number nor true or false.
    words: [u64; 2],
    /// The first values. Those of the columns of a table are of the same rows: an empty cell is an
    /// empty text.
    pub examples: Vec<String>,
    /// Number of names that were seen before.
    pub order: usize,
    times: OnceLock<TimeForms>,
    /// Hashes of the first different values.
    values: HashSet<u64>,
}

impl NameValues {
    fn observe(&mut self, text: &str, number: Option<f64>) {
        self.count += 1;
        if let Some(number) = number {
            self.numbers += 1;
            let (min, max) = self.range.unwrap_or((number, number));
            self.range = Some((min.min(number), max.max(number)));
        }
        if let Some(is_on) = Value::Cell(text).truth() {
            self.switches += 1;
            let is_plain = number.is_some() || text.to_ascii_lowercase().parse::<bool>().is_ok();
            self.words[usize::from(is_on)] += u64::from(!is_plain);
        }
        self.add_example(text);
        if self.values.len() < MAX_VALUES {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            self.values.insert(hasher.finish());
        }
    }

    fn add_example(&mut self, text: &str) {
        if self.examples.len() < MAX_EXAMPLES {
            self.examples.push(head_of(text, MAX_EXAMPLE).to_owned());
        }
    }

    /// What the values are as times. Called after the last one.
    pub(crate) fn times(&self) -> &TimeForms {
        self.times.get_or_init(|| TimeForms::new(self.examples.iter().map(String::as_str)))
    }

    /// The first numbers.
    pub(crate) fn first_numbers(&self) -> impl Iterator<Item = f64> {
        let numbers = self.examples.iter().filter_map(|text| text.parse().ok());
        numbers.filter(|number: &f64| number.is_finite())
    }

    /// Whether nearly all values are numbers from `min` to `max`.
    #[must_use]
    pub(crate) fn is_mostly_within(&self, min: f64, max: f64) -> bool {
        let within = self.first_numbers().filter(|number| (min..=max).contains(number)).count();
        let count = self.examples.iter().filter(|text| !text.is_empty()).count();
        within > 0 && within * 10 >= count * 9
    }

    /// Whether values repeat, as those of a device do.
    #[must_use]
    pub(crate) fn repeats(&self) -> bool {
        let different = self.values.len();
        different < MAX_VALUES && (different as u64) * 2 <= self.count
    }

    /// Whether all values are words for on and off, and both occur.
    #[must_use]
    pub(crate) fn is_on_and_off(&self) -> bool {
        self.words.iter().sum::<u64>() == self.count && !self.words.contains(&0)
    }

    /// Whether all values are numbers from `min` to `max`.
    #[must_use]
    pub(crate) fn is_within(&self, min: f64, max: f64) -> bool {
        self.numbers == self.count && self.range.is_some_and(|it| it.0 >= min && it.1 <= max)
    }
}

impl Outline {
    /// The columns of a table.
    #[must_use]
    pub(crate) fn of_table(table: &TableSample) -> Self {
        let mut outline = Self::default();
        for (column, name) in table.names.iter().enumerate() {
            // Of two columns with one name, none can be read.
            let Some(seen) = outline.seen(name) else { continue };
            for cell in table.rows.iter().map(|row| &row[column]) {
                let number = cell.parse().ok().filter(|number: &f64| number.is_finite());
                match cell.is_empty() {
                    true => seen.add_example(""),
                    false => seen.observe(cell, number),
                }
            }
        }
        outline
    }

    /// Looks at a record of JSON. What is not JSON is looked at up to the error.
    pub(crate) fn observe(&mut self, record: &[u8]) {
        let mut path = String::new();
        let mut json = serde_json::Deserializer::from_slice(record);
        // Decoding reports what is wrong with a record.
        Walk { outline: self, path: &mut path, depth: 0, array: None }.deserialize(&mut json).ok();
    }

    /// The values of a source in a map: a name, or a pointer to it.
    pub(crate) fn of_source(&self, source: &str) -> Option<&NameValues> {
        let plain = || source.strip_prefix('/').map(|it| it.replace("~1", "/").replace("~0", "~"));
        let known = self.names.get(source).or_else(|| self.names.get(&format!("/{source}")));
        known.or_else(|| self.names.get(&plain()?)).or_else(|| {
            let is_it = |name: &&String| name.contains("/*") && name.ends_with(source);
            self.names.keys().find(is_it).and_then(|name| self.names.get(name))
        })
    }

    /// The names, with their values.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &NameValues)> {
        self.names.iter().map(|(name, seen)| (name.as_str(), seen))
    }

    /// The path of texts that contain a JSON object, if there is one.
    #[must_use]
    pub(crate) fn opened(&self) -> Option<&str> {
        self.opened.iter().max_by_key(|(_, count)| **count).map(|(path, _)| path.as_str())
    }

    fn seen(&mut self, path: &str) -> Option<&mut NameValues> {
        if !self.names.contains_key(path) {
            if self.names.len() >= MAX_NAMES || path.len() > MAX_PATH {
                self.is_cut = true;
                return None;
            }
            let seen = NameValues { order: self.names.len(), ..NameValues::default() };
            self.names.insert(path.to_owned(), seen);
        }
        self.names.get_mut(path)
    }

    fn text(&mut self, path: &mut String, depth: usize, text: &str) {
        let is_object = text.starts_with('{') && text.ends_with('}');
        if is_object && depth < MAX_DEPTH && self.opened.len() < MAX_VALUES {
            *self.opened.entry(path.clone()).or_default() += 1;
            let mut json = serde_json::Deserializer::from_str(text);
            let depth = depth + MAX_DEPTH / 2;
            Walk { outline: self, path, depth, array: None }.deserialize(&mut json).ok();
            return;
        }
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        if let Some(seen) = self.seen(path) {
            seen.observe(text, number);
        }
    }

    fn number(&mut self, path: &str, number: f64, text: &str) {
        if let Some(seen) = self.seen(path) {
            seen.observe(text, Some(number));
        }
    }
}

/// Looks at the value of a path.
struct Walk<'a> {
    outline: &'a mut Outline,
    path: &'a mut String,
    depth: usize,
    /// Length of the path of the array of which it is an element.
    array: Option<usize>,
}

impl Walk<'_> {
    /// The value of a name or an element in this one. Restores the path.
    fn inner(&mut self, name: &str, is_element: bool, visit: impl FnOnce(Walk<'_>)) {
        let length = self.path.len();
        let array = is_element.then_some(length);
        self.path.push('/');
        self.path.push_str(name);
        visit(Walk { outline: self.outline, path: self.path, depth: self.depth + 1, array });
        self.path.truncate(length);
    }
}

/// Whether a name can be written in a field map as it is.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '$' | '#');
    !name.is_empty() && name.chars().all(is_plain)
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth >= MAX_DEPTH || self.path.len() > MAX_PATH {
            return IgnoredAny::deserialize_any(deserializer);
        }
        deserializer.deserialize_any(self)
    }
}

/// Skips a value.
trait Skip<'de> {
    fn deserialize_any<D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error>;
}

impl<'de> Skip<'de> for IgnoredAny {
    fn deserialize_any<D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_ignored_any(Self).map(drop)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        if let Some(seen) = self.outline.seen(self.path) {
            seen.observe(if value { "true" } else { "false" }, None);
            seen.booleans += 1;
        }
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "only its magnitude counts")]
        self.outline.number(self.path, value as f64, &value.to_string());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        #[expect(clippy::cast_precision_loss, reason = "only its magnitude counts")]
        self.outline.number(self.path, value as f64, &value.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.outline.number(self.path, value, &value.to_string());
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.outline.text(self.path, self.depth, text);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        // The elements of an array at the top are records.
        let is_top = self.path.is_empty();
        for index in 0..if is_top { MAX_RECORDS } else { MAX_ELEMENTS } {
            let element = Element { walk: &mut self, index: (!is_top).then_some(index) };
            if elements.next_element_seed(element)?.is_none() {
                return Ok(());
            }
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        if let Some(length) = self.array {
            self.path.truncate(length);
            self.path.push_str("/*");
        }
        while let Some(name) = members.next_key::<String>()? {
            if !is_plain(&name) {
                members.next_value::<IgnoredAny>()?;
                continue;
            }
            let mut result = Ok(());
            self.inner(&name, false, |walk| result = members.next_value_seed(walk));
            result?;
        }
        Ok(())
    }
}

/// An element of an array, with its index unless it is a record.
struct Element<'a, 'w> {
    walk: &'a mut Walk<'w>,
    index: Option<usize>,
}

impl<'de> DeserializeSeed<'de> for Element<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { walk, index } = self;
        let Some(index) = index else {
            let (path, depth) = (&mut *walk.path, walk.depth + 1);
            let record = Walk { outline: walk.outline, path, depth, array: None };
            return record.deserialize(deserializer);
        };
        let mut result = Ok(());
        walk.inner(&index.to_string(), true, |walk| result = walk.deserialize(deserializer));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(records: &[&str]) -> Outline {
        let mut outline = Outline::default();
        records.iter().for_each(|record| outline.observe(record.as_bytes()));
        outline
    }

    fn names(outline: &Outline) -> Vec<&str> {
        outline.names().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_are_paths_and_elements_are_alike() {
        let record = r#"{"id":"a","gps":{"lat":1,"ok":true,"none":null},
            "at":[13.4,52.5,30.0,1.0],"log":[{"t":1},{"t":2}],"a/b":1,"a,b":{"c":1}}"#;
        let outline = outline(&[record]);
        assert_eq!(
            names(&outline),
            ["/at/0", "/at/1", "/at/2", "/gps/lat", "/gps/ok", "/id", "/log/*/t"]
        );
        let (_, seen) = outline.names().find(|(name, _)| *name == "/log/*/t").unwrap();
        assert_eq!((seen.count, seen.numbers, seen.range), (2, 2, Some((1.0, 2.0))));
        assert_eq!(super::Outline::of_table(&TableSample::new(b"a;\"b c\"")).names().count(), 2);
    }

    #[test]
    fn texts_of_json_are_opened() {
        let outline = outline(&[r#"{"payload":"{\"lat\":52.5}","note":"{"}"#]);
        assert_eq!(names(&outline), ["/note", "/payload/lat"]);
        assert_eq!(outline.opened(), Some("/payload"));
    }

    #[test]
    fn values_that_repeat_and_their_range_are_known() {
        let records: Vec<_> =
            (0..10).map(|n| format!("{{\"a\":{n},\"b\":\"{}\"}}", n % 2)).collect();
        let outline = outline(&records.iter().map(String::as_str).collect::<Vec<_>>());
        let seen: Vec<_> = outline.names().map(|(_, seen)| seen).collect();
        assert_eq!((seen[0].repeats(), seen[1].repeats()), (false, true));
        assert!(seen[0].is_within(0.0, 9.0) && !seen[0].is_within(0.0, 8.0));
        assert_eq!((seen[1].numbers, seen[1].examples[0].as_str()), (10, "0"));
    }

    #[test]
    fn hostile_records_are_bounded() {
        let deep = "{\"a\":".repeat(100) + "1" + &"}".repeat(100);
        let wide: Vec<_> = (0..2000).map(|n| format!("\"n{n}\":{n}")).collect();
        let wide = format!("{{{}}}", wide.join(","));
        let long = format!("{{\"{}\":1}}", "x".repeat(5000));
        let mut nested = "{\"a\":1}".to_owned();
        for _ in 0..8 {
            nested = serde_json::json!({"p": nested}).to_string();
        }
        let outline = outline(&[&deep, &wide, &long, &nested, "{\"a\":", "[[[[", "\"", ""]);
        assert!(outline.is_cut);
        assert!(names(&outline).len() <= MAX_NAMES);
        assert!(names(&outline).iter().all(|name| name.len() <= MAX_PATH));
    }
}
