//! Reads plain datums by a plan that is compiled once for a schema and a field map.
//!
//! A plan lists what to do with each value in the order of the datum: skip it, or put it into its
//! place in the sample. No name is looked up. What a plan has no step for, and every error, is left
//! to [`AvroSchema::read`]. The tests check that both give the same result.

use super::datum::State;
use super::{AvroSchema, Type};
use crate::model::rules::TimeUnit;
use crate::model::scalar::DeviceTime;
use crate::source::fields::{Field, Node, Place, Target};
use crate::source::plain::Values;
use crate::source::shape::Shape;
use crate::source::time;
use crate::source::wire::{Bytes, unzigzag};

/// Maximum nesting depth of steps; a recursive schema exceeds it.
const MAX_DEPTH: usize = 16;

/// Maximum number of steps: unions of records could have very many.
const MAX_STEPS: usize = 4096;

/// How a datum is read.
#[derive(Debug)]
pub(in crate::source) struct AvroPlan(Step);

/// What to do with a value.
#[derive(Debug)]
enum Step {
    /// Null has no bytes.
    Nothing,
    /// Skips a number of variable length.
    SkipVarint,
    /// Skips bytes.
    Skip(u64),
    /// Skips a text or bytes.
    SkipText,
    /// Skips a value of the type with this index.
    SkipType(usize),
    /// Takes a value for a field.
    Take(Target, Field, Scalar),
    Record(Vec<Step>),
    Union(Vec<Step>),
    /// Leaves the datum to [`AvroSchema::read`].
    Leave,
}

/// How a value is written.
#[derive(Clone, Copy, Debug)]
enum Scalar {
    Boolean,
    Integer,
    Float,
    Double,
    Text,
    /// A time in this unit.
    Time(TimeUnit),
}

impl AvroPlan {
    /// The plan for a schema; `None` if the values of a shape are not plain, or the schema has none
    /// of them.
    pub fn new(schema: &AvroSchema, shape: &Shape) -> Option<Self> {
        // A record with an array of samples is split.
        if !shape.is_plain || shape.map.samples.is_some() {
            return None;
        }
        let mut compiler = Compiler { schema, nodes: 0, fields: 0, steps: 0 };
        match compiler.step(schema.root, Some(&shape.root), 0)? {
            step @ Step::Record(_) => Some(Self(step)),
            _ => None,
        }
    }

    /// Collects the values of a datum. `None` leaves it to [`AvroSchema::read`].
    #[inline]
    pub fn read<'de>(
        &self,
        schema: &AvroSchema,
        datum: &'de [u8],
        shape: &Shape,
        values: &mut Values<'de>,
    ) -> Option<()> {
        let mut run = Run { rest: Bytes(datum), schema, shape };
        run.step(&self.0, values)?;
        run.rest.is_empty().then_some(())
    }
}

struct Compiler<'s> {
    schema: &'s AvroSchema,
    /// Bit sets of the nodes and the fields that have a step: with two steps for one, the order of
    /// values would count.
    nodes: u64,
    fields: u32,
    steps: usize,
}

impl Compiler<'_> {
    /// The step for a value of a type; `None`: there is no plan.
    fn step(&mut self, at: usize, node: Option<&Node>, depth: usize) -> Option<Step> {
        self.steps += 1;
        if depth > MAX_DEPTH || self.steps > MAX_STEPS {
            return None;
        }
        let ty = &self.schema.types[at];
        let Some(node) = node else { return Some(skip(ty, at)) };
        if node.opens || node.is_array || !node.members.is_empty() {
            return Some(Step::Leave);
        }
        match ty {
            Type::Null => Some(Step::Nothing),
            Type::Union(variants) => {
                let (nodes, fields) = (self.nodes, self.fields);
                let mut all = (nodes, fields);
                let mut steps = Vec::new();
                // A datum has one of them.
                for variant in variants {
                    (self.nodes, self.fields) = (nodes, fields);
                    steps.push(self.step(*variant, Some(node), depth + 1)?);
                    all = (all.0 | self.nodes, all.1 | self.fields);
                }
                (self.nodes, self.fields) = all;
                Some(Step::Union(steps))
            }
            Type::Record(members) if node.targets.is_empty() => {
                let mut steps = Vec::new();
                for (name, member) in members {
                    let child = node.child(name).map(|at| &node.children[at].node);
                    if let Some(child) = child {
                        let bit = 1_u64.checked_shl(child.number)?;
                        if self.nodes & bit != 0 {
                            return None;
                        }
                        self.nodes |= bit;
                    }
                    steps.push(self.step(*member, child, depth + 1)?);
                }
                Some(Step::Record(steps))
            }
            ty => Some(self.scalar(ty, node)?),
        }
    }

    fn scalar(&mut self, ty: &Type, node: &Node) -> Option<Step> {
        let scalar = match ty {
            Type::Boolean => Scalar::Boolean,
            Type::Integer => Scalar::Integer,
            Type::Float => Scalar::Float,
            Type::Double => Scalar::Double,
            Type::String => Scalar::Text,
            Type::Time(unit) => Scalar::Time(*unit),
            _ => return Some(Step::Leave),
        };
        let [target] = node.targets[..] else { return Some(Step::Leave) };
        let (Place::Field(field), None) = (target.place, target.part) else {
            return Some(Step::Leave);
        };
        if self.fields & (1 << field as u32) != 0 {
            return None;
        }
        self.fields |= 1 << field as u32;
        let is_known = match field {
            Field::DeviceId | Field::Driver => matches!(scalar, Scalar::Text),
            Field::Ignition => matches!(scalar, Scalar::Boolean),
            Field::Time => matches!(scalar, Scalar::Integer | Scalar::Time(_) | Scalar::Text),
            _ => matches!(scalar, Scalar::Integer | Scalar::Float | Scalar::Double),
        };
        Some(if is_known { Step::Take(target, field, scalar) } else { Step::Leave })
    }
}

/// The step that skips a value.
fn skip(ty: &Type, at: usize) -> Step {
    match ty {
        Type::Null => Step::Nothing,
        Type::Integer | Type::Time(_) | Type::LocalTime(_) => Step::SkipVarint,
        Type::Float => Step::Skip(4),
        Type::Double => Step::Skip(8),
        Type::Fixed(size) => Step::Skip(*size),
        Type::Bytes | Type::String => Step::SkipText,
        _ => Step::SkipType(at),
    }
}

/// A run of a plan over a datum.
struct Run<'s, 'de> {
    rest: Bytes<'de>,
    schema: &'s AvroSchema,
    shape: &'s Shape,
}

impl<'de> Run<'_, 'de> {
    #[inline]
    fn step(&mut self, step: &Step, values: &mut Values<'de>) -> Option<()> {
        match step {
            Step::Nothing => Some(()),
            Step::SkipVarint => self.rest.varint().ok().map(drop),
            Step::Skip(count) => self.rest.take_bytes(*count).ok().map(drop),
            Step::SkipText => self.bytes().map(drop),
            Step::SkipType(at) => {
                let state = State::new(self.rest, self.shape.times.unit);
                self.rest = state.skip(self.schema, *at).ok()?;
                Some(())
            }
            Step::Take(target, field, scalar) => self.set(target, *field, *scalar, values),
            Step::Record(steps) => steps.iter().try_for_each(|step| self.step(step, values)),
            Step::Union(steps) => {
                let variant = usize::try_from(self.long()?).ok()?;
                self.step(steps.get(variant)?, values)
            }
            Step::Leave => None,
        }
    }

    #[inline]
    fn long(&mut self) -> Option<i64> {
        self.rest.varint().ok().map(unzigzag)
    }

    #[inline]
    fn bytes(&mut self) -> Option<&'de [u8]> {
        let length = u64::try_from(self.long()?).ok()?;
        self.rest.take_bytes(length).ok()
    }

    #[inline]
    fn set(
        &mut self,
        target: &Target,
        field: Field,
        scalar: Scalar,
        values: &mut Values<'de>,
    ) -> Option<()> {
        match field {
            Field::DeviceId | Field::Driver => {
                let text = self.bytes()?;
                // Where it is kept, it is checked to be UTF-8; one of a list may not be kept.
                let is_bad = target.is_listed && std::str::from_utf8(text).is_err();
                if is_bad || text.contains(&0) {
                    return None;
                }
                values.set_text(target, field, text)
            }
            Field::Ignition => {
                let [on @ (0 | 1)] = self.rest.array().ok()? else { return None };
                values.set_ignition(target, on == 1);
                Some(())
            }
            Field::Time => {
                let unit = self.shape.times.unit;
                let ms = match scalar {
                    Scalar::Text => time::plain_utc(self.bytes()?)?,
                    Scalar::Time(from) => {
                        let integer = time::in_unit(self.long()?, from, unit)?;
                        time::from_integer(integer.into(), unit)?
                    }
                    _ => time::from_integer(self.long()?.into(), unit)?,
                };
                values.set_time(target, DeviceTime(ms));
                Some(())
            }
            number => {
                let value = match scalar {
                    Scalar::Float => f32::from_le_bytes(self.rest.array().ok()?).into(),
                    Scalar::Double => f64::from_le_bytes(self.rest.array().ok()?),
                    #[expect(
                        clippy::cast_precision_loss,
                        reason = "no field has integers of over 2^53 in range"
                    )]
                    _ => self.long()? as f64,
                };
                values.set_number(target, number, value, self.shape)
            }
        }
    }
}
