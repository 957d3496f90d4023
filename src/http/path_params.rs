//! Descriptions of the parameters for the paths of trips, which several routes have.

use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{KnownFormat, Required, SchemaFormat};

use super::params::{MAX_SIMPLIFY_M, MAX_STOP_S};
use crate::timeline::StopRule;

/// What counts as a stop.
#[derive(Debug)]
pub struct StopParams;

/// How much of a path an answer has.
#[derive(Debug)]
pub struct DetailParams;

fn parameter(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn flag() -> ObjectBuilder {
    Object::builder().schema_type(Type::Boolean)
}

/// A number above 0.
fn number(max: f64) -> ObjectBuilder {
    Object::builder()
        .schema_type(Type::Number)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Double)))
        .exclusive_minimum(Some(0.0))
        .maximum(Some(max))
}

impl IntoParams for StopParams {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let radius_m =
            "Maximum distance of the samples of a stop from its first one, m; default 100";
        let min_s = "Minimum duration of a stop, s; default 300";
        vec![
            parameter("stop_radius_m", radius_m, number(StopRule::MAX_RADIUS_M)),
            parameter("stop_min_s", min_s, number(MAX_STOP_S)),
        ]
    }
}

impl IntoParams for DetailParams {
    fn into_params(provider: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let simplify = "Omit samples of the path within this distance, in metres, of the line \
            through the others";
        let stops = "Include the stops, and the duration without them as `moving_s`";
        let mut parameters = vec![
            parameter("path", "Include the samples as `path`", flag()),
            parameter("simplify", simplify, number(MAX_SIMPLIFY_M)),
            parameter("stops", stops, flag()),
        ];
        parameters.extend(StopParams::into_params(provider));
        parameters
    }
}
