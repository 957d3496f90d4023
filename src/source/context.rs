//! What surrounds a record in its log: where a field map finds `@key` and its like.

use super::map::Around;
use super::repeated_hour::RepeatedHours;
use super::text::short;

/// Name of stdin as an input, and origin of samples that came by HTTP: neither is a file.
const NOT_FILES: [&str; 2] = ["-", HTTP_ORIGIN];

/// Origin of samples that came by HTTP.
pub(crate) const HTTP_ORIGIN: &str = "http";

/// What surrounds a record. A field map may name each part of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordContext<'a> {
    /// Key of the record.
    pub key: Option<&'a [u8]>,
    /// Headers of the record, or of the request that it is in.
    pub headers: &'a [(String, Option<Vec<u8>>)],
    /// Name of the topic.
    pub topic: Option<&'a str>,
    /// Path of the file.
    pub file: Option<&'a str>,
    /// The records before it in the file, where their order decides times.
    pub order: Option<&'a RepeatedHours>,
}

impl<'a> RecordContext<'a> {
    /// The context of a record in a file with this name.
    #[must_use]
    pub fn of_file(path: &'a str) -> Self {
        let file = (!NOT_FILES.contains(&path)).then_some(path);
        Self { file, ..Self::default() }
    }

    /// The value; an empty one does not exist, nor does one that is not UTF-8.
    pub(super) fn text(&self, around: &Around) -> Option<&'a str> {
        let text = match around {
            Around::Key => utf8(self.key?)?,
            Around::KeyPart(part) => utf8(self.key?)?.split('/').nth(*part)?,
            Around::Header(name) => self.header(name)?,
            Around::Topic => self.topic?,
            Around::File => {
                let name = self.file?.rsplit(['/', std::path::MAIN_SEPARATOR]).next()?;
                name.split('.').next()?
            }
        };
        (!text.is_empty()).then_some(text)
    }

    /// The first header with a name, in any case: that of an HTTP header does not count.
    fn header(&self, name: &str) -> Option<&'a str> {
        let named = |(header, _): &&(String, Option<Vec<u8>>)| header.eq_ignore_ascii_case(name);
        utf8(self.headers.iter().find(named)?.1.as_deref()?)
    }
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Where to find a part of the context, for the message that it is missing.
pub(super) fn describe(around: &Around) -> String {
    match around {
        Around::Key => "no key of the record (files and HTTP have none)".into(),
        Around::KeyPart(part) => {
            format!("no part {part} of the record's key (files and HTTP have none)")
        }
        Around::Header(name) => {
            let name = short(name);
            format!("no header {name} (records of a topic and HTTP requests have headers)")
        }
        Around::Topic => "no topic that the record is from".into(),
        Around::File => "no file that the record is from".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_context_is_found() {
        let headers = [("X-Limit-D".to_owned(), Some(b"phone".to_vec())), ("none".into(), None)];
        let context = RecordContext {
            key: Some(b"owntracks/fleet/van-1"),
            headers: &headers,
            topic: Some("samples"),
            file: Some("/data/day.1/van-7.csv.gz"),
            order: None,
        };
        for (around, text) in [
            (Around::Key, Some("owntracks/fleet/van-1")),
            (Around::KeyPart(0), Some("owntracks")),
            (Around::KeyPart(2), Some("van-1")),
            (Around::KeyPart(3), None),
            (Around::Header("x-limit-d".into()), Some("phone")),
            (Around::Header("none".into()), None),
            (Around::Header("other".into()), None),
            (Around::Topic, Some("samples")),
            (Around::File, Some("van-7")),
        ] {
            assert_eq!(context.text(&around), text, "{around:?}");
            assert_eq!(RecordContext::default().text(&around), None, "{around:?}");
        }
    }

    #[test]
    fn what_is_empty_or_not_utf8_does_not_exist() {
        let key = |key| RecordContext { key: Some(key), ..RecordContext::default() };
        assert_eq!(key(b"").text(&Around::Key), None);
        assert_eq!(key(b"/a").text(&Around::KeyPart(0)), None);
        assert_eq!(key(b"\xff/a").text(&Around::KeyPart(1)), None);
        for name in ["-", "http", ".hidden"] {
            assert_eq!(RecordContext::of_file(name).text(&Around::File), None, "{name}");
        }
    }
}
