//! Route that explains a trip.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::fresh::find;
use super::params::Params;
use super::problem::Problem;
use super::trip_response::{LARGE, approximate_size};
use super::trips::path_segment;
use crate::store::SideTables as _;
use crate::views::Explanation;

/// History of a trip: the log positions of the samples that minted it, merged others into it and
/// changed it last.
#[utoipa::path(get, path = "/v1/trips/{id}/explain", tag = "trips", operation_id = "explain",
    params(("id" = String, Path, description = "Text, key or UUID form",
        example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "The history in the trip's row; `tstar explain` also reads the log",
            body = Explanation),
    ))]
pub async fn by_id(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    params: Params,
) -> Result<Response, Problem> {
    let id = path_segment(id)?;
    params.finish()?;
    let found = find(&app, &id, None).await?;
    let is_large = approximate_size(&found.row) > LARGE;
    let epochs = app.store()?.epochs().await?;
    let work = move || Explanation::from_row(&found.row, &id, found.t_star_ms, &epochs).map(Json);
    Ok(app.run_if(is_large, work).await?.into_response())
}
