//! Reads a schema from a file.

use std::fs;
use std::path::Path;

use super::bounds::{MAX_REFERENCES, MAX_SCHEMA_BYTES};
use super::protobuf;
use crate::model::schema::{SchemaReference, SchemaSource};

/// Reads a schema: Avro, which is JSON, or .proto text, whose imports are read from its folder.
///
/// # Errors
/// A file cannot be read, or is not a schema.
pub(crate) fn read_schema(path: &Path) -> Result<SchemaSource, String> {
    let text = read(path)?;
    let source = if text.trim_start().starts_with(['{', '[', '"']) {
        // Spaces and the order of members make no other rules.
        let json: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| format!("`{}` is not an Avro schema: {error}", path.display()))?;
        SchemaSource { text: json.to_string(), references: Vec::new() }
    } else {
        let references = imports(&text, path.parent().unwrap_or(Path::new(".")))
            .map_err(|problem| format!("`{}` cannot be used: {problem}", path.display()))?;
        SchemaSource { text, references }
    };
    Ok(source)
}

fn read(path: &Path) -> Result<String, String> {
    let failed =
        |problem: &dyn std::fmt::Display| format!("cannot read `{}`: {problem}", path.display());
    let size = fs::metadata(path).map_err(|error| failed(&error))?.len();
    if size > MAX_SCHEMA_BYTES as u64 {
        return Err(failed(&format_args!(
            "it has {size} bytes, and the limit is {MAX_SCHEMA_BYTES}"
        )));
    }
    fs::read_to_string(path).map_err(|error| failed(&error))
}

/// The files that a .proto text imports, directly or not, each after its own imports. Those of
/// `google/protobuf` are part of the compiler.
fn imports(text: &str, folder: &Path) -> Result<Vec<SchemaReference>, String> {
    let (mut found, mut bytes) = (Vec::new(), text.len());
    let mut open = protobuf::imports(text)?;
    while let Some(name) = open.pop() {
        let is_known = found.iter().any(|reference: &SchemaReference| reference.name == name);
        if is_known || name.starts_with("google/protobuf/") {
            continue;
        }
        if found.len() == MAX_REFERENCES {
            return Err(format!("it imports more than {MAX_REFERENCES} files"));
        }
        // The compiler accepts no name that leads out of the folder.
        let text = read(&folder.join(&name))?;
        bytes += text.len();
        if bytes > MAX_SCHEMA_BYTES {
            return Err(format!("its imports exceed {MAX_SCHEMA_BYTES} bytes"));
        }
        open.extend(protobuf::imports(&text)?);
        found.push(SchemaReference { name, text });
    }
    // One set of files has one form.
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proto_file_brings_its_imports() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        fs::create_dir(folder.path().join("in")).unwrap();
        let known = "import \"google/protobuf/timestamp.proto\";";
        let main = file("a.proto", &format!("syntax = \"proto3\"; import \"in/b.proto\"; {known}"));
        file("in/b.proto", "syntax = \"proto3\"; import \"c.proto\"; message B { C c = 1; }");
        file("c.proto", "syntax = \"proto3\"; message C { int32 x = 1; }");
        let source = read_schema(&main).unwrap();
        let names: Vec<_> = source.references.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["c.proto", "in/b.proto"]);
        for (text, why) in [
            ("syntax = \"proto3\"; import \"in/./c.proto\";", "cannot be used"),
            ("syntax = \"proto3\"; import \"none.proto\";", "cannot read"),
            ("message {", "cannot be used"),
        ] {
            let problem = read_schema(&file("bad.proto", text)).unwrap_err();
            assert!(problem.contains(why), "{problem}");
        }
    }

    #[test]
    fn an_avro_file_has_one_form() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.avsc");
        let mut forms = Vec::new();
        for text in
            ["{\"type\": \"map\",\n \"values\": \"int\"}", "{\"values\":\"int\",\"type\":\"map\"}"]
        {
            fs::write(&path, text).unwrap();
            forms.push(read_schema(&path).unwrap());
        }
        assert_eq!(forms[0], forms[1]);
        fs::write(&path, "{").unwrap();
        assert!(read_schema(&path).unwrap_err().contains("is not an Avro schema"));
    }
}
