//! The API, described.

use axum::Json;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

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
        trips::of_day, devices::list, changes::list, changes::follow, samples::take, session::login,
        session::page, health::live, health::ready, health::version, health::metrics,
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
            for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
                // Those that ask for no token say so themselves.
                if operation.security.is_none() {
                    guarded(operation);
                }
            }
        }
    }
}

/// What every guarded route may answer.
fn guarded(operation: &mut Operation) {
    let unpacked = operation.request_body.is_some().then_some(("415", "Neither gzip nor plain"));
    let told = [
        ("401", "The token is missing, or another"),
        (
            "503",
            "Too much at once, or the store does not answer; `Retry-After` says when to come again",
        ),
    ];
    for (status, description) in told.into_iter().chain(unpacked) {
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
pub async fn answer() -> Json<utoipa::openapi::OpenApi> {
    Json(document())
}
