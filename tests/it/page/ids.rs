//! Ids against a third implementation of their description, `ids.js`, in the browser.

use serde_json::json;

use tstar_sim::counts;

use super::{merged, opened};
use crate::ids;

#[test]
fn every_form_is_as_javascript_writes_it() {
    let Some((_serve, browser)) = opened(&merged()) else { return };
    let vectors = ids::vectors();
    // Numbers of JavaScript hold 53 bits.
    let asked: Vec<_> =
        vectors.iter().map(|(device, ms)| json!([device, ms.to_string()])).collect();
    let written = browser.js(include_str!("../ids.js"), &[json!(asked)]);
    let alike = ids::assert_alike(&vectors, written.as_array().unwrap());
    counts::BROWSER_SPELLINGS.print(alike);
}
