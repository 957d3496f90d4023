//! The OpenAPI description of the API.

use std::sync::LazyLock;

use axum::http::{HeaderMap, StatusCode};
use serde_json::json;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ArrayBuilder, Content, ContentBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, Required,
    Response, ResponseBuilder, SchemaFormat,
};
use utoipa_axum::router::OpenApiRouter;

use super::access::{forbidden, unauthorized};
use super::app::store_unavailable;
use super::body::{not_json, too_large};
use super::examples::{DEVICE, geojson, id};
use super::list_options::list_forms;
use super::middleware::foreign_name;
use super::page::{gzip, static_response};
use super::problem::Problem;
use super::samples::takes_no_samples;
use super::token::Right;
use super::trip_lists::{OF_DEVICE, OF_FLEET};
use super::{app_routes, open_routes, read_routes, unlimited_routes, write_routes};
use crate::identity::AnyId;
use crate::views::Form;

/// The OpenAPI document without the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "tstar",
        description = "Trips built from out-of-order location samples, each identified by \
            <device, t*>. Times in answers are RFC 3339 UTC with ms, and in CSV in the zone `tz`; \
            requests may use any offset, none in a zone, or ms since 1970.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/")),
    components(schemas(Problem)),
    security(("token" = [])),
    tags(
        (name = "trips", description = "Trips by time, by id, and in lists"),
        (name = "tags", description = "Tags and notes on trips and devices"),
        (name = "devices", description = "Devices"),
        (name = "changes", description = "The change feed"),
        (name = "samples", description = "Sample upload"),
        (name = "session", description = "Login of the map page"),
        (name = "health", description = "Health checks and metrics"),
    ),
)]
struct ApiDoc;

/// The URL path of a trip, which a suffix for the format may follow.
const TRIP: &str = "/v1/trips/{id}";

/// The content of an answer in a format other than JSON.
fn form_content(form: Form) -> Content {
    let object = || ObjectBuilder::new().schema_type(Type::Object);
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let schema = match form {
        Form::GeoJson => {
            let features = ArrayBuilder::new().items(object());
            object()
                .property("type", text().enum_values(Some(["FeatureCollection"])))
                .required("type")
                .property("features", features)
                .required("features")
        }
        form if form.spec().is_binary() => {
            text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Binary)))
        }
        _ => text(),
    };
    let example = (form == Form::GeoJson).then(geojson);
    ContentBuilder::new().schema(Some(schema.build())).example(example).build()
}

/// The answer of success of an operation.
fn success(operation: &mut Operation) -> &mut Response {
    match operation.responses.responses.get_mut("200") {
        Some(RefOr::T(answer)) => answer,
        _ => unreachable!("routes in other formats have an answer"),
    }
}

/// Describes a trip and lists in other formats, which a suffix of the URL path selects; for lists,
/// `Accept` as well. A trip then always has the samples, and holds no stops.
fn add_forms(api: &mut utoipa::openapi::OpenApi) {
    let of_trip =
        Form::ALL.into_iter().filter_map(|form| Some((TRIP, form, form.spec().media_type?)));
    let of_lists = [OF_FLEET, OF_DEVICE]
        .into_iter()
        .flat_map(|path| list_forms().map(move |(form, media_type)| (path, form, media_type)));
    let originals = api.paths.paths.clone();
    for (path, form, media_type) in of_trip.chain(of_lists) {
        let essence = media_type.split(';').next().unwrap_or_default().to_owned();
        let (name, content) = (form.spec().name, form_content(form));
        let mut item = originals[path].clone();
        let operation = item.get.as_mut().expect("the API has it");
        let id = operation.operation_id.as_deref().unwrap_or_default();
        operation.operation_id = Some(format!("{id}_{name}"));
        success(operation).content =
            [(essence.clone(), content.clone().into())].into_iter().collect();
        if path == TRIP {
            success(operation).description = "The trip with its samples".to_owned();
            let names = ["id", "simplify", "min_version"];
            operation.parameters.iter_mut().for_each(|parameters| {
                parameters.retain(|it| matches!(it, RefOr::T(it) if names.contains(&&*it.name)));
            });
        } else if let Some(list) = api.paths.paths.get_mut(path).and_then(|it| it.get.as_mut()) {
            success(list).content.insert(essence, content.into());
        }
        api.paths.paths.insert(format!("{path}.{name}"), item);
    }
}

/// An invalid id, a fault of the first parameter, or one of the body.
fn bad_request(operation: &Operation, is_of_trip: bool) -> Problem {
    if let (true, Err(error)) = (is_of_trip, AnyId::parse(DEVICE)) {
        return error.into();
    }
    match (&operation.request_body, operation.parameters.iter().flatten().next()) {
        (None, Some(RefOr::T(first))) => Problem::fault(&first.name, "given more than once"),
        _ => Problem::fault("body", "it is incomplete"),
    }
}

/// Whether an operation has a response, its description, and an example.
type Common = (bool, &'static str, Problem);

macro_rules! common {
    ($($applies:expr, $description:literal => $example:expr;)+) => {
        vec![$(($applies, $description, $example)),+]
    };
}

/// The responses of all routes, of those with input, and of those that require a token. The first
/// of a status counts.
fn common(operation: &Operation, (is_guarded, is_for_apps): (bool, bool)) -> Vec<Common> {
    let has_body = operation.request_body.is_some();
    let has_parameter = |is: fn(&Parameter) -> bool| {
        let mut parameters = operation.parameters.iter().flatten();
        parameters.any(|it| matches!(it, RefOr::T(it) if is(it)))
    };
    let is_of_trip = has_parameter(|it| it.name == "id" && it.parameter_in == ParameterIn::Path);
    let takes_input = has_body || has_parameter(|it| it.parameter_in != ParameterIn::Header);
    let shows_trips = |tag: &String| tag == "trips" || tag == "tags";
    let shows_trips = operation.tags.iter().flatten().any(shows_trips);
    let bad_request = || bad_request(operation, is_of_trip);
    let forbidden = || forbidden("gateway", Right::Read);
    let problem = |status, code, detail: &str| {
        Problem::new(StatusCode::from_u16(status).expect("it is a status"), code, detail)
    };
    common! {
        shows_trips, "The row of the trip is malformed (`malformed_trip`): a retry gets the same answer, until `tstar verify --repair` has repaired it"
            => Problem::malformed_trip("stored trip is malformed: device=`truck-17` bucket=2026-11-20T00:00:00.000Z");
        is_of_trip, "No trip has the id (`no_trip`)"
            => problem(404, "no_trip", &format!("no trip has the id `{}`", id(0)));
        is_of_trip, "The trip was erased"
            => problem(410, "gone", "the trips of device `truck-17` before 2026-11-21T00:00:00.000Z were erased");
        is_for_apps, "The body is not valid gzip, or has more than 100,000 samples" => bad_request();
        is_for_apps, "The server does not accept samples (`takes_no_samples`), or the token does not have the right `write` (`forbidden`)"
            => takes_no_samples();
        is_for_apps, "The field map of the store cannot express the samples"
            => problem(409, "not_expressible", "the field map of the store cannot express samples of overland");
        is_for_apps, "There is no place for the samples that cannot be used"
            => problem(507, "letters_full", "the samples that cannot be used have no place");
        is_guarded && takes_input, "The request is not valid; `faults` lists every fault" => bad_request();
        true, "The `Host` header is not allowed, or is sent twice"
            => foreign_name("the request has two `Host` headers; send one");
        true, "The server is over a limit, or the store is unavailable; see `Retry-After`"
            => store_unavailable();
        has_body, "The body does not arrive in time"
            => problem(408, "too_slow", "no data of the body for 10 s");
        has_body, "The body is too large" => too_large(1 << 20);
        has_body, "The `Content-Encoding` is neither gzip nor identity, or the `Content-Type` is not JSON"
            => not_json("text/html");
        is_guarded, "The token is missing or wrong" => unauthorized("this server requires a token");
        is_guarded && has_body, "The token does not have the right that the route needs (`forbidden`), or the request has the cookie of a login, but is not from the page of this server (`foreign_origin`)"
            => forbidden();
        is_guarded, "The token does not have the right that the route needs" => forbidden();
    }
}

/// Adds the common responses. The body of every error that has none of its own is a problem, with
/// the common example of its status.
fn add_common_responses(operation: &mut Operation) {
    // Routes without authentication have an empty `security` of their own, those for apps another.
    let open = [SecurityRequirement::default()];
    let is_guarded = operation.security.as_deref() != Some(&open[..]);
    let is_for_apps = is_guarded && operation.security.is_some();
    let common = common(operation, (is_guarded, is_for_apps));
    if is_for_apps && let Some(RefOr::T(body)) = &mut operation.request_body {
        // An app that sends none gets the answer of success, as for any body.
        body.required = Some(Required::False);
    }
    let listed = &mut operation.responses.responses;
    for (_, description, problem) in common.iter().filter(|(applies, ..)| *applies) {
        let response = ResponseBuilder::new().description(*description).build();
        listed.entry(problem.status().to_string()).or_insert(response.into());
    }
    let schema = Some(Ref::from_schema_name("Problem").into());
    for (status, response) in listed {
        let RefOr::T(response) = response else { continue };
        let own = response.content.get("application/json");
        let content = match own {
            Some(RefOr::T(own)) if own.schema == schema => own.clone(),
            None if status.as_str() >= "400" => {
                let is_of_status = |it: &&Common| it.2.status().to_string() == *status;
                let all = || common.iter().filter(is_of_status);
                let example = all().find(|it| it.0).or_else(|| all().next()).map(|it| json!(it.2));
                ContentBuilder::new().schema(schema.clone()).example(example).build()
            }
            _ => continue,
        };
        response.content = [("application/problem+json".to_owned(), content.into())].into();
    }
}

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    let mut api = OpenApiRouter::with_openapi(ApiDoc::openapi())
        .merge(read_routes())
        .merge(write_routes())
        .merge(unlimited_routes())
        .merge(app_routes())
        .merge(open_routes())
        .into_openapi();
    let components = api.components.get_or_insert_default();
    for (name, scheme) in [("token", HttpAuthScheme::Bearer), ("password", HttpAuthScheme::Basic)] {
        let scheme = HttpBuilder::new().scheme(scheme).build();
        components.add_security_scheme(name, SecurityScheme::Http(scheme));
    }
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            add_common_responses(operation);
        }
    }
    add_forms(&mut api);
    api
}

/// Serves the OpenAPI document.
pub async fn answer(headers: HeaderMap) -> axum::response::Response {
    static PLAIN: LazyLock<Vec<u8>> =
        LazyLock::new(|| serde_json::to_vec(&document()).expect("the document is plain data"));
    static GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(&PLAIN));
    static_response(&headers, "application/json", &PLAIN, &GZIP)
}
