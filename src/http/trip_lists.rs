//! Routes for lists of trips: of a device, and of all devices.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use utoipa::openapi::RefOr;

use super::Routes;
use super::app::App;
use super::fresh::{of_store, require};
use super::list_options::{BboxText, FieldNames, LIST_FORMS, accepted};
use super::openapi::form_content;
use super::params::{Moment, Params};
use super::path_params::DetailParams;
use super::problem::Problem;
use super::trip_page::{Page, TripPage};
use super::trips::{no_device, path_segment};
use crate::identity::{DeviceId, TripId};
use crate::model::scalar::{Day, DeviceTime, Version};
use crate::ops::trips;
use crate::store::{AnyStore, DevicesOfDays, Order};
use crate::timeline::day_of;
use crate::views::Form;

/// Devices of a day read at once.
const DEVICES: usize = 100;

type Shared = State<Arc<App>>;

/// The URL paths of the lists, which a suffix for the format may follow.
const OF_FLEET: &str = "/v1/trips";
const OF_DEVICE: &str = "/v1/devices/{token}/trips";

/// Trips of a device that overlap a span of time, ordered by start time.
#[utoipa::path(get, path = OF_DEVICE, tag = "trips", operation_id = "tripsOfDevice",
    params(
        ("token" = String, Path,
            description = "The device id, percent-encoded, or its token: each byte other than A-Z a-z 0-9 . _ - written as ~hh", example = "truck-17"),
        ("from" = Option<Moment>, Query, description = "Only trips that end at this time or later"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier"),
        ("order" = Option<String>, Query, pattern = "^(asc|desc)$", description = "Order by start time: asc (default) or desc"),
        ("bbox" = inline(Option<BboxText>), Query,
            description = "Only trips whose bounding box overlaps this one: west, south, east, north, in degrees, separated by commas; west may be greater than east"),
        ("driver" = Option<String>, Query, description = "Only trips of this driver"),
        ("tag" = Option<String>, Query, pattern = r"^[A-Za-z0-9._-]{1,64}(=[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*)?$",
            description = "Only trips with this tag, `key=value`, or with any value of a key", example = "purpose=business"),
        ("fields" = inline(Option<FieldNames>), Query,
            description = "Only these fields of each trip, separated by commas"),
        DetailParams,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum trips per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
        ("min_version" = Option<i64>, Query, minimum = 0,
            description = "The answer has to include this version, `version` of an earlier answer; else 503, `not_yet`"),
    ),
    responses(
        (status = 200, description = "A page; `Link` has the URL of the next as `next`, and that of later changes as `changes`", body = TripPage),
        (status = 404, description = "The device is not known (`no_device`)"),
        (status = 503, description = "The server is over a limit, the store is unavailable, or the answer may lack `min_version` (`not_yet`); see `Retry-After`"),
    ))]
pub async fn of_device(
    State(app): Shared,
    token: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    list_device(&app, token, (&uri, accepted(&headers)), params).await
}

async fn list_device(
    app: &App,
    token: Result<Path<String>, PathRejection>,
    (uri, form): (&Uri, Form),
    mut params: Params,
) -> Result<Response, Problem> {
    let device = params.token(&path_segment(token)?);
    let ((mut from_ms, mut to_ms), order) = (params.span(), params.order());
    let (options, cursor) = (params.list_options(form), params.cursor());
    let min_version = params.min_version();
    if let Some(cursor) = &cursor {
        if device.as_ref() != Some(&cursor.device_id) {
            params.fault("cursor", "it is of another device");
        }
        // Trips of a device never overlap: those of earlier pages are before the cursor.
        match order {
            Order::Asc => from_ms = from_ms.max(cursor.t_star_ms),
            Order::Desc => to_ms = to_ms.min(cursor.t_star_ms),
        }
    }
    params.finish()?;
    let device = device.expect("it has no fault");
    let store = app.store()?;
    let mut page = Page::new(app, app.fresh(&store), options, cursor.is_none());
    page.fill(&device, (from_ms, to_ms), order).await?;
    let owner = match min_version {
        Some(_) => app.other_owner(&store, &device).await,
        None => None,
    };
    require(min_version, owner.as_ref(), |version: Version| page.includes(version))?;
    if page.is_empty() && !is_known(app, &store, &device).await? {
        return Err(no_device(&device));
    }
    page.answer(uri).await
}

/// Whether the store or the memory has a trip of a device, or one was erased.
async fn is_known(app: &App, store: &AnyStore, device: &DeviceId) -> Result<bool, Problem> {
    let all = (DeviceTime::MIN, DeviceTime::MAX);
    let in_memory = app.fresh(store).range(device, all, Order::Asc, 1).await?;
    Ok(!in_memory.rows.is_empty() || trips::is_known(store, device).await?)
}

/// Trips of all devices that overlap a span of time, ordered by device and start time.
#[utoipa::path(get, path = OF_FLEET, tag = "trips", operation_id = "trips",
    params(
        ("from" = Option<Moment>, Query, description = "Only trips that end at this time or later; with `to`"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier, at most 31 days after `from`"),
        ("day" = Option<String>, Query, format = "date", description = "UTC day, instead of `from` and `to`", example = "2026-11-20"),
        ("bbox" = inline(Option<BboxText>), Query,
            description = "Only trips whose bounding box overlaps this one: west, south, east, north, in degrees, separated by commas; west may be greater than east"),
        ("driver" = Option<String>, Query, description = "Only trips of this driver"),
        ("tag" = Option<String>, Query, pattern = r"^[A-Za-z0-9._-]{1,64}(=[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*)?$",
            description = "Only trips with this tag, `key=value`, or with any value of a key", example = "purpose=business"),
        ("fields" = inline(Option<FieldNames>), Query,
            description = "Only these fields of each trip, separated by commas"),
        DetailParams,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum trips per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page; `Link` has the URL of the next as `next`, and that of later changes as `changes`", body = TripPage),
    ))]
pub async fn of_fleet(
    State(app): Shared,
    uri: Uri,
    headers: HeaderMap,
    params: Params,
) -> Result<Response, Problem> {
    list_fleet(&app, (&uri, accepted(&headers)), params).await
}

async fn list_fleet(
    app: &App,
    (uri, form): (&Uri, Form),
    mut params: Params,
) -> Result<Response, Problem> {
    let span = params.fleet_span();
    let (options, cursor) = (params.list_options(form), params.cursor());
    params.finish()?;
    let span = span.expect("it has no fault");
    let store = app.store()?;
    let mut page = Page::new(app, of_store(&store), options, cursor.is_none());
    fill_fleet(&mut page, &store, span, cursor).await?;
    page.answer(uri).await
}

/// Fills a page with trips of all devices, from a cursor on.
async fn fill_fleet(
    page: &mut Page<'_>,
    store: &AnyStore,
    (from_ms, to_ms): (DeviceTime, DeviceTime),
    cursor: Option<TripId>,
) -> Result<(), Problem> {
    let mut after = None;
    if let Some(TripId { device_id, t_star_ms }) = cursor {
        page.fill(&device_id, (from_ms.max(t_star_ms), to_ms), Order::Asc).await?;
        after = Some(device_id);
    }
    let days = (day_of(from_ms).get()..=day_of(to_ms).get()).map(Day);
    let after = after.as_ref().map(DeviceId::as_str);
    let mut devices = DevicesOfDays::new(store, days, after, DEVICES);
    while !page.is_full() {
        let Some(device) = devices.next().await? else { break };
        page.fill(&device, (from_ms, to_ms), Order::Asc).await?;
    }
    Ok(())
}

/// The lists in the formats that a suffix of the URL path selects.
pub fn suffixed() -> Routes {
    let mut routes = Routes::default();
    for (form, _) in LIST_FORMS {
        let name = form.spec().name;
        let fleet = move |State(app): Shared, uri: Uri, params: Params| async move {
            list_fleet(&app, (&uri, form), params).await
        };
        let device = move |State(app): Shared,
                           token: Result<Path<String>, PathRejection>,
                           uri: Uri,
                           params: Params| async move {
            list_device(&app, token, (&uri, form), params).await
        };
        routes = routes
            .route(&format!("{OF_FLEET}.{name}"), axum::routing::get(fleet))
            .route(&format!("{OF_DEVICE}.{name}"), axum::routing::get(device));
    }
    routes
}

/// Describes the lists in other formats: by a suffix of the URL path, and by `Accept`.
pub(super) fn add_list_forms(api: &mut utoipa::openapi::OpenApi) {
    for path in [OF_FLEET, OF_DEVICE] {
        let mut described = api.paths.paths[path].clone();
        for (form, media_type) in LIST_FORMS {
            let essence = media_type.split(';').next().unwrap_or_default().to_owned();
            let content = form_content(form);
            let item = api.paths.paths.get_mut(path).and_then(|item| item.get.as_mut());
            let answer = item.and_then(|list| list.responses.responses.get_mut("200"));
            if let Some(RefOr::T(answer)) = answer {
                answer.content.insert(essence.clone(), content.clone().into());
            }
            let Some(list) = &mut described.get else { continue };
            let id = list.operation_id.take().unwrap_or_default();
            let base = id.split('_').next().unwrap_or_default().to_owned();
            let name = form.spec().name;
            list.operation_id = Some(format!("{base}_{name}"));
            if let Some(RefOr::T(answer)) = list.responses.responses.get_mut("200") {
                answer.content = [(essence, content.into())].into_iter().collect();
            }
            api.paths.paths.insert(format!("{path}.{name}"), described.clone());
        }
    }
}
