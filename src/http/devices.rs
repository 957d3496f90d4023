//! Which devices there are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::{App, ServableStore};
use super::params::Params;
use super::problem::Problem;
use super::trip_response::with_header;
use super::trips::next_link;
use crate::identity::{TripId, token_of_device};
use crate::store::DeviceScope;

/// A device.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Device {
    /// Its id, as its samples give it.
    #[schema(example = "truck 17")]
    device_id: String,
    /// The id as it stands in paths.
    #[schema(example = "truck~2017")]
    token: String,
}

/// A page of devices.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DevicePage {
    /// In the order of the bytes of their ids.
    devices: Vec<Device>,
    /// Where the next page goes on; null where there is none.
    next: Option<String>,
}

/// Which devices there are.
#[utoipa::path(get, path = "/v1/devices", tag = "devices", operation_id = "devices",
    params(
        ("day" = Option<String>, Query, format = "date",
            description = "Only those with a trip that touches this UTC day"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Devices of a page, 100 by default"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the page before"),
    ),
    responses(
        (status = 200, description = "A page; its `Link` leads to the next", body = DevicePage),
        (status = 404, description = "There is no such page",
            body = Problem, content_type = "application/problem+json"),
        (status = 400, description = "Everything that is wrong with the request",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list<S: ServableStore>(
    State(app): State<Arc<App<S>>>,
    uri: Uri,
    mut ask: Params,
) -> Result<Response, Problem> {
    let (day, limit, cursor) = (ask.day(), ask.limit(), ask.cursor());
    ask.finish()?;
    let whose = day.map_or(DeviceScope::All, DeviceScope::OfDay);
    let after = cursor.map(|cursor| cursor.device_id);
    let mut found = app.store()?.devices(whose, after.as_deref(), limit + 1).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|device_id| TripId { device_id: device_id.clone(), t_star_ms: 0 });
    let next = next.map(|next| next.key_text());
    let link = next.as_deref().map(|next| next_link(&uri, next));
    let device = |device_id: String| Device { token: token_of_device(&device_id), device_id };
    let page = DevicePage { devices: found.into_iter().map(device).collect(), next };
    let response = Json(page).into_response();
    Ok(match link {
        Some(link) => with_header(response, header::LINK, &link),
        None => response,
    })
}
