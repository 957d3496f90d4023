//! The OpenAPI description of the API.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    Content, ContentBuilder, ObjectBuilder, Ref, RefOr, Required, ResponseBuilder,
};
use utoipa_axum::router::OpenApiRouter;

use super::page::{gzip, static_response};
use super::trip_lists;
use super::{app_routes, limited_routes, open_routes, unlimited_routes};
use crate::views::{Form, enumerated};

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

/// Adds the output formats of a trip to the route that serves it.
fn add_trip_forms(api: &mut utoipa::openapi::OpenApi) {
    let item = api.paths.paths.get_mut("/v1/trips/{id}");
    let trip = item.and_then(|item| item.get.as_mut()).expect("the API has trips");
    let suffixes = Form::names(|spec| spec.media_type.is_some());
    let suffixes: Vec<String> = suffixes.iter().map(|name| format!("`.{name}`")).collect();
    let id = trip.parameters.as_mut().and_then(|parameters| parameters.first_mut());
    let Some(RefOr::T(Parameter { description: Some(description), .. })) = id else {
        unreachable!("the id is described")
    };
    let suffixes = enumerated(&suffixes, "or");
    description.push_str(&format!("; the suffix {suffixes} selects that format"));
    let Some(RefOr::T(answer)) = trip.responses.responses.get_mut("200") else {
        unreachable!("a trip has an answer")
    };
    for media_type in Form::ALL.into_iter().filter_map(|form| form.spec().media_type) {
        let kind = if media_type.ends_with("json") { Type::Object } else { Type::String };
        let schema = ObjectBuilder::new().schema_type(kind).build();
        answer.content.insert(media_type.to_owned(), Content::new(Some(schema)).into());
    }
}

/// Adds the responses of all routes, of those with a body, and of those that require a token.
fn add_common_responses(operation: &mut Operation) {
    // Routes without authentication have an empty `security` of their own, those for apps another.
    let open = [SecurityRequirement::default()];
    let is_guarded = operation.security.as_deref() != Some(&open[..]);
    let is_for_apps = is_guarded && operation.security.is_some();
    if is_for_apps && let Some(RefOr::T(body)) = &mut operation.request_body {
        // An app that sends none gets the answer of success, as for any body.
        body.required = Some(Required::False);
    }
    let responses = [
        (is_for_apps, "400", "The body is not valid gzip, or has more than 100,000 samples"),
        (is_for_apps, "403", "The server does not accept samples"),
        (is_for_apps, "409", "The field map of the store cannot express the samples"),
        (true, "421", "The `Host` header is not allowed, or is sent twice"),
        (true, "503", "The server is over a limit, or the store is unavailable; see `Retry-After`"),
        (operation.request_body.is_some(), "408", "The body does not arrive in time"),
        (operation.request_body.is_some(), "413", "The body is too large"),
        (
            operation.request_body.is_some(),
            "415",
            "The `Content-Encoding` is neither gzip nor identity, or the `Content-Type` is not JSON",
        ),
        (is_guarded, "401", "The token is missing or wrong"),
        (
            is_guarded && operation.request_body.is_some(),
            "403",
            "The request has the cookie of a login, but is not from the page of this server",
        ),
    ];
    for (_, status, description) in responses.into_iter().filter(|(applies, ..)| *applies) {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", problem)
            .build();
        operation.responses.responses.entry(status.to_owned()).or_insert(response.into());
    }
}

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    let mut api = OpenApiRouter::with_openapi(ApiDoc::openapi())
        .merge(limited_routes())
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
    add_trip_forms(&mut api);
    trip_lists::add_list_forms(&mut api);
    api
}

/// Serves the OpenAPI document.
pub async fn answer(headers: HeaderMap) -> Response {
    static PLAIN: LazyLock<Vec<u8>> =
        LazyLock::new(|| serde_json::to_vec(&document()).expect("the document is plain data"));
    static GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| gzip(&PLAIN));
    static_response(&headers, "application/json", &PLAIN, &GZIP)
}
