//! Small things that a person trips over: copying, dates, the order of names, the legend.

use serde_json::json;

use super::{merged, opened, stored};
use crate::cli::minutes;

#[test]
fn copied_is_only_said_of_what_was_copied() {
    let folder = merged();
    let Some((serve, browser)) = opened(&folder) else { return };
    let id = "van~20240501T080000.000Z";
    let grant = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
    browser.devtools("Browser.grantPermissions", &grant);
    browser.goto(&serve.url(&format!("#trip={id}")));
    browser.until_count(".chart", 1);
    browser.click(".ids summary");
    browser.click(".trip-title .button");
    browser.until_says(".trip-title .button", "Copied");
    browser.js("navigator.clipboard.readText().then((text) => (window.clip = text))", &[]);
    browser.until(&format!("window.clip === '{id}'"));
    // Over plain HTTP from another machine there is no clipboard, and a browser may refuse to copy.
    let without = "Object.defineProperty(navigator, 'clipboard', { value: undefined });
        document.execCommand = () => false;";
    let script = json!({ "source": without });
    browser.devtools("Page.addScriptToEvaluateOnNewDocument", &script);
    browser.goto("about:blank");
    browser.goto(&serve.url(&format!("#trip={id}")));
    browser.until_count(".chart", 1);
    browser.click(".ids summary");
    browser.click(".trip-title .button");
    browser.until_says(".trip-title .button", "Press Ctrl+C");
    assert_eq!(browser.value("getSelection().toString()"), id);
    assert!(!browser.text("#says").contains("copied"));
}

#[test]
fn a_date_before_the_first_day_leads_to_it() {
    let folder = merged();
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 1);
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    let choose = "const date = document.querySelector('#upto');
        date.value = arguments[0];
        date.dispatchEvent(new Event('change'));";
    browser.js(choose, &[json!("2020-01-31")]);
    browser.until_says("#day-state", "No trips or stops on this day.");
    browser.until_says("#day-state button", "After: 2024-05-01");
    browser.click("#day-state button");
    browser.until_count("#day-rows th", 2);
    assert_eq!(browser.value("document.querySelector('#upto').value"), "2024-05-01");
    assert_eq!(browser.text("#lanes-state"), "");
}

#[test]
fn devices_are_in_the_order_that_people_count() {
    let names = ["truck-1", "truck-10", "truck-2", "truck-21", "Truck-3"];
    let samples: String = names.iter().map(|name| minutes(name, &[0, 2])).collect();
    let folder = stored(&samples);
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 5);
    let listed = "[...document.querySelectorAll('.device')].map((el) => el.textContent)";
    let expected = json!(["truck-1", "truck-2", "Truck-3", "truck-10", "truck-21"]);
    assert_eq!(browser.value(listed), expected);
}

#[test]
fn the_legend_names_every_colour_of_a_bar() {
    let folder = merged();
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.until_count(".device", 1);
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    browser.click_at(".track", 521.0 / 1440.0);
    browser.until_count("rect.bar.selected", 1);
    let colours = browser.value(
        "[[...document.querySelectorAll('rect.bar')].map((el) => getComputedStyle(el).fill),
          [...document.querySelectorAll('.legend .key.bar')]
            .map((el) => getComputedStyle(el).backgroundColor)]",
    );
    let (bars, legend) = (colours[0].as_array().unwrap(), colours[1].as_array().unwrap());
    assert_eq!(bars.len(), 2);
    for bar in bars {
        assert!(legend.contains(bar), "{bar} is not in the legend: {legend:?}");
    }
}

#[test]
fn the_date_has_its_label_on_a_phone() {
    let folder = merged();
    let Some((_serve, browser)) = opened(&folder) else { return };
    browser.phone(360, 740);
    browser.until_count(".device", 1);
    browser.click(".device");
    browser.until_count("rect.bar", 2);
    let height = "document.querySelector('label[for=upto]').getBoundingClientRect().height";
    assert!(browser.value(height).as_f64().unwrap() > 8.0);
    browser.until("document.documentElement.scrollWidth <= 360");
    browser.picture("phone-date");
}
