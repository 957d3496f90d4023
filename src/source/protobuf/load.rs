//! Reads .proto text and resolves its names, within bounds.

use std::collections::{BTreeMap, HashMap};

use protox::file::{File, FileResolver as _, GoogleFileResolver};
use protox::prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FileDescriptorProto, MessageOptions,
};
use protox::prost_reflect::{DescriptorPool, FileDescriptor, Kind};

use crate::model::schema::SchemaSource;
use crate::model::visible::with_causes;
use crate::source::bounds::{Counts, MAX_REFERENCES, check_depth, check_name};

/// Name of the schema's own file, in messages too.
const MAIN: &str = "the schema";

/// The file of a schema, with the names of its types resolved.
pub(super) fn load(source: &SchemaSource) -> Result<FileDescriptor, String> {
    if source.references.len() > MAX_REFERENCES {
        return Err(format!("it refers to more than {MAX_REFERENCES} schemas"));
    }
    let references = source.references.iter();
    let texts = references.map(|reference| (reference.name.as_str(), reference.text.as_str()));
    let texts: HashMap<&str, &str> = texts.chain([(MAIN, source.text.as_str())]).collect();
    let (mut files, mut counts) = (BTreeMap::new(), Counts::default());
    let (mut open, known) = (vec![MAIN.to_owned()], GoogleFileResolver::new());
    while let Some(name) = open.pop() {
        if files.contains_key(&name) {
            continue;
        }
        let file = match texts.get(name.as_str()) {
            Some(text) => {
                let mut file = parse(&name, text).map_err(|problem| format!("{name} {problem}"))?;
                reduce(&mut file, &mut counts)?;
                file
            }
            None => {
                let file = known.open_file(&name).map_err(|error| with_causes(&error))?;
                file.file_descriptor_proto().clone()
            }
        };
        open.extend(file.dependency.iter().cloned());
        files.insert(name, file);
    }
    let pool = resolve(files)?;
    check_references(&pool)?;
    pool.get_file_by_name(MAIN).ok_or_else(|| "it has no file".into())
}

/// The names of the files that a text imports.
pub(super) fn imports(text: &str) -> Result<Vec<String>, String> {
    parse(MAIN, text).map(|file| file.dependency).map_err(|problem| format!("it {problem}"))
}

fn parse(name: &str, text: &str) -> Result<FileDescriptorProto, String> {
    // The parser itself bounds how deep it recurses.
    let file = File::from_source(name, text);
    let file = file.map_err(|error| format!("is not valid: {}", with_causes(&error)))?;
    Ok(file.file_descriptor_proto().clone())
}

/// Resolves the names in files. Each sees all files: the search for what a file imports publicly
/// takes exponential time in the resolver.
fn resolve(mut files: BTreeMap<String, FileDescriptorProto>) -> Result<DescriptorPool, String> {
    let names: Vec<String> = files.keys().cloned().collect();
    for (own, file) in &mut files {
        file.dependency = names.iter().filter(|name| *name != own).cloned().collect();
        file.public_dependency.clear();
        file.weak_dependency.clear();
    }
    let mut pool = DescriptorPool::new();
    let added = pool.add_file_descriptor_protos(files.into_values());
    added.map_err(|error| with_causes(&error))?;
    Ok(pool)
}

/// Counts what a file defines, and removes what decides no value: positions in the text, services,
/// extensions, reserved numbers and options. The resolver compares each of them with many others.
fn reduce(file: &mut FileDescriptorProto, counts: &mut Counts) -> Result<(), String> {
    (file.source_code_info, file.options) = (None, None);
    file.service.clear();
    file.extension.clear();
    let scope = file.package().len();
    check_name(scope)?;
    file.message_type.iter_mut().try_for_each(|it| reduce_message(it, scope, counts))?;
    file.enum_type.iter_mut().try_for_each(|it| reduce_enum(it, scope, counts))
}

/// `scope` is the length of the name of what the message is in. Recurses as deep as the parser.
fn reduce_message(
    message: &mut DescriptorProto,
    scope: usize,
    counts: &mut Counts,
) -> Result<(), String> {
    let name = scope + 1 + message.name().len();
    counts.add_type(name)?;
    message.extension.clear();
    message.extension_range.clear();
    message.reserved_range.clear();
    message.reserved_name.clear();
    // The parser sets it for the entries of maps; an option of the text has another form.
    let is_entry = message.options.as_ref().is_some_and(MessageOptions::map_entry);
    message.options =
        is_entry.then(|| MessageOptions { map_entry: Some(true), ..MessageOptions::default() });
    for field in &mut message.field {
        counts.add_field(name + 1 + field.name().len())?;
        check_name(field.type_name().len())?;
        field.options = None;
    }
    for oneof in &mut message.oneof_decl {
        counts.add_field(name + 1 + oneof.name().len())?;
        oneof.options = None;
    }
    message.nested_type.iter_mut().try_for_each(|it| reduce_message(it, name, counts))?;
    message.enum_type.iter_mut().try_for_each(|it| reduce_enum(it, name, counts))
}

fn reduce_enum(
    of: &mut EnumDescriptorProto,
    scope: usize,
    counts: &mut Counts,
) -> Result<(), String> {
    let name = scope + 1 + of.name().len();
    counts.add_type(name)?;
    of.reserved_range.clear();
    of.reserved_name.clear();
    // Whether a number may have several names; the others say nothing of values.
    if let Some(options) = &mut of.options {
        options
            .uninterpreted_option
            .retain(|option| matches!(&option.name[..], [part] if part.name_part == "allow_alias"));
    }
    for value in &mut of.value {
        // Its scope is that of its enum.
        counts.add_value(scope + 1 + value.name().len())?;
        value.options = None;
    }
    Ok(())
}

/// Checks how deep messages refer to messages.
fn check_references(pool: &DescriptorPool) -> Result<(), String> {
    let messages: Vec<_> = pool.all_messages().collect();
    let index: HashMap<&str, usize> =
        messages.iter().enumerate().map(|(at, it)| (it.full_name(), at)).collect();
    let references = messages.iter().map(|message| {
        let fields = message.fields();
        let kinds = fields.filter_map(|field| match field.kind() {
            Kind::Message(of) => index.get(of.full_name()).copied(),
            _ => None,
        });
        kinds.collect()
    });
    check_depth(&references.collect::<Vec<Vec<usize>>>())
}
