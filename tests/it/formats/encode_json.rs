//! The formats that are JSON.

use super::{Carries, Form, Format, Point, member, text_member};

/// Formats of single samples, and of several in one record.
pub fn formats() -> Vec<Format> {
    let base = Format::BASE.carries;
    let whole = Carries { millis: false, ..base };
    let moving = Carries { altitude: false, accuracy: false, ..base };
    let all = Carries { ignition: true, driver: true, ..base };
    let ignition = Carries { ignition: true, ..base };
    vec![
        Format { carries: all, ..Format::preset("traccar", traccar) },
        Format { carries: all, ..Format::preset("traccar-api", traccar_api) },
        Format::preset("traccar-client", traccar_client),
        Format {
            carries: whole,
            key: |point| format!("owntracks/fleet/{}", point.device),
            ..Format::preset("owntracks", |points| owntracks(&points[0]))
        },
        Format { form: Form::Records(10), ..Format::preset("overland", overland) },
        Format {
            carries: Carries { accuracy: false, ..ignition },
            form: Form::Records(10),
            ..Format::preset("flespi", flespi)
        },
        Format {
            carries: Carries { altitude: false, ..base },
            ..Format::preset("samsara", samsara)
        },
        Format {
            carries: moving,
            form: Form::Records(10),
            ..Format::preset("samsara-history", samsara_history)
        },
        Format { carries: moving, ..Format::preset("tesla", tesla) },
        Format { carries: moving, ..Format::preset("hfp", hfp) },
        Format {
            carries: Carries { millis: false, ..moving },
            ..Format::preset("gtfs-rt", |points| gtfs_entity(&points[0]))
        },
        Format {
            name: "gtfs-rt feed",
            carries: Carries { millis: false, ..moving },
            form: Form::Records(10),
            ..Format::preset("gtfs-rt", gtfs_feed)
        },
        Format { form: Form::Records(10), ..Format::preset("mds", mds) },
        Format {
            carries: Carries { heading: false, ignition: true, ..moving },
            ..Format::preset("geotab", |points| geotab(&points[0]))
        },
        Format {
            name: "geotab feed",
            carries: Carries { heading: false, ..moving },
            form: Form::Records(10),
            ..Format::preset("geotab", geotab_feed)
        },
        Format { carries: all, ..Format::preset("geojson", |points| geojson(&points[0])) },
        Format { carries: whole, ..Format::preset("emqx", emqx) },
        Format {
            carries: Carries { altitude: false, ..base },
            ..Format::preset("namma-yatri", namma_yatri)
        },
        Format { carries: all, ..Format::preset("kafka-connect", kafka_connect) },
    ]
}

/// Objects, one a line.
pub fn canonical(points: &[Point]) -> String {
    let line = |point: &Point| {
        format!(
            "{{\"device_id\":\"{}\",\"time\":\"{}\",\"lat\":{},\"lon\":{}{}{}{}{}{}{}}}",
            point.device,
            point.rfc3339(),
            point.lat,
            point.lon,
            member("speed", point.speed),
            member("heading", point.heading),
            member("altitude", point.altitude),
            member("accuracy", point.accuracy),
            member("ignition", point.ignition),
            text_member("driver", point.driver.as_deref())
        )
    };
    points.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn list(points: &[Point], element: impl Fn(&Point) -> String) -> String {
    points.iter().map(element).collect::<Vec<_>>().join(",")
}

/// A position of Traccar.
fn traccar_position(point: &Point, device: &str) -> String {
    let time = point.time("%Y-%m-%dT%H:%M:%S%.3f+00:00");
    format!(
        "{{\"id\":0,\"attributes\":{{\"motion\":true,\"sat\":9,\"distance\":12.3{}{},\
         \"totalDistance\":5922.96,\"hours\":{}}},\"deviceId\":{device},\
         \"protocol\":\"teltonika\",\"serverTime\":\"{time}\",\"deviceTime\":\"{time}\",\
         \"fixTime\":\"{time}\",\"valid\":true,\"latitude\":{},\"longitude\":{}{}{}{},\
         \"address\":null{},\"network\":null,\"geofenceIds\":null}}",
        member("ignition", point.ignition),
        text_member("driverUniqueId", point.driver.as_deref()),
        point.seconds() % 100_000,
        point.lat,
        point.lon,
        member("altitude", point.altitude),
        member("speed", point.knots()),
        member("course", point.heading),
        member("accuracy", point.accuracy)
    )
}

fn traccar(points: &[Point]) -> String {
    let point = &points[0];
    format!(
        "{{\"position\":{},\"device\":{{\"id\":134,\"attributes\":{{}},\"groupId\":0,\
         \"calendarId\":0,\"name\":\"Van 1\",\"uniqueId\":\"{}\",\"status\":\"online\",\
         \"lastUpdate\":\"{}\",\"positionId\":0,\"phone\":null,\"model\":null,\"contact\":null,\
         \"category\":null,\"disabled\":false,\"expirationTime\":null}}}}",
        traccar_position(point, "134"),
        point.device,
        point.rfc3339()
    )
}

/// Here the device is the text that it is, where Traccar has a number.
fn traccar_api(points: &[Point]) -> String {
    traccar_position(&points[0], &format!("\"{}\"", points[0].device))
}

fn traccar_client(points: &[Point]) -> String {
    let point = &points[0];
    format!(
        "{{\"location\":{{\"timestamp\":\"{}\",\"coords\":{{\"latitude\":{},\"longitude\":{}{}{},\
         \"speed_accuracy\":-1{},\"heading_accuracy\":-1{}}},\"is_moving\":true,\"odometer\":0,\
         \"uuid\":\"2FB04C65-99CF-42AB-8DD3-EBCB4B108BF8\",\"battery\":{{\"level\":-1,\
         \"is_charging\":false}},\"activity\":{{\"type\":\"in_vehicle\",\"confidence\":100}},\
         \"extras\":{{}}}},\"device_id\":\"{}\"}}",
        point.rfc3339(),
        point.lat,
        point.lon,
        member("accuracy", point.accuracy),
        member("speed", point.speed),
        member("heading", point.heading),
        member("altitude", point.altitude),
        point.device
    )
}

/// A message of OwnTracks; the device is in its topic.
pub fn owntracks(point: &Point) -> String {
    format!(
        "{{\"_type\":\"location\",\"tid\":\"-1\",\"lat\":{},\"lon\":{},\"tst\":{}{}{},\
         \"batt\":83,\"conn\":\"m\",\"t\":\"t\",\"created_at\":{},\"_id\":\"bb8a8cd6\"{}{},\
         \"topic\":\"owntracks/fleet/{}\"}}",
        point.lat,
        point.lon,
        point.seconds(),
        member("acc", point.accuracy),
        member("alt", point.altitude),
        point.seconds() + 2,
        member("vel", point.kmh()),
        member("cog", point.heading),
        point.device
    )
}

fn overland(points: &[Point]) -> String {
    let location = |point: &Point| {
        format!(
            "{{\"type\":\"Feature\",\"geometry\":{{\"type\":\"Point\",\"coordinates\":[{},{}]}},\
             \"properties\":{{\"timestamp\":\"{}\"{}{}{}{},\"vertical_accuracy\":-1,\
             \"speed_accuracy\":-1,\"course_accuracy\":-1,\"motion\":[\"driving\"],\
             \"battery_state\":\"charging\",\"battery_level\":0.8,\"wifi\":\"\",\
             \"device_id\":\"{}\"}}}}",
            point.lon,
            point.lat,
            point.time("%Y-%m-%dT%H:%M:%S%.3f+0000"),
            member("altitude", point.altitude),
            member("speed", point.speed),
            member("course", point.heading),
            member("horizontal_accuracy", point.accuracy),
            point.device
        )
    };
    format!("{{\"locations\":[{}]}}", list(points, location))
}

fn flespi(points: &[Point]) -> String {
    let message = |point: &Point| {
        let (seconds, ms) = (point.seconds(), point.time_ms.rem_euclid(1000));
        format!(
            "{{\"ident\":\"{}\",\"timestamp\":{seconds}.{ms:03},\
             \"server.timestamp\":{}.123456,\"channel.id\":429,\"device.id\":182083,\
             \"device.name\":\"Van\",\"device.type.id\":744,\"protocol.id\":14,\"peer\":\"\",\
             \"position.latitude\":{},\"position.longitude\":{}{}{}{},\
             \"position.satellites\":15,\"position.hdop\":0.3,\"position.valid\":true{},\
             \"movement.status\":true,\"message.buffered.status\":true,\"gsm.mcc\":257}}",
            point.device,
            seconds + 3600,
            point.lat,
            point.lon,
            member("position.altitude", point.altitude),
            member("position.direction", point.heading),
            member("position.speed", point.kmh()),
            member("engine.ignition.status", point.ignition)
        )
    };
    format!("[{}]", list(points, message))
}

fn samsara(points: &[Point]) -> String {
    let point = &points[0];
    let speed = point.speed.map_or_else(String::new, |speed| {
        format!("\"gpsSpeedMetersPerSecond\":{speed},\"ecuSpeedMetersPerSecond\":{speed}")
    });
    format!(
        "{{\"asset\":{{\"externalIds\":{{}},\"id\":\"{}\"}},\"happenedAtTime\":\"{}\",\
         \"location\":{{\"geofence\":{{}}{}{},\"latitude\":{},\"longitude\":{}}},\
         \"speed\":{{{speed}}}}}",
        point.device,
        point.rfc3339(),
        member("accuracyMeters", point.accuracy),
        member("headingDegrees", point.heading),
        point.lat,
        point.lon
    )
}

fn samsara_history(points: &[Point]) -> String {
    let gps = |point: &Point| {
        format!(
            "{{\"time\":\"{}\",\"latitude\":{},\"longitude\":{}{}{},\
             \"reverseGeo\":{{\"formattedLocation\":\"-\"}},\"isEcuSpeed\":false}}",
            point.rfc3339(),
            point.lat,
            point.lon,
            member("headingDegrees", point.heading),
            member("speedMilesPerHour", point.mph())
        )
    };
    let vehicle = |points: &[Point]| {
        let device = &points[0].device;
        format!("{{\"id\":\"{device}\",\"name\":\"{device}\",\"gps\":[{}]}}", list(points, gps))
    };
    let vehicles = points.chunk_by(|one, next| one.device == next.device).map(vehicle);
    let vehicles = vehicles.collect::<Vec<_>>().join(",");
    format!(
        "{{\"data\":[{vehicles}],\"pagination\":{{\"endCursor\":\"a\",\"hasNextPage\":false}}}}"
    )
}

fn tesla(points: &[Point]) -> String {
    let point = &points[0];
    let double = |key: &str, value: Option<f64>| {
        let value = value
            .map(|value| format!(",{{\"key\":\"{key}\",\"value\":{{\"doubleValue\":{value}}}}}"));
        value.unwrap_or_default()
    };
    format!(
        "{{\"data\":[{{\"key\":\"Location\",\"value\":{{\"locationValue\":{{\"latitude\":{},\
         \"longitude\":{}}}}}}}{}{}],\"createdAt\":\"{}\",\"vin\":\"{}\",\"isResend\":true}}",
        point.lat,
        point.lon,
        double("VehicleSpeed", point.mph()),
        double("GpsHeading", point.heading.map(f64::from)),
        point.rfc3339(),
        point.device
    )
}

fn hfp(points: &[Point]) -> String {
    let point = &points[0];
    format!(
        "{{\"VP\":{{\"desi\":\"159\",\"dir\":\"2\",\"oper\":6,\"veh\":\"{}\",\"tst\":\"{}\",\
         \"tsi\":{}{}{},\"lat\":{},\"long\":{},\"acc\":0,\"dl\":-21,\"odo\":null,\"drst\":null,\
         \"oday\":\"2026-11-20\",\"jrn\":202,\"line\":1062,\"start\":\"09:32\",\"loc\":\"GPS\",\
         \"stop\":null,\"route\":\"2159\",\"occu\":0}}}}",
        point.device,
        point.rfc3339(),
        point.seconds(),
        member("spd", point.speed),
        member("hdg", point.heading),
        point.lat,
        point.lon
    )
}

fn gtfs_entity(point: &Point) -> String {
    format!(
        "{{\"id\":\"0\",\"vehicle\":{{\"trip\":{{\"tripId\":\"trip-7\",\"routeId\":\"route-9\"}},\
         \"position\":{{\"latitude\":{},\"longitude\":{}{}{}}},\"timestamp\":\"{}\",\
         \"vehicle\":{{\"id\":\"{}\",\"label\":\"Van\"}}}}}}",
        point.lat,
        point.lon,
        member("bearing", point.heading),
        member("speed", point.speed),
        point.seconds(),
        point.device
    )
}

fn gtfs_feed(points: &[Point]) -> String {
    format!(
        "{{\"header\":{{\"gtfsRealtimeVersion\":\"2.0\",\"timestamp\":\"{}\"}},\"entity\":[{}]}}",
        points[0].seconds(),
        list(points, gtfs_entity)
    )
}

fn mds(points: &[Point]) -> String {
    let telemetry = |point: &Point| {
        format!(
            "{{\"device_id\":\"{}\",\"provider_id\":\"c20e08cf-8488-46a6-a66c-5d8fb827f7e0\",\
             \"telemetry_id\":\"00000000-0000-4000-8000-000000000000\",\"timestamp\":{},\
             \"trip_ids\":null,\"journey_id\":null,\"location\":{{\"lat\":{},\"lng\":{}{}{}{}{}}},\
             \"battery_percent\":83}}",
            point.device,
            point.time_ms,
            point.lat,
            point.lon,
            member("altitude", point.altitude),
            member("heading", point.heading),
            member("speed", point.speed),
            member("horizontal_accuracy", point.accuracy)
        )
    };
    format!("{{\"version\":\"2.0.0\",\"telemetry\":[{}]}}", list(points, telemetry))
}

fn geotab(point: &Point) -> String {
    format!(
        "{{\"Type\":\"GpsRecord\",\"DateTime\":\"{}\",\"SerialNo\":\"{}\",\"Latitude\":{},\
         \"Longitude\":{}{},\"IsGpsValid\":true{},\"IsAuxiliary1On\":false}}",
        point.rfc3339(),
        point.device,
        point.lat,
        point.lon,
        member("Speed", point.kmh()),
        member("IsIgnitionOn", point.ignition)
    )
}

fn geotab_feed(points: &[Point]) -> String {
    let record = |point: &Point| {
        format!(
            "{{\"latitude\":{},\"longitude\":{}{},\"dateTime\":\"{}\",\
             \"device\":{{\"id\":\"{}\"}},\"id\":\"b0\"}}",
            point.lat,
            point.lon,
            member("speed", point.kmh()),
            point.rfc3339(),
            point.device
        )
    };
    format!("{{\"result\":{{\"data\":[{}],\"toVersion\":\"00\"}}}}", list(points, record))
}

/// A feature of GeoJSON.
pub fn geojson(point: &Point) -> String {
    format!(
        "{{\"type\":\"Feature\",\"properties\":{{\"device_id\":\"{}\",\
         \"time\":\"{}\"{}{}{}{}{}{}}},\"geometry\":{{\"type\":\"Point\",\"coordinates\":[{},{}]}}}}",
        point.device,
        point.rfc3339(),
        member("speed", point.speed),
        member("heading", point.heading),
        member("altitude", point.altitude),
        member("accuracy", point.accuracy),
        member("ignition", point.ignition),
        text_member("driver", point.driver.as_deref()),
        point.lon,
        point.lat
    )
}

fn emqx(points: &[Point]) -> String {
    let point = &points[0];
    let payload = owntracks(point).replace('"', "\\\"");
    format!(
        "{{\"username\":\"fleet\",\"topic\":\"owntracks/fleet/{}\",\"timestamp\":{},\"qos\":1,\
         \"publish_received_at\":{},\"peerhost\":\"10.0.0.7\",\"payload\":\"{payload}\",\
         \"node\":\"emqx@127.0.0.1\",\"metadata\":{{\"rule_id\":\"r1\"}},\"id\":\"0006\",\
         \"flags\":{{\"retain\":false,\"dup\":false}},\"event\":\"message.publish\",\
         \"clientid\":\"{}\"}}",
        point.device,
        point.time_ms + 2000,
        point.time_ms + 2000,
        point.device
    )
}

fn namma_yatri(points: &[Point]) -> String {
    let point = &points[0];
    format!(
        "{{\"r_id\":null,\"m_id\":\"m1\",\"pt\":{{\"lat\":{},\"lon\":{}}},\"da\":true,\
         \"rid\":null,\"mocid\":\"c1\",\"ts\":\"{}\",\"st\":\"{}\",\"lat\":{},\"lon\":{}{}{},\
         \"ride_status\":\"IDLE\",\"active\":true,\"on_ride\":false,\"mode\":\"ONLINE\",\
         \"vehicle_variant\":\"AUTO_RICKSHAW\"{},\"is_stop_detected\":null,\"stop_lat\":null,\
         \"stop_lon\":null,\"location_type\":\"UNFILTERED\",\"next_upcoming_stop_eta\":null}}",
        point.lat,
        point.lon,
        point.rfc3339(),
        point.rfc3339(),
        point.lat,
        point.lon,
        member("acc", point.accuracy),
        member("speed", point.speed),
        member("bear", point.heading)
    )
}

fn kafka_connect(points: &[Point]) -> String {
    let point = &points[0];
    format!(
        "{{\"schema\":{{\"type\":\"struct\",\"name\":\"fleet.VehiclePosition\",\"optional\":false,\
         \"fields\":[{{\"field\":\"vehicle_id\",\"type\":\"string\"}},{{\"field\":\"ts\",\
         \"type\":\"int64\",\"name\":\"org.apache.kafka.connect.data.Timestamp\",\"version\":1}},\
         {{\"field\":\"lat\",\"type\":\"double\"}},{{\"field\":\"lon\",\"type\":\"double\"}},\
         {{\"field\":\"speed\",\"type\":\"double\",\"optional\":true}}]}},\
         \"payload\":{{\"vehicle_id\":\"{}\",\"ts\":{},\"lat\":{},\"lon\":{}{}{}{}{}{}{}}}}}",
        point.device,
        point.time_ms,
        point.lat,
        point.lon,
        member("speed", point.speed),
        member("heading", point.heading),
        member("altitude", point.altitude),
        member("accuracy", point.accuracy),
        member("ignition", point.ignition),
        text_member("driver", point.driver.as_deref())
    )
}
