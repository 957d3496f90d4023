//! The API, described.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::page::{constant, pack};
use super::{changes, devices, explain, health, samples, session, trips};

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "tstar",
        description = "Trips built from out-of-order location samples, each named <device, t*>. \
            Times are RFC 3339 UTC with ms; any offset, or ms since 1970, may be given.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/")),
    security(("token" = [])),
    modifiers(&Secured),
    tags(
        (name = "trips", description = "Trips by time, by id, and in lists"),
        (name = "devices", description = "Which devices there are"),
        (name = "changes", description = "The change feed"),
        (name = "samples", description = "Samples in"),
        (name = "session", description = "For the page"),
        (name = "health", description = "For those who run it"),
    ),
    paths(
        trips::lookup, trips::lookup_many, trips::by_id, explain::by_id, trips::of_device,
        trips::of_day, devices::list, changes::list, changes::follow, samples::post_samples, session::login,
        session::logout, session::list, session::revoke, session::page, health::live, health::ready,
        health::version, health::metrics,
    )
)]
struct Described;

/// How a client shows the token.
struct Secured;

impl Modify for Secured {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
        for item in api.paths.paths.values_mut() {
            for operation in [&mut item.get, &mut item.post, &mut item.delete].into_iter().flatten()
            {
                // Those that ask for no token say so themselves.
                common(operation);
            }
        }
    }
}

/// What every route may answer, one that reads a body, and one that is guarded.
fn common(operation: &mut Operation) {
    let is_guarded = operation.security.is_none();
    let told = [
        (true, "421", "The server answers to its addresses alone, or the request names two hosts"),
        (
            true,
            "503",
            "Too much at once, or the store does not answer; `Retry-After` says when to come again",
        ),
        (operation.request_body.is_some(), "408", "The body does not come"),
        (operation.request_body.is_some(), "413", "The body is too large"),
        (operation.request_body.is_some(), "415", "Neither gzip nor plain"),
        (is_guarded, "401", "The token is missing, or another"),
        (
            is_guarded && operation.request_body.is_some(),
            "403",
            "A page of another origin asks with the cookie of a login",
        ),
    ];
    for (_, status, description) in told.into_iter().filter(|(is_told, ..)| *is_told) {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", problem)
            .build();
        operation.responses.responses.entry(status.to_owned()).or_insert(response.into());
    }
}

/// The description.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Described::openapi()
}

/// The description, for clients.
pub async fn answer(headers: HeaderMap) -> Response {
    static PLAIN: LazyLock<Vec<u8>> =
        LazyLock::new(|| serde_json::to_vec(&document()).expect("it is plain data"));
    static PACKED: LazyLock<Vec<u8>> = LazyLock::new(|| pack(&PLAIN));
    constant(&headers, "application/json", &PLAIN, &PACKED)
}
