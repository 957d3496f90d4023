//! The presets.

use super::Preset;
use crate::model::rules::{SpeedUnit, TimeUnit};
use crate::model::schema::Encoding;

/// All presets, in the order of the documentation.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "traccar",
        about: "Traccar forwarder: position with its device; events are skipped",
        source: "https://www.traccar.org/forward/",
        map: &[
            "when=/position&!/event",
            "valid=/position/valid",
            "device_id=/device/uniqueId",
            "time=/position/fixTime",
            "lat=/position/latitude",
            "lon=/position/longitude",
            "speed=/position/speed",
            "heading=/position/course",
            "altitude=/position/altitude",
            "accuracy=/position/accuracy",
            "driver=/position/attributes/driverUniqueId",
            "ignition=/position/attributes/ignition",
        ],
        speed_unit: SpeedUnit::Knots,
        ..Preset::BASE
    },
    Preset {
        name: "traccar-api",
        about: "Traccar API: list of positions; devices are numbers",
        source: "https://www.traccar.org/api-reference/",
        map: &[
            "valid=/valid",
            "device_id=/deviceId",
            "time=/fixTime",
            "lat=/latitude",
            "lon=/longitude",
            "speed=/speed",
            "heading=/course",
            "altitude=/altitude",
            "accuracy=/accuracy",
            "driver=/attributes/driverUniqueId",
            "ignition=/attributes/ignition",
        ],
        speed_unit: SpeedUnit::Knots,
        ..Preset::BASE
    },
    Preset {
        name: "traccar-csv",
        about: "Traccar CSV export; devices are numbers, times in UTC",
        source: "https://github.com/traccar/traccar (CsvExportProvider)",
        map: &[
            "valid=valid",
            "device_id=deviceId",
            "time=fixTime",
            "lat=latitude",
            "lon=longitude",
            "speed=speed",
            "heading=course",
            "altitude=altitude",
            "accuracy=accuracy",
            "driver=driverUniqueId",
            "ignition=ignition",
        ],
        speed_unit: SpeedUnit::Knots,
        time_zone: Some("UTC"),
        ..Preset::BASE
    },
    Preset {
        name: "traccar-client",
        about: "Traccar Client for phones: location with coords",
        source: "https://www.traccar.org/client/",
        map: &[
            "device_id=/device_id",
            "time=/location/timestamp",
            "lat=/location/coords/latitude",
            "lon=/location/coords/longitude",
            "speed=/location/coords/speed",
            "heading=/location/coords/heading",
            "altitude=/location/coords/altitude",
            "accuracy=/location/coords/accuracy",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "owntracks",
        about: "OwnTracks: HTTP, MQTT bridge with the topic as key, recorder files",
        source: "https://owntracks.org/booklet/tech/json/",
        map: &[
            "when=/_type=location",
            "device_id=@header:X-Limit-D|@key/2|/topic/{2}|/tid",
            "time=/tst",
            "lat=/lat",
            "lon=/lon",
            "speed=/vel",
            "heading=/cog",
            "altitude=/alt",
            "accuracy=/acc",
        ],
        time_unit: TimeUnit::Seconds,
        speed_unit: SpeedUnit::KilometresPerHour,
        ..Preset::BASE
    },
    Preset {
        name: "overland",
        about: "Overland: batches of GeoJSON points",
        source: "https://github.com/aaronpk/Overland-iOS#api",
        map: &[
            "samples=/locations",
            "when=/geometry/type=Point",
            "device_id=/properties/device_id|/properties/unique_id|@key|@file",
            "time=/properties/timestamp",
            "lat=/geometry/coordinates/1",
            "lon=/geometry/coordinates/0",
            "speed=/properties/speed",
            "heading=/properties/course",
            "altitude=/properties/altitude",
            "accuracy=/properties/horizontal_accuracy",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "flespi",
        about: "flespi: messages, alone or in lists; those without a position are skipped",
        source: "https://flespi.com/kb/messages-basic-information-units",
        map: &[
            "when=/position.latitude",
            "valid=/position.valid",
            "device_id=/ident",
            "time=/timestamp",
            "lat=/position.latitude",
            "lon=/position.longitude",
            "speed=/position.speed",
            "heading=/position.direction",
            "altitude=/position.altitude",
            "ignition=/engine.ignition.status",
        ],
        time_unit: TimeUnit::Seconds,
        speed_unit: SpeedUnit::KilometresPerHour,
        ..Preset::BASE
    },
    Preset {
        name: "samsara",
        about: "Samsara Kafka connector: asset locations",
        source: "https://developers.samsara.com/docs/kafka-connector",
        map: &[
            "when=/location/latitude",
            "device_id=/asset/id",
            "time=/happenedAtTime",
            "lat=/location/latitude",
            "lon=/location/longitude",
            "speed=/speed/gpsSpeedMetersPerSecond|/speed/ecuSpeedMetersPerSecond",
            "heading=/location/headingDegrees",
            "accuracy=/location/accuracyMeters",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "samsara-history",
        about: "Samsara API: history or feed of vehicle stats with gps",
        source: "https://developers.samsara.com/reference/getvehiclestatshistory",
        map: &[
            "samples=/data/*/gps",
            "device_id=/id",
            "time=/time",
            "lat=/latitude",
            "lon=/longitude",
            "speed=/speedMilesPerHour",
            "heading=/headingDegrees",
        ],
        speed_unit: SpeedUnit::MilesPerHour,
        ..Preset::BASE
    },
    Preset {
        name: "tesla",
        about: "Tesla fleet telemetry: decoded records of topic V",
        source: "https://github.com/teslamotors/fleet-telemetry",
        map: &[
            "when=/data/[key=Location]/value/locationValue",
            "device_id=/vin",
            "time=/createdAt",
            "lat=/data/[key=Location]/value/locationValue/latitude",
            "lon=/data/[key=Location]/value/locationValue/longitude",
            "speed=/data/[key=VehicleSpeed]/value/doubleValue|\
             /data/[key=VehicleSpeed]/value/floatValue|\
             /data/[key=VehicleSpeed]/value/intValue|\
             /data/[key=VehicleSpeed]/value/stringValue",
            "heading=/data/[key=GpsHeading]/value/doubleValue|\
             /data/[key=GpsHeading]/value/floatValue|/data/[key=GpsHeading]/value/intValue|\
             /data/[key=GpsHeading]/value/stringValue",
        ],
        speed_unit: SpeedUnit::MilesPerHour,
        key: "device_id",
        ..Preset::BASE
    },
    Preset {
        name: "hfp",
        about: "Digitransit HFP: vehicle positions; other events are skipped",
        source: "https://digitransit.fi/en/developers/apis/5-realtime-api/vehicle-positions/",
        map: &[
            "when=/VP/lat&/VP/long",
            "device_id=/VP/veh",
            "time=/VP/tst",
            "lat=/VP/lat",
            "lon=/VP/long",
            "speed=/VP/spd",
            "heading=/VP/hdg",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "gtfs-rt",
        about: "GTFS-realtime: vehicle positions of feeds in protobuf or JSON, or of entities in JSON",
        source: "https://gtfs.org/documentation/realtime/reference/",
        map: &[
            "samples=/entity|/",
            "when=/vehicle/position",
            "device_id=/vehicle/vehicle/id|/vehicle/vehicle/label|/id",
            "time=/vehicle/timestamp",
            "lat=/vehicle/position/latitude",
            "lon=/vehicle/position/longitude",
            "speed=/vehicle/position/speed",
            "heading=/vehicle/position/bearing",
        ],
        time_unit: TimeUnit::Seconds,
        decode: Encoding::GtfsRt,
        ..Preset::BASE
    },
    Preset {
        name: "mds",
        about: "Mobility Data Specification: telemetry",
        source: "https://github.com/openmobilityfoundation/mobility-data-specification",
        map: &[
            "samples=/telemetry|/data/telemetry|/",
            "device_id=/device_id",
            "time=/timestamp",
            "lat=/location/lat|/gps/lat",
            "lon=/location/lng|/gps/lng",
            "speed=/location/speed|/gps/speed",
            "heading=/location/heading|/gps/heading",
            "altitude=/location/altitude|/gps/altitude",
            "accuracy=/location/horizontal_accuracy|/gps/accuracy",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "geotab",
        about: "Geotab: GPS records of DIG, and the LogRecord feed; other records are skipped",
        source: "https://developers.geotab.com/",
        map: &[
            "samples=/result/data|/result|/data|/",
            "when=/Latitude|/latitude",
            "valid=/IsGpsValid",
            "device_id=/SerialNo|/device/id",
            "time=/DateTime|/dateTime",
            "lat=/Latitude|/latitude",
            "lon=/Longitude|/longitude",
            "speed=/Speed|/speed",
            "ignition=/IsIgnitionOn",
        ],
        speed_unit: SpeedUnit::KilometresPerHour,
        ..Preset::BASE
    },
    Preset {
        name: "gpslogger",
        about: "GPSLogger for Android: CSV and GeoJSON; the device is the name of the file",
        source: "https://gpslogger.app/",
        map: &[
            "samples=/features|/",
            "device_id=@file",
            "time=time|/properties/time",
            "lat=lat|/geometry/coordinates/1",
            "lon=lon|/geometry/coordinates/0",
            "speed=speed|/properties/speed",
            "heading=bearing|/properties/bearing",
            "altitude=elevation|/properties/altitude",
            "accuracy=accuracy|/properties/accuracy",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "gpx",
        about: "GPX tracks; the device is the name of the file",
        source: "https://www.topografix.com/GPX/1/1/",
        map: &["device_id=@file"],
        ..Preset::BASE
    },
    Preset {
        name: "nmea",
        about: "NMEA 0183: RMC sentences; the device is the name of the file",
        source: "https://en.wikipedia.org/wiki/NMEA_0183",
        map: &["device_id=@file"],
        ..Preset::BASE
    },
    Preset {
        name: "geojson",
        about: "GeoJSON points, alone or in a collection, with values in their properties",
        source: "https://www.rfc-editor.org/rfc/rfc7946",
        map: &[
            "samples=/features|/",
            "when=/geometry/type=Point",
            "device_id=/properties/device_id|/properties/deviceId|/properties/device|\
             /properties/vehicle_id|/properties/vehicleId|@key|@file",
            "time=/properties/time|/properties/timestamp|/properties/ts",
            "lat=/geometry/coordinates/1",
            "lon=/geometry/coordinates/0",
            "speed=/properties/speed",
            "heading=/properties/heading|/properties/bearing|/properties/course",
            "altitude=/properties/altitude|/geometry/coordinates/2",
            "accuracy=/properties/accuracy",
            "driver=/properties/driver",
            "ignition=/properties/ignition",
        ],
        ..Preset::BASE
    },
    Preset {
        name: "emqx",
        about: "EMQX bridge: OwnTracks messages in the payload, the client as device",
        source: "https://docs.emqx.com/en/emqx/latest/data-integration/data-bridge-kafka.html",
        map: &[
            "open=/payload",
            "when=/payload/_type=location",
            "device_id=/clientid",
            "time=/payload/tst",
            "lat=/payload/lat",
            "lon=/payload/lon",
            "speed=/payload/vel",
            "heading=/payload/cog",
            "altitude=/payload/alt",
            "accuracy=/payload/acc",
        ],
        time_unit: TimeUnit::Seconds,
        speed_unit: SpeedUnit::KilometresPerHour,
        ..Preset::BASE
    },
    Preset {
        name: "namma-yatri",
        about: "Namma Yatri location tracking: the driver as key",
        source: "https://github.com/nammayatri/location-tracking-service",
        map: &[
            "device_id=@key",
            "time=/ts",
            "lat=/lat|/pt/lat",
            "lon=/lon|/pt/lon",
            "speed=/speed",
            "heading=/bear",
            "accuracy=/acc",
        ],
        key: "device_id",
        ..Preset::BASE
    },
    Preset {
        name: "kafka-connect",
        about: "Kafka Connect JsonConverter with schemas: values in the payload",
        source: "https://kafka.apache.org/documentation/#connect",
        map: &[
            "device_id=/payload/device_id|/payload/deviceId|/payload/device|\
             /payload/vehicle_id|/payload/vehicleId",
            "time=/payload/time|/payload/ts|/payload/timestamp",
            "lat=/payload/lat|/payload/latitude",
            "lon=/payload/lon|/payload/longitude|/payload/lng",
            "speed=/payload/speed",
            "heading=/payload/heading|/payload/bearing|/payload/course",
            "altitude=/payload/altitude",
            "accuracy=/payload/accuracy",
            "driver=/payload/driver",
            "ignition=/payload/ignition",
        ],
        ..Preset::BASE
    },
];

/// What Traccar Client sent before version 9: the parameters of a query, as a JSON object. It is
/// for HTTP alone, and no preset of a store.
pub(crate) const OSMAND: Preset = Preset {
    name: "osmand",
    about: "OsmAnd protocol: parameters of a query",
    source: "https://www.traccar.org/osmand/",
    map: &[
        "valid=/valid",
        "device_id=/id|/deviceid",
        "time=/timestamp",
        "lat=/lat",
        "lon=/lon",
        "speed=/speed",
        "heading=/bearing|/heading",
        "altitude=/altitude",
        "accuracy=/accuracy",
        "driver=/driverUniqueId",
    ],
    time_unit: TimeUnit::Seconds,
    speed_unit: SpeedUnit::Knots,
    time_zone: Some("UTC"),
    ..Preset::BASE
};
