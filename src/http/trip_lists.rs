//! Routes for lists of trips: of a device, and of all devices.

use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::Routes;
use super::call::{Call, Segments};
use super::descriptions::{DEVICE_TOKEN, ListParams, MIN_VERSION, NOT_YET};
use super::examples::{DEVICE, trip};
use super::fresh::require;
use super::list_options::{accepted, list_forms};
use super::params::Moment;
use super::problem::Problem;
use super::trip_page::TripList;
use super::trips::no_device;
use crate::ops::lookup::of_store;
use crate::ops::trip_list;
use crate::ops::trip_page::TripPage;
use crate::store::Order;
use crate::views::Form;

/// The URL paths of the lists, which a suffix for the format may follow.
pub(crate) const OF_FLEET: &str = "/v1/trips";
pub(crate) const OF_DEVICE: &str = "/v1/devices/{token}/trips";

/// Trips of a device that overlap a span of time, ordered by start time.
#[utoipa::path(get, path = OF_DEVICE, tag = "trips", operation_id = "tripsOfDevice",
    params(
        ("token" = String, Path, description = DEVICE_TOKEN, example = "truck-17"),
        ("from" = Option<Moment>, Query, description = "Only trips that end at this time or later"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier"),
        ("day" = Option<String>, Query, format = "date", description = "Day, instead of `from` and `to`", example = "2026-11-20"),
        ("order" = Option<String>, Query, pattern = "^(asc|desc)$", description = "Order by start time: asc (default) or desc"),
        ListParams,
        ("silence" = Option<bool>, Query, description = "Add the time and the way from the trip or stop before, which no sample shows, as `silence_s` and `silence_m`"),
        ("min_version" = Option<i64>, Query, minimum = 0, description = MIN_VERSION),
    ),
    responses(
        (status = 200, description = "A page; `Link` has the URL of the next as `next`, and that of later changes as `changes`", body = TripList, example = json!(example())),
        (status = 404, description = "The device is not known (`no_device`)", body = Problem, example = json!(no_device(DEVICE))),
        (status = 503, description = NOT_YET),
    ))]
pub(crate) async fn of_device(
    call: Call,
    Segments(token): Segments<String>,
) -> Result<Response, Problem> {
    let form = accepted(&call.headers);
    list_device(call, &token, form).await
}

async fn list_device(mut call: Call, token: &str, form: Form) -> Result<Response, Problem> {
    let (app, params) = (&*call.app, &mut call.params);
    let device = params.token(token);
    let zone = params.zone();
    let ((mut from_ms, mut to_ms), order) = (params.device_span(zone), params.order());
    let (options, cursor) = (params.list_options(form, zone), params.cursor());
    let min_version = params.min_version();
    let has_silences = params.flag("silence");
    if has_silences && form == Form::Parquet {
        params.fault("silence", "parquet always has the same columns; leave it out");
    }
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
    let changes = cursor.is_none().then(|| app.changes_cursor()).flatten();
    let mut page = TripPage::new(app.fresh(&store), options.request());
    page.fill(&device, (from_ms, to_ms), order).await?;
    if has_silences {
        page.add_silences(&device).await?;
    }
    let owner = match min_version {
        Some(_) => app.other_owner(&store, &device).await,
        None => None,
    };
    require(min_version, owner.as_ref(), |version| page.includes(version))?;
    if page.is_empty() && !trip_list::is_known(&app.fresh(&store), &device).await? {
        return Err(no_device(&device));
    }
    app.page_response(page, options, changes, &call.uri).await
}

/// Trips of all devices that overlap a span of time, ordered by device and start time.
#[utoipa::path(get, path = OF_FLEET, tag = "trips", operation_id = "trips",
    params(
        ("from" = Option<Moment>, Query, description = "Only trips that end at this time or later; with `to`"),
        ("to" = Option<Moment>, Query, description = "Only trips that start at this time or earlier, at most 31 days after `from`"),
        ("day" = Option<String>, Query, format = "date", description = "Day, instead of `from` and `to`", example = "2026-11-20"),
        ListParams,
    ),
    responses(
        (status = 200, description = "A page; `Link` has the URL of the next as `next`, and that of later changes as `changes`", body = TripList, example = json!(example())),
    ))]
pub(crate) async fn of_fleet(call: Call) -> Result<Response, Problem> {
    let form = accepted(&call.headers);
    list_fleet(call, form).await
}

async fn list_fleet(mut call: Call, form: Form) -> Result<Response, Problem> {
    let (app, params) = (&*call.app, &mut call.params);
    let zone = params.zone();
    let span = params.fleet_span(zone);
    let (options, cursor) = (params.list_options(form, zone), params.cursor());
    params.finish()?;
    let span = span.expect("it has no fault").ends();
    let store = app.store()?;
    let changes = cursor.is_none().then(|| app.changes_cursor()).flatten();
    let mut page = TripPage::new(of_store(&store), options.request());
    page.fill_fleet(span, cursor).await?;
    app.page_response(page, options, changes, &call.uri).await
}

/// The lists in the formats that a suffix of the URL path selects.
pub(crate) fn suffixed() -> Routes {
    let mut routes = Routes::default();
    for (form, _) in list_forms() {
        let name = form.spec().name;
        let fleet = move |call: Call| list_fleet(call, form);
        let device = async move |call: Call, Segments(token): Segments<String>| {
            list_device(call, &token, form).await
        };
        routes = routes
            .route(&format!("{OF_FLEET}.{name}"), get(fleet))
            .route(&format!("{OF_DEVICE}.{name}"), get(device));
    }
    routes
}

/// An example of a page.
fn example() -> Value {
    json!({"trips": [trip()], "next": null, "changes": 5, "skipped": 0})
}
