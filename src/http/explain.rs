//! How a trip came to be.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};

use super::app::{App, ServableStore};
use super::params::Params;
use super::problem::Problem;
use super::trips::{find, in_path};
use crate::views::Explanation;

/// How the trip of an id came to be: which samples minted, merged and last changed it, each as its
/// place in the log.
#[utoipa::path(get, path = "/v1/trips/{id}/explain", tag = "trips", operation_id = "explain",
    params(("id" = String, Path, description = "Text, key or UUID form",
        example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "What the trip's row tells; the log itself is read by `tstar explain` alone",
            body = Explanation),
        (status = 400, description = "Everything that is wrong with the request",
            body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No trip has the id, or it is none (`bad_id`)",
            body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "The trip was erased",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn by_id<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    id: Result<Path<String>, PathRejection>,
    ask: Params,
) -> Result<Response, Problem> {
    let id = in_path(id)?;
    ask.finish()?;
    let found = find(&app, &id).await?;
    let epochs = app.store()?.epochs().await?;
    Ok(Json(Explanation::from_row(&found.row, &id, found.t_star_ms, &epochs)?).into_response())
}
