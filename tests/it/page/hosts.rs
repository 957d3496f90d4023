//! The page sends requests to its own server only.

use std::collections::BTreeSet;

use serde_json::json;

use super::{World, merged, merged_samples, on_both, opened};

/// Requests to other origins.
pub(super) fn strangers(origin: &str, urls: &[String]) -> BTreeSet<String> {
    let is_own = |url: &&String| {
        url.strip_prefix(origin).is_some_and(|rest| rest.starts_with('/'))
            || ["data:", "about:"].iter().any(|own| url.starts_with(own))
    };
    urls.iter().filter(|url| !is_own(url)).cloned().collect()
}

#[test]
fn no_request_goes_to_another_host() {
    on_both(&merged_samples(), asks_its_own_server_only);
}

fn asks_its_own_server_only(world: &World) {
    let World { serve, browser, .. } = world;
    let origin = serve.origin();
    browser.until_count(".device", 1);
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    browser.click_at(".track", 486.0 / 1440.0);
    browser.until_count(".absorbed", 1);
    browser.until("!document.querySelector('#map-state').textContent");
    browser.click(".leaflet-control-zoom-in");
    browser.click("#theme");
    browser.paste("#find-id", "van~20240501T081000.000Z");
    browser.until_count(".asked[data-match=retired]", 1);
    let mut urls = browser.requests();
    let listed = "performance.getEntriesByType('resource').map((entry) => entry.name)";
    let listed: Vec<String> = serde_json::from_value(browser.value(listed)).unwrap();
    urls.extend(listed);
    for own in ["/", "/assets/app.js", "/assets/leaflet.js", "/assets/world.json", "/v1/page"] {
        assert!(urls.contains(&format!("{origin}{own}")), "{own} is not among {urls:?}");
    }
    assert_eq!(strangers(origin, &urls), BTreeSet::new());

    // A planted request: the policy blocks it, and reports it.
    let elsewhere = "http://127.0.0.2:9/planted.png";
    let plant = "window.kept = [];
        document.addEventListener('securitypolicyviolation', (e) => kept.push(e.blockedURI));
        new Image().src = arguments[0];
        fetch(arguments[0]).catch(() => {});
        document.body.insertAdjacentHTML('beforeend', '<i style=\"color:red\" onclick=\"1\"></i>');
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);";
    browser.js(plant, &[json!(elsewhere)]);
    browser.until(&format!("window.kept.filter((uri) => uri === '{elsewhere}').length === 2"));
    browser.until("window.kept.filter((uri) => uri === 'inline').length >= 2");
    assert_eq!(
        browser.value("window.ran === undefined"),
        json!(true),
        "no script in the page runs"
    );
    // And without a policy the check detects it.
    browser.devtools("Page.setBypassCSP", &json!({ "enabled": true }));
    browser.goto("about:blank");
    browser.goto(&serve.url(""));
    browser.js("new Image().src = arguments[0]", &[json!(elsewhere)]);
    let mut found = Vec::new();
    crate::servers::ready::until(
        "the planted request",
        crate::servers::LIMIT,
        || {
            found.extend(browser.requests());
            (!strangers(origin, &found).is_empty()).then_some(())
        },
        || None,
    );
    assert_eq!(strangers(origin, &found), BTreeSet::from([elsewhere.to_owned()]));
    assert_eq!(strangers("http://127.0.0.1:1", &["http://127.0.0.1:12/".to_owned()]).len(), 1);
}

#[test]
fn the_first_view_is_small() {
    let folder = merged();
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 1);
    browser
        .until("performance.getEntriesByName(location.origin + '/assets/world.json').length > 0");
    let sizes = "[...performance.getEntriesByType('navigation'),
        ...performance.getEntriesByType('resource')].map((e) => [e.name, e.encodedBodySize])";
    let sizes: Vec<(String, u64)> = serde_json::from_value(browser.value(sizes)).unwrap();
    let total: u64 = sizes.iter().map(|(_, size)| size).sum();
    println!("first view: {total} bytes in {} answers", sizes.len());
    assert!(total > 50_000, "the sizes are known: {sizes:?}");
    assert!(total <= 180_000, "{total} bytes: {sizes:?}");
}
