//! Routes of logins, and of the settings and the base map of the page.

use axum::Json;
use axum::extract::{FromRequest as _, Request};
use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use serde::Deserialize;
use utoipa::ToSchema;

use super::access::{COOKIE, SECURE_COOKIE, require, unauthorized};
use super::audit::{Denied, LOGIN};
use super::basemap::{UNSET, changed, no_basemap, no_range, too_long};
use super::body::{Limited, MAX_LOGIN};
use super::call::Call;
use super::examples::time;
use super::origin;
use super::page::{PageRules, PageSettings};
use super::problem::Problem;
use super::sessions::MAX_AGE_S;
use super::token::Right;
use crate::model::time::format_time;
use crate::segment::SegmentRules;

/// A login request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// A token of the server, with the right to read.
    token: String,
}

/// A cookie of this server. Scripts cannot read it, and requests of other sites do not send it.
fn cookie(id: &str, max_age_s: i64, is_secure: bool) -> String {
    let (name, secure) = if is_secure { (SECURE_COOKIE, "; Secure") } else { (COOKIE, "") };
    format!("{name}={id}{secure}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age_s}")
}

/// An example of what is wrong with a request.
const FOREIGN: &str = "the request is from a page of another origin";

/// Starts a session and sets its cookie.
#[utoipa::path(post, path = "/v1/login", tag = "session", operation_id = "login",
    request_body(content = Login, example = json!({"token": "correct-horse-battery"})), security(()),
    responses(
        (status = 204, description = "The cookie is set"),
        (status = 400, description = "The body is not a valid login, or the server has no token"),
        (status = 401, description = "The token is wrong"),
        (status = 403, description = "The request is from a page of another origin (`foreign_origin`), or the token does not have the right `read` (`forbidden`)",
            body = Problem, example = json!(origin::foreign(FOREIGN))),
    ))]
pub(crate) async fn login(call: Call, request: Request) -> Result<Response, Problem> {
    let Call { app, headers, peer, .. } = call;
    origin::reject_foreign(&headers, app.has_tls())?;
    let Limited { bytes, .. } = Limited::<MAX_LOGIN>::from_request(request, &app).await?;
    let login: Result<Login, _> = serde_json::from_slice(&bytes);
    let login = login.map_err(|error| Problem::fault("body", error))?;
    let Some(tokens) = &app.options.tokens else {
        return Err(Problem::fault("token", "this server has no token"));
    };
    let token = tokens.current().find(&login.token);
    let token = token.ok_or_else(|| {
        app.audit.unauthorized(Denied::WrongToken, LOGIN, peer);
        unauthorized("the token is wrong")
    })?;
    // Without it, the page cannot show anything.
    require(&token, Right::Read).inspect_err(|_| app.audit.forbidden(token.name(), LOGIN, peer))?;
    // A browser has one session: a new login ends the former one.
    if let Some(used) = app.session_of(&headers) {
        app.sessions.close(&used.key);
    }
    let id = app.sessions.open(token.key(), app.now_ms()).map_err(|error| {
        tracing::error!(%error, "cannot read random bytes");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "cannot start a session now")
    })?;
    app.audit.session("login", &token, peer);
    let cookie = cookie(&id, MAX_AGE_S, origin::is_secure(&headers, app.has_tls()));
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Ends the session of the cookie and removes the cookie.
#[utoipa::path(post, path = "/v1/logout", tag = "session", operation_id = "logout", security(()),
    responses(
        (status = 204, description = "The session is ended"),
        (status = 403, description = "The request is from a page of another origin", body = Problem,
            example = json!(origin::foreign(FOREIGN))),
    ))]
pub(crate) async fn logout(call: Call) -> Result<Response, Problem> {
    let Call { app, headers, peer, .. } = call;
    origin::reject_foreign(&headers, app.has_tls())?;
    if let Some(used) = app.session_of(&headers) {
        origin::require_same(&headers, app.has_tls())?;
        app.sessions.close(&used.key);
        let tokens = app.options.tokens.as_ref();
        if let Some(token) = tokens.and_then(|tokens| tokens.current().by_key(used.token)) {
            app.audit.session("logout", &token, peer);
        }
    }
    let removed = [true, false].map(|is_secure| (header::SET_COOKIE, cookie("", 0, is_secure)));
    Ok((StatusCode::NO_CONTENT, AppendHeaders(removed)).into_response())
}

/// Settings of the map page.
#[utoipa::path(get, path = "/v1/page", tag = "session", operation_id = "page",
    responses((status = 200, description = "The settings", body = PageSettings, example = json!(example()))))]
pub(crate) async fn page(call: Call) -> Result<Json<PageSettings>, Problem> {
    let app = &call.app;
    let opened = app.opened()?;
    let stream = app.feed().is_ok_and(|feed| feed.is_available());
    Ok(Json(PageSettings {
        tiles: app.options.settings.http.tiles.clone(),
        tiles_attribution: app.options.settings.http.tiles_attribution.clone(),
        basemap: app.options.basemap.is_some(),
        stream,
        version: env!("CARGO_PKG_VERSION"),
        max_gap_ms: opened.rules.max_gap_ms,
        rules: PageRules::from(&*opened.rules),
        now: format_time(app.now_ms()),
        logged_in: call.access.session().is_some(),
    }))
}

fn example() -> PageSettings {
    let (version, max_gap_ms) = (env!("CARGO_PKG_VERSION"), SegmentRules::default().max_gap_ms);
    PageSettings { stream: true, version, max_gap_ms, now: time(20), ..PageSettings::default() }
}

/// Bytes of the archive.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "a description of bytes")]
pub(crate) struct Archive(Vec<u8>);

/// A range of the base map, a PMTiles archive of vector tiles, at most 4 MiB.
#[utoipa::path(get, path = "/v1/basemap", tag = "session", operation_id = "basemap",
    params(
        ("range" = Option<String>, Header, description = "One range of bytes, which is shortened to 4 MiB; needed if the file has more", example = "bytes=0-16383"),
        ("if-match" = Option<String>, Header, description = "The `ETag` of the version that the range is of"),
    ),
    responses(
        (status = 200, description = "The file, if it has at most 4 MiB", body = Archive, content_type = "application/vnd.pmtiles"),
        (status = 206, description = "The range that `Content-Range` names", body = Archive, content_type = "application/vnd.pmtiles"),
        (status = 304, description = "Not modified since the `ETag` in `If-None-Match`"),
        (status = 400, description = "The file has more than 4 MiB, and the request no valid range", body = Problem,
            example = json!(too_long(1 << 32))),
        (status = 404, description = "The server has no base map (`no_basemap`)", body = Problem,
            example = json!(no_basemap(UNSET))),
        (status = 412, description = "The file has changed (`changed`)", body = Problem, example = json!(changed())),
        (status = 416, description = "The file has no such bytes, or the request more than one range (`no_range`)",
            body = Problem, example = json!(no_range(1 << 32))),
    ))]
pub(crate) async fn basemap(call: Call) -> Result<Response, Problem> {
    let Some(basemap) = call.app.options.basemap.clone() else { return Err(no_basemap(UNSET)) };
    basemap.serve(call.headers).await
}
