//! Logging in: a browser shows the token once, and bears a cookie from then on.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::app::{App, Served};
use super::body::{Limited, MOST_ASKED};
use super::page::PageSettings;
use super::problem::{Fault, Problem};
use crate::moment::format_time;

/// What a login shows.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The token of the server.
    token: String,
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

/// Sets a cookie for the page.
#[utoipa::path(post, path = "/v1/login", tag = "session", operation_id = "login",
    request_body = Login, security(()),
    responses(
        (status = 204, description = "The cookie is set"),
        (status = 400, description = "The body is no login, or the server asks for no token",
            body = Problem, content_type = "application/problem+json"),
        (status = 401, description = "The token is wrong",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn login<S: Served>(
    State(app): State<Arc<App<S>>>,
    Limited(body): Limited<MOST_ASKED>,
) -> Result<Response, Problem> {
    let given: Result<Login, _> = serde_json::from_slice(&body);
    let given = given.map_err(|error| Problem::faults(vec![Fault::new("body", error)]))?;
    let Some(token) = &app.options.token else {
        let problem = "this server asks for no token";
        return Err(Problem::faults(vec![Fault::new("token", problem)]));
    };
    if !token.is(&given.token) {
        return Err(unauthorized("the token is wrong"));
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, token.set_cookie())]).into_response())
}

/// What the page needs to begin.
#[utoipa::path(get, path = "/v1/page", tag = "session", operation_id = "page",
    responses((status = 200, description = "What the page needs to begin", body = PageSettings)))]
pub async fn page<S: Served>(State(app): State<Arc<App<S>>>) -> Result<Response, Problem> {
    app.store()?;
    let stream = app.feed().is_ok_and(|feed| feed.is_there());
    Ok(Json(PageSettings {
        tiles: app.options.tiles.clone(),
        stream,
        version: env!("CARGO_PKG_VERSION"),
        max_gap_ms: app.max_gap_ms(),
        now: format_time(app.now_ms()),
    })
    .into_response())
}

/// Lets a request pass that bears the token.
pub async fn ask<S: Served>(
    State(app): State<Arc<App<S>>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    match &app.options.token {
        Some(token) if !token.is_borne_by(request.headers()) => Err(unauthorized(
            "this server asks for its token: `Authorization: Bearer TOKEN`, or a login of the page",
        )),
        _ => Ok(next.run(request).await),
    }
}
