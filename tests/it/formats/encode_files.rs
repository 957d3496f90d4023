//! The formats that are files. The device is the name of the file, or in each row.

use super::json::{geojson, owntracks};
use super::{Carries, Form, Format, Point, Reader};

pub fn formats() -> Vec<Format> {
    let base = Format::BASE.carries;
    let all = Carries { ignition: true, driver: true, ..base };
    let whole = Carries { millis: false, ..base };
    let moving = Carries { altitude: false, accuracy: false, ..base };
    let preset = |name, encode: fn(&[Point]) -> String, extension| Format {
        form: Form::Files(extension),
        ..Format::preset(name, encode)
    };
    vec![
        Format {
            name: "csv",
            reader: Reader::Canonical,
            carries: all,
            ..preset("gpx", canonical_csv, "csv")
        },
        Format {
            carries: Carries { millis: false, ..all },
            ..preset("traccar-csv", traccar_csv, "csv")
        },
        Format { name: "gpslogger csv", ..preset("gpslogger", gpslogger_csv, "csv") },
        Format { name: "gpslogger csv ;", ..preset("gpslogger", gpslogger_eu_csv, "eu.csv") },
        Format { name: "gpslogger geojson", ..preset("gpslogger", gpslogger_geojson, "geojson") },
        Format { name: "geojson file", carries: all, ..preset("geojson", collection, "geojson") },
        Format { carries: Carries { accuracy: false, ..base }, ..preset("gpx", gpx, "gpx") },
        Format { carries: moving, ..preset("nmea", nmea, "nmea") },
        Format { name: "owntracks rec", carries: whole, ..preset("owntracks", recorder, "rec") },
    ]
}

fn lines(head: &str, points: &[Point], line: impl Fn(&Point) -> String) -> String {
    let lines = points.iter().map(line);
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(lines).map(|line| line + "\n").collect()
}

/// The text of a cell.
fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn canonical_csv(points: &[Point]) -> String {
    let head = "device_id,time,lat,lon,speed,heading,altitude,accuracy,ignition,driver";
    lines(head, points, |point| {
        let cells = [
            point.device.clone(),
            point.rfc3339(),
            point.lat.to_string(),
            point.lon.to_string(),
            cell(point.speed),
            cell(point.heading),
            cell(point.altitude),
            cell(point.accuracy),
            cell(point.ignition),
            cell(point.driver.as_ref()),
        ];
        cells.join(",")
    })
}

fn traccar_csv(points: &[Point]) -> String {
    let head = "id,deviceId,protocol,serverTime,deviceTime,fixTime,valid,latitude,longitude,\
                altitude,speed,course,address,accuracy,ignition,driverUniqueId,sat";
    lines(head, points, |point| {
        let time = point.time("%Y-%m-%d %H:%M:%S");
        format!(
            "1,{},h02,{time},{time},{time},true,{},{},{},{},{},,{},{},{},9",
            point.device,
            point.lat,
            point.lon,
            cell(point.altitude),
            cell(point.knots()),
            cell(point.heading),
            cell(point.accuracy),
            cell(point.ignition),
            cell(point.driver.as_ref())
        )
    })
}

/// A table of GPSLogger, with this delimiter and decimal mark.
fn gpslogger_table(points: &[Point], delimiter: &str, mark: &str) -> String {
    let head = "time,lat,lon,elevation,accuracy,bearing,speed,satellites,provider,hdop,vdop,pdop,\
                geoidheight,ageofdgpsdata,dgpsid,activity,battery,annotation,timestamp_ms,\
                time_offset,distance,starttimestamp_ms,profile_name,battery_charging";
    lines(&head.replace(',', delimiter), points, |point| {
        let number = |value: Option<f64>| {
            value.map_or_else(String::new, |value| format!("{value:?}").replace('.', mark))
        };
        let time = point.rfc3339();
        let cells = [
            time.clone(),
            number(Some(point.lat)),
            number(Some(point.lon)),
            number(point.altitude.map(f64::from)),
            number(point.accuracy.map(f64::from)),
            number(point.heading.map(f64::from)),
            number(point.speed.map(f64::from)),
            "9,gps,,,,,,,,83,".replace(',', delimiter),
            point.time_ms.to_string(),
            time,
            number(Some(0.0)),
            format!("1795158000000{delimiter}Default Profile{delimiter}true"),
        ];
        cells.join(delimiter)
    })
}

fn gpslogger_csv(points: &[Point]) -> String {
    gpslogger_table(points, ",", ".")
}

fn gpslogger_eu_csv(points: &[Point]) -> String {
    gpslogger_table(points, ";", ",")
}

/// A collection of features, one a line.
fn features(points: &[Point], feature: impl Fn(&Point) -> String) -> String {
    let features: Vec<_> = points.iter().map(feature).collect();
    format!("{{\"type\": \"FeatureCollection\",\"features\": [\n{}\n]}}\n", features.join("\n,"))
}

fn gpslogger_geojson(points: &[Point]) -> String {
    features(points, |point| geojson(point).replace("heading", "bearing"))
}

fn collection(points: &[Point]) -> String {
    features(points, geojson)
}

fn gpx(points: &[Point]) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<gpx version=\"1.1\" creator=\"tstar\" \
         xmlns=\"http://www.topografix.com/GPX/1/1\">\n<trk><name>van</name><trkseg>\n",
    );
    let element = |name: &str, value: Option<String>| {
        value.map_or_else(String::new, |value| format!("<{name}>{value}</{name}>"))
    };
    for point in points {
        out += &format!(
            "<trkpt lat=\"{}\" lon=\"{}\">{}<time>{}</time><extensions>\
             <gpxtpx:TrackPointExtension>{}{}</gpxtpx:TrackPointExtension></extensions></trkpt>\n",
            point.lat,
            point.lon,
            element("ele", point.altitude.map(|value| value.to_string())),
            point.rfc3339(),
            element("gpxtpx:speed", point.speed.map(|value| value.to_string())),
            element("gpxtpx:course", point.heading.map(|value| value.to_string())),
        );
    }
    out + "</trkseg></trk></gpx>\n"
}

fn nmea(points: &[Point]) -> String {
    lines("", points, |point| {
        let angle = |degrees: f64, width: usize, signs: [char; 2]| {
            let (whole, sign) = (degrees.abs().trunc(), signs[usize::from(degrees < 0.0)]);
            format!("{whole:0width$}{:08.5},{sign}", (degrees.abs() - whole) * 60.0)
        };
        let content = format!(
            "GPRMC,{},A,{},{},{},{},{},,",
            point.time("%H%M%S%.3f"),
            angle(point.lat, 2, ['N', 'S']),
            angle(point.lon, 3, ['E', 'W']),
            point.knots().map_or_else(String::new, |knots| format!("{knots:.3}")),
            cell(point.heading),
            point.time("%d%m%y")
        );
        let sum = content.bytes().fold(0, |sum, byte| sum ^ byte);
        format!("${content}*{sum:02X}\r")
    })
}

/// Lines of OwnTracks' recorder.
fn recorder(points: &[Point]) -> String {
    lines("", points, |point| {
        format!("{}\t*                 \t{}", point.time("%Y-%m-%dT%H:%M:%SZ"), owntracks(point))
    })
}
