//! Collects the values of a track point of GPX.
//!
//! An entity other than the five of XML is an error: none is ever expanded.

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::{ElementNames, Format, Framing};
use crate::model::reason::DeadReason;
use crate::source::fields::Node;
use crate::source::record::Fields;
use crate::source::shape::Shape;
use crate::source::text::clipped;
use crate::source::{NoSample, SampleError};

/// Maximum nesting depth of a point.
const MAX_DEPTH: usize = 32;

pub(super) const FORMAT: Format = Format {
    framing: Framing::Elements(ElementNames { root: "gpx", record: "trkpt" }),
    is_record: |record| record.first() == Some(&b'<'),
    body: |record| record,
    read: Some(read),
    preset: Some("gpx"),
};

/// Collects the values of a `trkpt`: its attributes, and the texts of its elements at any depth, by
/// their names without prefix. Of elements with one name the first counts.
///
/// # Errors
/// `bad_record`: it is not well-formed.
fn read<'r>(point: &'r str, shape: &Shape, fields: &mut Fields<'r>) -> Result<(), NoSample> {
    let mut walk = Walk { names: &shape.root, fields, seen: 0 };
    Ok(walk.read(point).map_err(|problem| {
        let message = format!("not a track point: {}", clipped(&problem));
        Box::new(SampleError::new(DeadReason::BadRecord, message))
    })?)
}

/// The name of the sample's field for a name of GPX.
fn field_name(name: &str) -> &str {
    match name {
        "ele" => "altitude",
        "course" => "heading",
        other => other,
    }
}

struct Walk<'m, 'f, 'v> {
    names: &'m Node,
    fields: &'f mut Fields<'v>,
    /// Bit set of the children of `names` that have a value.
    seen: u32,
}

impl Walk<'_, '_, '_> {
    fn read(&mut self, point: &str) -> Result<(), String> {
        let mut reader = Reader::from_str(point);
        let (mut depth, mut text) = (0, String::new());
        loop {
            match reader.read_event().map_err(|error| error.to_string())? {
                Event::Start(start) => {
                    depth += 1;
                    if depth > MAX_DEPTH {
                        return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
                    }
                    self.begin(&start, depth == 1)?;
                    text.clear();
                }
                Event::Empty(start) => self.begin(&start, depth == 0)?,
                Event::End(end) => {
                    self.offer(end.local_name().as_ref(), &text);
                    text.clear();
                    depth -= 1;
                }
                Event::Text(part) => text.push_str(&part.xml10_content()),
                Event::CData(part) => text.push_str(&part.xml10_content()),
                Event::GeneralRef(entity) => text.push_str(&resolve(&entity)?),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::DocType(_) => return Err("it has a document type".into()),
                Event::Eof if depth > 0 => return Err("it has no end".into()),
                Event::Eof => return Ok(()),
            }
        }
    }

    /// Reads the attributes of the point; those of other elements are none of a sample's.
    fn begin(&mut self, start: &BytesStart<'_>, is_point: bool) -> Result<(), String> {
        if !is_point {
            return Ok(());
        }
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| error.to_string())?;
            self.offer(attribute.key.local_name().as_ref(), &value);
        }
        Ok(())
    }

    fn offer(&mut self, name: &str, text: &str) {
        let text = text.trim_ascii();
        let child = self.names.child(name).or_else(|| self.names.child(field_name(name)));
        let Some(at) = child.filter(|at| self.seen & (1 << at) == 0 && !text.is_empty()) else {
            return;
        };
        self.seen |= 1 << at;
        let targets = &self.names.children[at].node.targets;
        self.fields.offer_copy(targets, text, true);
    }
}

/// The text of an entity or of a character by its number.
fn resolve(entity: &BytesRef<'_>) -> Result<String, String> {
    if let Some(character) = entity.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.into());
    }
    let name = entity.xml10_content();
    let known = resolve_predefined_entity(&name).map(Into::into);
    known.ok_or_else(|| format!("entity `{name}` is not expanded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::rules::Rules;
    use crate::source::{Decoder, RecordContext, parse_map};

    fn decode(point: &str) -> Result<(String, crate::timeline::Sample), String> {
        let fields = parse_map("device_id=src").unwrap();
        let decoder = Decoder::new(&Rules { fields, ..Rules::default() }).unwrap();
        let mut text = String::new();
        match decoder.decode_by(read, point.as_bytes(), &RecordContext::default(), &mut text) {
            Ok(read) => Ok((text, read.sample)),
            Err(NoSample::Dead(error)) => Err(format!("{}: {}", error.reason, error.message)),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn attributes_and_elements_of_any_prefix_are_read() {
        let (device, sample) = decode(
            "<g:trkpt lat='52.5' lon=\" 13.4 \"><!-- speed --><g:ele>34.5</g:ele>\
             <time>2026-11-20T07:00:00Z</time><src>a &amp; b&#33;</src><extensions>\
             <x:Ext><x:speed><![CDATA[10]]></x:speed><x:course>45.5</x:course><speed>99</speed>\
             </x:Ext><a:accuracy>5</a:accuracy></extensions></g:trkpt>",
        )
        .unwrap();
        assert_eq!(device, "a & b!");
        assert_eq!((sample.lat_e7, sample.lon_e7), (525_000_000, 134_000_000));
        let readings = [
            sample.speed_cmps.get(),
            sample.heading_ddeg.get(),
            sample.altitude_dm.get(),
            sample.accuracy_dm.get(),
        ];
        assert_eq!(readings, [Some(1000), Some(455), Some(345), Some(50)]);
    }

    #[test]
    fn a_bad_point_has_a_reason() {
        let deep = format!("<trkpt>{}", "<a>".repeat(MAX_DEPTH));
        for (point, why) in [
            ("<trkpt lat='1' lon='2'/>", "missing_field: device_id is absent"),
            ("<trkpt><src>&lol9;</src></trkpt>", "entity `lol9` is not expanded"),
            ("<trkpt lat='&lol9;'/>", "bad_record"),
            ("<trkpt><src>a</time></trkpt>", "bad_record"),
            ("<trkpt lat='1' lat='2'/>", "bad_record"),
            ("<trkpt lat='1", "bad_record"),
            ("<trkpt><src>a</src>", "it has no end"),
            (&deep, "nested deeper than 32 levels"),
            ("<!DOCTYPE x><trkpt/>", "it has a document type"),
        ] {
            let message = decode(point).unwrap_err();
            assert!(message.contains(why), "{point}: {message}");
        }
    }
}
