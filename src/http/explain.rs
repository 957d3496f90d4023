//! Route that explains a trip.

use axum::Json;

use super::call::{Call, Segments};
use super::descriptions::TRIP_ID;
use super::examples;
use super::fresh::{IdLookup, find};
use super::problem::Problem;
use super::trip_response::LARGE;
use crate::ops::trip_page::approximate_size;
use crate::store::SideTables as _;
use crate::views::Explanation;

/// History of a trip: the log positions of the samples that minted it, merged others into it and
/// changed it last.
#[utoipa::path(get, path = "/v1/trips/{id}/explain", tag = "trips", operation_id = "explain",
    params(("id" = String, Path, description = TRIP_ID, example = "truck-17~20261120T213800.123Z")),
    responses(
        (status = 200, description = "The history in the trip's row; `tstar explain` also reads the log",
            body = Explanation, example = json!(examples::explanation())),
    ))]
pub async fn by_id(
    mut call: Call,
    Segments(id): Segments<String>,
) -> Result<Json<Explanation>, Problem> {
    call.params.finish()?;
    let IdLookup { found, .. } = find(&call.app, &id, None).await?;
    let is_large = approximate_size(&found.row) > LARGE;
    let epochs = call.app.store()?.epochs().await?;
    let work = move || Explanation::from_row(&found.row, &id, found.t_star_ms, &epochs).map(Json);
    Ok(call.app.run_if(is_large, work).await?)
}
