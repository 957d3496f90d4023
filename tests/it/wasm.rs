//! The WebAssembly module in Node: its interface, and the committed vectors.

use std::process::Command;

use crate::servers::skip;

/// Runs Node in the repository; what it prints. `None`, with a message, without Node.
fn node(arguments: &[&str]) -> Option<String> {
    let mut node = Command::new("node");
    let ran = node.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let Ok(ran) = ran else { return skip("no Node: apt-get install -y nodejs") };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (output, errors) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{output}\n{errors}");
    Some(output)
}

#[test]
fn the_package_does_what_it_says() {
    let Some(output) = node(&["--test", "crates/tstar-wasm/tests/api.test.mjs"]) else { return };
    assert!(output.contains("# fail 0"), "{output}");
}

#[test]
fn the_module_gives_the_committed_vectors() {
    let vectors = ["crates/tstar-wasm/tests/vectors.mjs", "tests/vectors/v1.ndjson"];
    let Some(output) = node(&vectors) else { return };
    println!("{output}");
}
