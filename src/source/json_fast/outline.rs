//! Learns the bytes between the values of a record.

use super::scan::{skip_scalar, skip_value, take_text};
use super::{MAX_PLACES, Prefix, Suffix, Use};
use crate::source::fields::{Node, Place, Target};

/// Number of nodes of a field map that a record may name: each has a bit.
const MAX_NODES: u32 = u64::BITS;

/// An object or an array of the field map that a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The number of its node.
    Object(u32),
    /// The number of its node, and the index of the value.
    Array(u32, u32),
}

/// What a record is learnt into.
struct Outline<'d, 'a> {
    prefixes: Vec<Prefix>,
    places: &'d mut Vec<Vec<Level>>,
    /// Begin of the bytes before the next value.
    from: &'a [u8],
    rest: &'a [u8],
    /// Place of the previous value.
    place: u8,
    levels: Vec<Level>,
    nodes: u64,
    nested: Vec<Target>,
}

/// The prefixes of a plain record, and its suffix. Adds places that are new.
pub(super) fn outline(
    root: &Node,
    record: &[u8],
    places: &mut Vec<Vec<Level>>,
) -> Option<(Vec<Prefix>, Suffix)> {
    let mut outline = Outline {
        prefixes: Vec::new(),
        places,
        from: record,
        rest: record.trim_ascii_start(),
        place: 0,
        levels: Vec::new(),
        nodes: 0,
        nested: Vec::new(),
    };
    outline.object(root)?;
    let Outline { prefixes, from, rest, place, nodes, .. } = outline;
    // An empty object at the end may be named twice.
    if prefixes.is_empty() || nodes != 0 || !rest.trim_ascii_end().is_empty() {
        return None;
    }
    let bytes = from[..from.len() - rest.len()].into();
    Some((prefixes, Suffix { bytes, from: place }))
}

impl Outline<'_, '_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn expect(&mut self, mark: u8) -> Option<()> {
        self.rest = self.rest.strip_prefix(&[mark])?;
        self.skip_spaces();
        Some(())
    }

    /// Whether the container ends here, or continues after a comma.
    fn ends(&mut self, close: u8) -> Option<bool> {
        self.skip_spaces();
        if let Some(after) = self.rest.strip_prefix(&[close]) {
            self.rest = after;
            self.levels.pop();
            return Some(true);
        }
        self.expect(b',')?;
        Some(false)
    }

    /// An object of the field map.
    fn object(&mut self, node: &Node) -> Option<()> {
        self.levels.push(Level::Object(node.number));
        self.expect(b'{')?;
        if self.rest.first() == Some(&b'}') {
            return self.ends(b'}').map(drop);
        }
        loop {
            let name = std::str::from_utf8(take_text(&mut self.rest)?).ok()?;
            self.skip_spaces();
            self.expect(b':')?;
            self.member(node.child(name).map(|at| &node.children[at].node))?;
            if self.ends(b'}')? {
                return Some(());
            }
        }
    }

    /// An array of the field map.
    fn array(&mut self, node: &Node) -> Option<()> {
        self.levels.push(Level::Array(node.number, 0));
        self.expect(b'[')?;
        if self.rest.first() == Some(&b']') {
            return self.ends(b']').map(drop);
        }
        for index in 0.. {
            *self.levels.last_mut()? = Level::Array(node.number, index);
            self.member(node.element(index).map(|at| &node.children[at].node))?;
            if self.ends(b']')? {
                break;
            }
        }
        Some(())
    }

    /// The value of a name, or an element.
    fn member(&mut self, node: Option<&Node>) -> Option<()> {
        let Some(node) = node else { return self.value(Use::Skip) };
        let is_odd = node.opens || node.is_outer || !node.members.is_empty();
        if is_odd || node.number >= MAX_NODES {
            return None;
        }
        self.nodes |= 1 << node.number;
        let is_nested = matches!(self.rest.first(), Some(b'{' | b'['));
        if !is_nested {
            return self.value(match &node.targets[..] {
                [] => Use::SkipScalar,
                targets => Use::Take(targets.into()),
            });
        }
        // An object for a field is an error of the parser.
        let is_extra = |target: &Target| matches!(target.place, Place::Extra(_));
        if !node.targets.iter().all(|target| is_extra(target) && target.part.is_none()) {
            return None;
        }
        self.nested.extend(&node.targets);
        match self.rest.first() {
            Some(b'{') => self.object(node),
            _ => self.array(node),
        }
    }

    fn value(&mut self, value: Use) -> Option<()> {
        let bytes = self.from[..self.from.len() - self.rest.len()].into();
        let known = self.places.iter().position(|place| *place == self.levels);
        let known = match known {
            Some(known) => known,
            None if self.places.len() < MAX_PLACES => {
                self.places.push(self.levels.clone());
                self.places.len() - 1
            }
            None => return None,
        };
        let to = u8::try_from(known + 1).ok()?;
        match value {
            Use::Skip => skip_value(&mut self.rest)?,
            // Its own parser may know more than is skipped here.
            Use::SkipScalar | Use::Take(_) => skip_scalar(&mut self.rest)?,
        }
        self.prefixes.push(Prefix {
            bytes,
            from: self.place,
            to,
            nodes: std::mem::take(&mut self.nodes),
            nested: std::mem::take(&mut self.nested).into(),
            value,
        });
        (self.from, self.place) = (self.rest, to);
        Some(())
    }
}
