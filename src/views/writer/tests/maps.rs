//! Formats with the path as a geometry or a track.

use serde_json::{Value, json};

use super::*;

/// [`T`] as text.
const TIME: &str = "2026-11-20T21:38:00.123Z";

#[test]
fn geojson_is_a_collection_of_lines_and_points() {
    let none = Extras::default();
    let text = written(Form::GeoJson, false, &[merged(), single("b")], &none);
    let collection: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(collection["type"], "FeatureCollection");
    let line = &collection["features"][0];
    let times = [TIME, "2026-11-20T21:41:20.123Z", "2026-11-20T21:44:40.123Z"];
    assert_eq!(line["properties"]["coordTimes"], json!(times));
    assert_eq!((&line["type"], &line["id"]), (&"Feature".into(), &line["properties"]["id"]));
    assert_eq!(
        line["geometry"],
        json!({
            "type": "LineString",
            "coordinates": [[13.25, 52.5], [13.375, 52.5], [13.5, 52.5, 34.5]],
        })
    );
    assert_eq!(line["bbox"], json!([13.25, 52.5, 13.5, 52.5]));
    assert_eq!(line["properties"]["samples"], 3);
    assert!(line["properties"].get("start").is_none() && line["properties"].get("path").is_none());
    let point = &collection["features"][1]["geometry"];
    assert_eq!(*point, json!({"type": "Point", "coordinates": [7.0, -1e-7]}));
    assert_eq!(collection["features"][1]["properties"]["coordTimes"], json!([TIME]));
    let empty: Value = serde_json::from_str(&written(Form::GeoJson, false, &[], &none)).unwrap();
    assert_eq!(empty["features"], json!([]));
}

#[test]
fn gpx_escapes_names_and_is_well_formed() {
    let none = Extras::default();
    let text = written(Form::Gpx, false, &[merged(), single("<b>\u{1}\n")], &none);
    assert!(text.contains("<name>truck-17~20261120T213800.123Z</name>"), "{text}");
    assert!(text.contains("<desc>driver Ann &lt;&quot;A&quot; &amp; B&gt;</desc>"), "{text}");
    assert!(text.contains("<src>&lt;b&gt;\u{fffd}&#10;</src>"), "{text}");
    let last = "<trkpt lat=\"52.5\" lon=\"13.5\"><ele>34.5</ele>\
                <time>2026-11-20T21:44:40.123Z</time></trkpt>";
    assert!(text.contains(last), "{text}");
    let middle = "<time>2026-11-20T21:41:20.123Z</time><extensions>\
                  <gpxtpx:TrackPointExtension><gpxtpx:speed>10.5</gpxtpx:speed>\
                  <gpxtpx:course>90.5</gpxtpx:course></gpxtpx:TrackPointExtension>\
                  </extensions></trkpt>";
    assert!(text.contains(middle), "{text}");
    assert!(text.contains("lat=\"-0.0000001\""), "decimal, never with an exponent: {text}");
    check_nesting(&text);
    check_nesting(&written(Form::Gpx, false, &[], &none));
}

#[test]
fn kml_has_a_time_for_each_position_and_the_fields_as_data() {
    let none = Extras::default();
    let text = written(Form::Kml, false, &[merged(), single("<b>\u{1}\n")], &none);
    let tracks: Vec<&str> = text.split("<gx:Track>").skip(1).collect();
    let [line, point] = tracks[..] else { panic!("{text}") };
    let expected = "\n<when>2026-11-20T21:38:00.123Z</when>\n\
                    <when>2026-11-20T21:41:20.123Z</when>\n\
                    <when>2026-11-20T21:44:40.123Z</when>\n\
                    <gx:coord>13.25 52.5 0</gx:coord>\n<gx:coord>13.375 52.5 0</gx:coord>\n\
                    <gx:coord>13.5 52.5 34.5</gx:coord>\n</gx:Track>";
    assert!(line.starts_with(expected), "{text}");
    assert!(point.contains("<gx:coord>7 -0.0000001 0</gx:coord>"), "{text}");
    for data in [
        "<Data name=\"driver\"><value>Ann &lt;&quot;A&quot; &amp; B&gt;</value></Data>",
        "<Data name=\"absorbed\"><value>truck-17~20261120T214440.123Z</value></Data>",
        "<Data name=\"device_id\"><value>&lt;b&gt;\u{fffd}&#10;</value></Data>",
    ] {
        assert!(text.contains(data), "{data}: {text}");
    }
    check_nesting(&text);
    check_nesting(&written(Form::Kml, false, &[], &none));
}

#[test]
fn kepler_has_times_as_the_fourth_coordinate_and_lines_only() {
    let text = written(Form::Kepler, false, &[merged(), single("b")], &Extras::default());
    let collection: Value = serde_json::from_str(&text).unwrap();
    let [line, single] = [0, 1].map(|at| &collection["features"][at]);
    let ms = |after: i64| (T + after).ms() as f64;
    let positions = json!([
        [13.25, 52.5, 0.0, ms(0)],
        [13.375, 52.5, 0.0, ms(200_000)],
        [13.5, 52.5, 34.5, ms(400_000)],
    ]);
    assert_eq!(line["geometry"], json!({"type": "LineString", "coordinates": positions}));
    assert_eq!(
        (&line["id"], &line["properties"]["samples"]),
        (&line["properties"]["id"], &json!(3))
    );
    assert!(line["properties"].get("coordTimes").is_none());
    let position = json!([7.0, -1e-7, 0.0, ms(0)]);
    assert_eq!(single["geometry"]["coordinates"], json!([position, position]));
    assert_eq!(single["properties"]["samples"], 1);
}

#[test]
fn moving_features_have_positions_and_readings_with_their_times() {
    let text = written(Form::MfJson, false, &[merged(), single("b")], &Extras::default());
    let collection: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(collection["crs"]["properties"]["name"], "urn:ogc:def:crs:OGC:1.3:CRS84");
    let [line, point] = [0, 1].map(|at| &collection["features"][at]);
    let times = [TIME, "2026-11-20T21:41:20.123Z", "2026-11-20T21:44:40.123Z"];
    let geometry = json!({
        "type": "MovingPoint", "datetimes": times, "interpolation": "Linear",
        "coordinates": [[13.25, 52.5], [13.375, 52.5], [13.5, 52.5]],
    });
    assert_eq!(line["temporalGeometry"], geometry);
    assert_eq!(line["time"], json!([times[0], times[2]]));
    let measure = |form: &str, values: &[f64], interpolation: &str| {
        json!({
            "type": "Measure", "form": form, "values": values, "interpolation": interpolation,
        })
    };
    let readings = json!([
        {"datetimes": times[..2], "speed": measure("MTS", &[10.5, 10.5], "Linear")},
        {"datetimes": times[1..2], "heading": measure("DD", &[90.5], "Discrete")},
        {"datetimes": times[2..], "altitude": measure("MTR", &[34.5], "Linear")},
    ]);
    assert_eq!(line["temporalProperties"], readings);
    assert_eq!(point["temporalGeometry"]["coordinates"], json!([[7.0, -1e-7]]));
    assert_eq!(
        (&point["temporalProperties"], &point["id"]),
        (&json!([]), &point["properties"]["id"])
    );
    let none = written(Form::MfJson, false, &[], &Extras::default());
    assert_eq!(serde_json::from_str::<Value>(&none).unwrap()["features"], json!([]));
}

/// Asserts that every element has its own end tag, and that there is one outermost element.
fn check_nesting(xml: &str) {
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n").unwrap();
    let (mut open, mut outermost): (Vec<&str>, usize) = (Vec::new(), 0);
    for tag in body.split('<').skip(1) {
        let (inside, text) = tag.split_once('>').unwrap();
        assert!(!text.contains('>'), "{tag}");
        if let Some(name) = inside.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else {
            outermost += usize::from(open.is_empty());
            open.push(inside.split(' ').next().unwrap());
        }
    }
    assert_eq!((open.len(), outermost), (0, 1));
}
