//! The OpenAPI description of the API.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ArrayBuilder, Content, KnownFormat, ObjectBuilder, Ref, RefOr, Required, ResponseBuilder,
    SchemaFormat,
};
use utoipa_axum::router::OpenApiRouter;

use super::examples::add_examples;
use super::page::{gzip, static_response};
use super::problem::Problem;
use super::trip_lists;
use super::{app_routes, open_routes, read_routes, unlimited_routes, write_routes};
use crate::views::Form;

/// The OpenAPI document without the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "tstar",
        description = "Trips built from out-of-order location samples, each identified by \
            <device, t*>. Times in answers are RFC 3339 UTC with ms; requests may use any offset, \
            or ms since 1970.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/")),
    components(schemas(Problem)),
    security(("token" = [])),
    tags(
        (name = "trips", description = "Trips by time, by id, and in lists"),
        (name = "tags", description = "Tags and notes on trips"),
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
pub(super) fn form_content(form: Form) -> Content {
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
    Content::new(Some(schema.build()))
}

/// Describes a trip in other formats, which a suffix of the URL path selects. They always have the
/// samples, and hold no stops.
fn add_trip_forms(api: &mut utoipa::openapi::OpenApi) {
    for form in Form::ALL {
        let (name, Some(media_type)) = (form.spec().name, form.spec().media_type) else { continue };
        let mut item = api.paths.paths[TRIP].clone();
        let trip = item.get.as_mut().expect("the API has trips");
        trip.operation_id = Some(format!("trip_{name}"));
        trip.parameters.iter_mut().for_each(|parameters| {
            let names = ["id", "simplify", "min_version"];
            parameters.retain(|it| matches!(it, RefOr::T(it) if names.contains(&&*it.name)));
        });
        if let Some(RefOr::T(answer)) = trip.responses.responses.get_mut("200") {
            answer.description = "The trip with its samples".to_owned();
            let content = (media_type.to_owned(), form_content(form).into());
            answer.content = std::iter::once(content).collect();
        }
        api.paths.paths.insert(format!("{TRIP}.{name}"), item);
    }
}

/// Adds the responses of all routes, of those with input, and of those that require a token.
fn add_common_responses(operation: &mut Operation) {
    // Routes without authentication have an empty `security` of their own, those for apps another.
    let open = [SecurityRequirement::default()];
    let is_guarded = operation.security.as_deref() != Some(&open[..]);
    let is_for_apps = is_guarded && operation.security.is_some();
    if is_for_apps && let Some(RefOr::T(body)) = &mut operation.request_body {
        // An app that sends none gets the answer of success, as for any body.
        body.required = Some(Required::False);
    }
    let has_body = operation.request_body.is_some();
    let has_parameter = |is: fn(&Parameter) -> bool| {
        let mut parameters = operation.parameters.iter().flatten();
        parameters.any(|it| matches!(it, RefOr::T(it) if is(it)))
    };
    let is_of_trip = has_parameter(|it| it.name == "id" && it.parameter_in == ParameterIn::Path);
    let takes_input = has_body || has_parameter(|it| it.parameter_in != ParameterIn::Header);
    let shows_trips = |tag: &String| tag == "trips" || tag == "tags";
    let shows_trips = operation.tags.iter().flatten().any(shows_trips);
    let responses = [
        (
            shows_trips,
            "500",
            "The row of the trip is malformed (`malformed_trip`): a retry gets the same answer, until `tstar verify --repair` has repaired it",
        ),
        (is_of_trip, "404", "No trip has the id (`no_trip`)"),
        (is_of_trip, "410", "The trip was erased"),
        (is_for_apps, "400", "The body is not valid gzip, or has more than 100,000 samples"),
        (
            is_for_apps,
            "403",
            "The server does not accept samples (`takes_no_samples`), or the token does not have the right `write` (`forbidden`)",
        ),
        (is_for_apps, "409", "The field map of the store cannot express the samples"),
        (is_for_apps, "507", "There is no place for the samples that cannot be used"),
        (is_guarded && takes_input, "400", "The request is not valid; `faults` lists every fault"),
        (true, "421", "The `Host` header is not allowed, or is sent twice"),
        (true, "503", "The server is over a limit, or the store is unavailable; see `Retry-After`"),
        (has_body, "408", "The body does not arrive in time"),
        (has_body, "413", "The body is too large"),
        (
            has_body,
            "415",
            "The `Content-Encoding` is neither gzip nor identity, or the `Content-Type` is not JSON",
        ),
        (is_guarded, "401", "The token is missing or wrong"),
        (
            is_guarded && has_body,
            "403",
            "The token does not have the right that the route needs (`forbidden`), or the request has the cookie of a login, but is not from the page of this server (`foreign_origin`)",
        ),
        (is_guarded, "403", "The token does not have the right that the route needs"),
    ];
    for (_, status, description) in responses.into_iter().filter(|(applies, ..)| *applies) {
        let response = ResponseBuilder::new().description(description).build();
        let listed = &mut operation.responses.responses;
        listed.entry(status.to_owned()).or_insert(response.into());
    }
}

/// Adds the body of every error that has none of its own: a problem.
fn add_problems(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        if status.as_str() >= "400" && response.content.is_empty() {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            response.content.insert("application/problem+json".to_owned(), problem.into());
        }
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
            add_problems(operation);
        }
    }
    add_trip_forms(&mut api);
    trip_lists::add_list_forms(&mut api);
    add_examples(&mut api);
    api
}

/// Serves the OpenAPI document.
pub async fn answer(headers: HeaderMap) -> Response {
    static PLAIN: LazyLock<Vec<u8>> =
        LazyLock::new(|| serde_json::to_vec(&document()).expect("the document is plain data"));
    static GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(&PLAIN));
    static_response(&headers, "application/json", &PLAIN, &GZIP)
}
