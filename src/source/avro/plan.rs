//! Reads plain datums by a plan that is compiled once for a schema and a field map.
//!
//! A plan lists what to do with each value in the order of the datum: skip it, or take it for its
//! targets. No name is looked up. What a plan has no step for, and every error, is left to
//! [`AvroSchema::read`].

use super::datum::State;
use super::{AvroSchema, Type};
use crate::model::rules::TimeUnit;
use crate::source::fields::{Node, Target};
use crate::source::record::Fields;
use crate::source::time;
use crate::source::value::Value;
use crate::source::wire::{Bytes, text};

/// Maximum nesting depth of steps; a recursive schema exceeds it.
const MAX_DEPTH: usize = 16;

/// Maximum number of steps: unions of records could have very many.
const MAX_STEPS: usize = 4096;

/// How a datum is read.
#[derive(Debug)]
pub(super) struct Plan(Vec<Step>);

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
    Take(Scalar, Box<[Target]>),
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

impl Plan {
    /// The plan for a schema; `None` if it has too many steps.
    pub(crate) fn new(types: &[Type], schema: usize, root: &Node) -> Option<Self> {
        match step(types, schema, Some(root), (0, &mut 0))? {
            Step::Record(steps) => Some(Self(steps)),
            _ => None,
        }
    }

    /// Collects the values of a datum. `None` leaves it to [`AvroSchema::read`].
    #[inline]
    pub(crate) fn read<'de>(
        &self,
        schema: &AvroSchema,
        (datum, unit): (&'de [u8], TimeUnit),
        fields: &mut Fields<'de>,
    ) -> Option<()> {
        let mut run = Run { rest: Bytes(datum), schema, unit };
        run.record(&self.0, fields)?;
        run.rest.is_empty().then_some(())
    }
}

/// The step for a value of a type; `None`: there is no plan.
fn step(
    types: &[Type],
    at: usize,
    node: Option<&Node>,
    (depth, steps): (usize, &mut usize),
) -> Option<Step> {
    *steps += 1;
    if depth > MAX_DEPTH || *steps > MAX_STEPS {
        return None;
    }
    let Some(node) = node else { return Some(skip(&types[at], at)) };
    if node.opens || node.is_array || !node.members.is_empty() {
        return Some(Step::Leave);
    }
    let scalar = match &types[at] {
        Type::Null => return Some(Step::Nothing),
        Type::Union(variants) => {
            let steps = variants.iter().map(|it| step(types, *it, Some(node), (depth + 1, steps)));
            return steps.collect::<Option<_>>().map(Step::Union);
        }
        Type::Record(members) if node.targets.is_empty() => {
            let mut seen = 0_u32;
            let steps = members.iter().map(|(name, member)| {
                let child = node.child(name);
                let bit = child.map_or(0, |child| 1 << child);
                // A name that occurs twice is an error.
                let is_new = seen & bit == 0;
                seen |= bit;
                let child = child.map(|child| &node.children[child].node);
                step(types, *member, child, (depth + 1, steps)).filter(|_| is_new)
            });
            return steps.collect::<Option<_>>().map(Step::Record);
        }
        Type::Boolean => Scalar::Boolean,
        Type::Integer => Scalar::Integer,
        Type::Float => Scalar::Float,
        Type::Double => Scalar::Double,
        Type::String => Scalar::Text,
        Type::Time(unit) => Scalar::Time(*unit),
        _ => return Some(Step::Leave),
    };
    Some(Step::Take(scalar, node.targets.clone().into()))
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
    unit: TimeUnit,
}

impl<'de> Run<'_, 'de> {
    fn record(&mut self, steps: &[Step], fields: &mut Fields<'de>) -> Option<()> {
        steps.iter().try_for_each(|step| match step {
            Step::Union(variants) => {
                let variant = usize::try_from(self.rest.long().ok()?).ok()?;
                self.step(variants.get(variant)?, fields)
            }
            step => self.step(step, fields),
        })
    }

    #[inline(always)]
    fn step(&mut self, step: &Step, fields: &mut Fields<'de>) -> Option<()> {
        match step {
            Step::Nothing => Some(()),
            Step::SkipVarint => self.rest.varint().ok().map(drop),
            Step::Skip(count) => self.rest.take_bytes(*count).ok().map(drop),
            Step::SkipText => self.rest.text_bytes().ok().map(drop),
            Step::SkipType(at) => {
                self.rest = State::new(self.rest, self.unit).skip(self.schema, *at).ok()?;
                Some(())
            }
            Step::Take(scalar, targets) => {
                fields.offer(targets, self.scalar(*scalar)?);
                Some(())
            }
            Step::Record(steps) => self.record(steps, fields),
            // A union has no union in it.
            Step::Union(_) | Step::Leave => None,
        }
    }

    #[inline(always)]
    fn scalar(&mut self, scalar: Scalar) -> Option<Value<'de>> {
        Some(match scalar {
            Scalar::Boolean => match self.rest.array().ok()? {
                [on @ (0 | 1)] => Value::Bool(on == 1),
                [_] => return None,
            },
            Scalar::Integer => Value::Signed(self.rest.long().ok()?),
            Scalar::Float => Value::Float(f32::from_le_bytes(self.rest.array().ok()?).into()),
            Scalar::Double => Value::Float(f64::from_le_bytes(self.rest.array().ok()?)),
            Scalar::Text => Value::Text(text(self.rest.text_bytes().ok()?).ok()?),
            Scalar::Time(from) => {
                Value::Signed(time::in_unit(self.rest.long().ok()?, from, self.unit)?)
            }
        })
    }
}
