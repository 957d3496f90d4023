//! Route that lists devices.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::app::App;
use super::params::Params;
use super::problem::Problem;
use super::trip_page::next_link;
use super::trip_response::with_header;
use crate::identity::{DeviceId, TripId, token_of_device};
use crate::model::scalar::DeviceTime;
use crate::store::{DeviceScope, TripStore as _};

/// A device.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Device {
    /// Device id, as in its samples.
    #[schema(example = "truck 17")]
    device_id: String,
    /// The id in the form that URL paths and trip ids use.
    #[schema(example = "truck~2017")]
    token: String,
}

/// A page of devices.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DevicePage {
    /// Devices, ordered by the bytes of their ids.
    devices: Vec<Device>,
    /// Cursor of the next page; null on the last page.
    next: Option<String>,
}

/// Lists devices.
#[utoipa::path(get, path = "/v1/devices", tag = "devices", operation_id = "devices",
    params(
        ("day" = Option<String>, Query, format = "date",
            description = "Only devices with a trip that touches this UTC day"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum devices per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page; `Link` is the URL of the next", body = DevicePage),
        (status = 400, description = "The request is not valid; `faults` lists every fault",
            body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn list(
    State(app): State<Arc<App>>,
    uri: Uri,
    mut params: Params,
) -> Result<Response, Problem> {
    let (day, limit, cursor) = (params.day(), params.limit(), params.cursor());
    params.finish()?;
    let scope = day.map_or(DeviceScope::All, DeviceScope::OfDay);
    let after = cursor.map(|cursor| cursor.device_id);
    let mut found = app.store()?.devices(scope, after.as_deref(), limit + 1).await?;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|device_id| TripId {
        device_id: DeviceId::from_store(device_id.as_str()),
        t_star_ms: DeviceTime(0),
    });
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
