//! Descriptions of parameters and answers that several routes have.

use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, RefOr, Required, SchemaFormat};

use super::list_options::{bbox_schema, fields_schema};
use super::params::MAX_LIMIT;
use crate::ops::trip_filter::MAX_DISTANCE_M;

pub(crate) const TRIP_ID: &str = "Text, key or UUID form";

pub(crate) const DEVICE_TOKEN: &str = "The device id, percent-encoded, or its token: each byte other than A-Z a-z 0-9 . _ - written as ~hh";

pub(crate) const MIN_VERSION: &str =
    "The answer has to include this version, `version` of an earlier answer; else 503, `not_yet`";

/// Of 503 where `min_version` is a parameter.
pub(crate) const NOT_YET: &str = "The server is over a limit, the store is unavailable, or the answer may lack `min_version` (`not_yet`); see `Retry-After`";

/// Of 403 where a tag is changed.
pub(crate) const FORBIDDEN_CHANGE: &str = "The request is from a page of another origin (`foreign_origin`), or the token does not have the right `write` (`forbidden`)";

/// Of 412.
pub(crate) const CHANGED: &str =
    "The tag was changed (`changed`); `tag` is the one that counts, or null";

fn query(name: &str, description: &str, schema: impl Into<RefOr<Schema>>) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
}

fn schema(schema_type: Type) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(schema_type)
}

fn text(pattern: &str) -> ObjectBuilder {
    schema(Type::String).pattern(Some(pattern))
}

/// A number from 1.
fn count(max: usize) -> ObjectBuilder {
    let int32 = SchemaFormat::KnownFormat(KnownFormat::Int32);
    schema(Type::Integer).format(Some(int32)).minimum(Some(1)).maximum(Some(max))
}

/// A number above 0.
fn number(max: f64) -> ObjectBuilder {
    let double = SchemaFormat::KnownFormat(KnownFormat::Double);
    schema(Type::Number).format(Some(double)).exclusive_minimum(Some(0.0)).maximum(Some(max))
}

macro_rules! parameters {
    ($($(#[$doc:meta])*
        $name:ident = [$($own:expr),* $(,)?] $(, $others:ident, [$($more:expr),* $(,)?])?;)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl IntoParams for $name {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                #[allow(unused_mut)]
                let mut all = vec![$($own.build()),*];
                $(
                    all.extend($others::into_params(|| None));
                    all.extend([$($more.build()),*]);
                )?
                all
            }
        }
    )+};
}

/// An IANA name.
fn zone() -> ObjectBuilder {
    text("^[A-Za-z0-9_+/-]{1,40}$").examples(["Europe/Berlin"])
}

fn tag(description: &str, example: &str) -> ParameterBuilder {
    let filter = r"^[A-Za-z0-9._-]{1,64}(=[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*)?$";
    query("tag", description, text(filter)).example(Some(example.into()))
}

parameters! {
    /// The zone of a request about times.
    ZoneParam = [
        query("tz", "Time zone, by its IANA name, of `day` and of times without an offset; default UTC", zone()),
    ];
    /// Which devices a list has.
    DeviceFilter = [
        tag("Only devices with this tag, `key=value`, or with any value of a key: a page with a next one may have fewer devices than its limit, or none", "group=north"),
    ];
    /// How much of a path an answer has.
    DetailParams = [
        query("path", "Include the samples as `path`", schema(Type::Boolean)),
        query("simplify", "Omit samples of the path within this distance, in metres, of the line through the others", number(MAX_DISTANCE_M)),
    ];
    /// Which trips a list has, and how much of them.
    ListParams = [
        query("kind", "Trips (default), stops or both", text("^(trip|stop|all)$")),
        query("bbox", "Only trips whose bounding box overlaps this one: west, south, east, north, in degrees, separated by commas; west may be greater than east", bbox_schema()),
        query("driver", "Only trips of this driver", schema(Type::String)),
        tag("Only trips with this tag, `key=value`, or with any value of a key", "purpose=business"),
        query("min_distance_m", "Only trips of at least this distance, m, and stops: leaves out what noise makes of parked vehicles", number(MAX_DISTANCE_M)),
        query("fields", "Only these fields of each trip, separated by commas", fields_schema()),
    ], DetailParams, [
        query("tz", "Time zone, by its IANA name, of `day`, of times without an offset, and of the times of CSV; default UTC", zone()),
        query("limit", "Maximum trips per page; default 100", count(MAX_LIMIT)),
        query("cursor", "`next` of the previous page", text("^[0-9a-v]+$"))
    ];
}
