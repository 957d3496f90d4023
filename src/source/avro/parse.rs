//! Parses a schema, which is JSON.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::Type;
use crate::model::rules::TimeUnit;
use crate::source::bounds::{Counts, MAX_REFERENCES, check_depth, check_name};
use crate::source::text::short;

/// Maximum digits after the point of a decimal; a float has 17 in all.
const MAX_SCALE: u64 = 400;

/// The types of a schema, and the index of that of a datum. The text may use the names that
/// `references` define.
pub(super) fn parse(text: &str, references: &[&str]) -> Result<(Vec<Type>, usize), String> {
    if references.len() > MAX_REFERENCES {
        return Err(format!("it refers to more than {MAX_REFERENCES} schemas"));
    }
    let mut parser = Parser { types: Vec::new(), names: HashMap::new(), counts: Counts::default() };
    let json = |text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| format!("it is not JSON: {error}"))
    };
    for reference in references {
        parser.read(&json(reference)?, "")?;
    }
    let root = parser.read(&json(text)?, "")?;
    check_depth(&parser.types.iter().map(references_of).collect::<Vec<_>>())?;
    Ok((parser.types, root))
}

struct Parser {
    types: Vec<Type>,
    /// Index of each named type, by full name.
    names: HashMap<String, usize>,
    counts: Counts,
}

/// The types that a type refers to.
fn references_of(ty: &Type) -> Vec<usize> {
    match ty {
        Type::Array(inner) | Type::Map(inner) => vec![*inner],
        Type::Union(variants) => variants.clone(),
        Type::Record(fields) => fields.iter().map(|(_, ty)| *ty).collect(),
        _ => Vec::new(),
    }
}

impl Parser {
    fn add(&mut self, ty: Type) -> usize {
        self.types.push(ty);
        self.types.len() - 1
    }

    /// Reads a type; names without a namespace are in `namespace`.
    fn read(&mut self, json: &Value, namespace: &str) -> Result<usize, String> {
        match json {
            Value::String(name) => self.named(name, namespace),
            Value::Array(variants) => {
                let variants = variants.iter().map(|json| self.read(json, namespace));
                let variants = variants.collect::<Result<Vec<_>, _>>()?;
                Ok(self.add(Type::Union(variants)))
            }
            Value::Object(object) => self.object(object, namespace),
            other => Err(format!("{} is not a type", short(&other.to_string()))),
        }
    }

    fn named(&mut self, name: &str, namespace: &str) -> Result<usize, String> {
        if let Some(primitive) = primitive(name) {
            return Ok(self.add(primitive));
        }
        let full = full_name(name, namespace);
        let found = self.names.get(&full).or_else(|| self.names.get(name));
        found.copied().ok_or_else(|| format!("the type {} is not defined", short(&full)))
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<usize, String> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // A type inside a type, which may be a record or a union.
            Some(inner) => return self.read(inner, namespace),
            None => return Err("an object has no `type`".into()),
        };
        let logical = object.get("logicalType").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "record" | "error" => self.record(object, namespace),
            "enum" => {
                let symbols = strings(object, "symbols")?;
                symbols.iter().try_for_each(|symbol| self.counts.add_value(symbol.len()))?;
                self.define(object, namespace, Type::Enum(symbols))
            }
            "fixed" => {
                let size = object.get("size").and_then(Value::as_u64);
                let size = size.ok_or("a fixed type has no `size`")?;
                let fixed = match logical {
                    "decimal" => Type::Decimal(Box::new(Type::Fixed(size)), scale(object)?),
                    "uuid" if size == 16 => Type::Uuid,
                    _ => Type::Fixed(size),
                };
                self.define(object, namespace, fixed)
            }
            "array" => {
                let items = self.read(member(object, "items")?, namespace)?;
                Ok(self.add(Type::Array(items)))
            }
            "map" => {
                let values = self.read(member(object, "values")?, namespace)?;
                Ok(self.add(Type::Map(values)))
            }
            "bytes" if logical == "decimal" => {
                let decimal = Type::Decimal(Box::new(Type::Bytes), scale(object)?);
                Ok(self.add(decimal))
            }
            "long" => Ok(self.add(long(logical))),
            name => self.named(name, namespace),
        }
    }

    fn record(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<usize, String> {
        // Defined first: its fields may refer to it.
        let at = self.define(object, namespace, Type::Pending)?;
        let inner = namespace_of(object, namespace)?;
        let Some(Value::Array(list)) = object.get("fields") else {
            return Err("a record has no `fields`".into());
        };
        let mut fields: Vec<(Box<str>, usize)> = Vec::with_capacity(list.len());
        for field in list {
            let Value::Object(field) = field else { return Err("a field is not an object".into()) };
            let name = string(field, "name")?;
            self.counts.add_field(name.len())?;
            let ty = self.read(member(field, "type")?, &inner)?;
            fields.push((name.into(), ty));
        }
        self.types[at] = Type::Record(fields);
        Ok(at)
    }

    fn define(
        &mut self,
        object: &Map<String, Value>,
        namespace: &str,
        ty: Type,
    ) -> Result<usize, String> {
        let name = string(object, "name")?;
        let full = full_name(name, &namespace_of(object, namespace)?);
        self.counts.add_type(full.len())?;
        let at = self.add(ty);
        if self.names.insert(full, at).is_some() {
            return Err(format!("the type {} is defined twice", short(name)));
        }
        Ok(at)
    }
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" | "long" => Type::Integer,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

fn long(logical: &str) -> Type {
    match logical {
        "timestamp-millis" => Type::Time(TimeUnit::Millis),
        "timestamp-micros" => Type::Time(TimeUnit::Micros),
        "timestamp-nanos" => Type::Time(TimeUnit::Nanos),
        "local-timestamp-millis" => Type::LocalTime(TimeUnit::Millis),
        "local-timestamp-micros" => Type::LocalTime(TimeUnit::Micros),
        "local-timestamp-nanos" => Type::LocalTime(TimeUnit::Nanos),
        _ => Type::Integer,
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') {
        return name.trim_start_matches('.').to_owned();
    }
    format!("{namespace}.{name}")
}

/// The namespace of the names inside a named type.
fn namespace_of(object: &Map<String, Value>, outer: &str) -> Result<String, String> {
    let of_name = string(object, "name")?.rsplit_once('.').map(|(namespace, _)| namespace);
    let own = of_name.or_else(|| object.get("namespace").and_then(Value::as_str));
    let namespace = own.unwrap_or(outer);
    // Each name inside is looked up with it.
    check_name(namespace.len())?;
    Ok(namespace.to_owned())
}

fn member<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a Value, String> {
    object.get(name).ok_or_else(|| format!("an object has no `{name}`"))
}

fn string<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    member(object, name)?.as_str().ok_or_else(|| format!("a `{name}` is not a text"))
}

fn strings(object: &Map<String, Value>, name: &str) -> Result<Vec<Box<str>>, String> {
    let list =
        member(object, name)?.as_array().ok_or_else(|| format!("`{name}` is not an array"))?;
    let text = |value: &Value| value.as_str().map(Box::from);
    let texts = list.iter().map(text).collect::<Option<Vec<_>>>();
    texts.ok_or_else(|| format!("`{name}` holds something other than texts"))
}

fn scale(object: &Map<String, Value>) -> Result<u32, String> {
    let scale = object.get("scale").map_or(Some(0), Value::as_u64);
    let scale = scale.filter(|scale| *scale <= MAX_SCALE);
    scale.and_then(|scale| u32::try_from(scale).ok()).ok_or_else(|| "a `scale` is not valid".into())
}
