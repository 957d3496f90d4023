//! Route that lists devices.

use axum::Json;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Call;
use super::descriptions::{DeviceFilter, ZoneParam};
use super::examples::{DEVICE, id, time};
use super::problem::Problem;
use super::trip_page::next_link;
use super::trip_response::with_header;
use crate::identity::{DeviceId, TripId, token_of_device};
use crate::model::scalar::DeviceTime;
use crate::model::tag::TagFilter;
use crate::model::time::format_time;
use crate::model::zone::LocalDay;
use crate::ops::lookup::Fresh;
use crate::ops::tags;
use crate::ops::trip_list::devices_of_day;
use crate::segment::Kind;
use crate::store::{DeviceScope, TripStore as _, count_trips};
use crate::views::{LatLon, TagValues, tag_values, text_id};

/// Devices whose last trips are read at the same time.
const CONCURRENCY: usize = 16;

/// Where a device was last.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LastSeen {
    /// Time of its last sample.
    #[schema(format = DateTime)]
    time: String,
    /// Position of that sample.
    position: LatLon,
    /// Text id of its trip or stop.
    #[schema(example = "truck~2017~20261120T213800.123Z")]
    trip_id: String,
    /// `trip` if it moves, `stop` if it stands.
    #[schema(pattern = "^(trip|stop)$")]
    kind: &'static str,
}

/// A device.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Device {
    /// Device id, as in its samples.
    #[schema(example = "truck 17")]
    device_id: String,
    /// The id in the form that URL paths and trip ids use.
    #[schema(example = "truck~2017")]
    token: String,
    /// Where the device was last; null if its latest four days in the store have no row, and with
    /// `last=false`.
    last: Option<LastSeen>,
    /// Number of trips that touch `day`, at most 10,000; null without `day`.
    trips: Option<usize>,
    /// The tags of the device, by key.
    tags: TagValues,
}

impl Device {
    /// Reads where a device was last, if that is asked for, and how many trips it has in a day.
    async fn read(
        store: &Fresh<'_>,
        (device_id, tags): (String, TagValues),
        has_last: bool,
        day: Option<LocalDay>,
    ) -> Result<Self, Problem> {
        let latest = if has_last { store.latest_end(&device_id).await? } else { None };
        let last = latest.map(|end| {
            let trip_id = text_id(&device_id, end.t_star_ms)?;
            let position = LatLon { lat: end.lat, lon: end.lon };
            let (time, kind) = (format_time(end.end_ms.ms()), end.kind.name());
            Ok::<_, Problem>(LastSeen { time, position, trip_id, kind })
        });
        let trips = match day {
            Some(day) => Some(count_trips(store.store(), &device_id, day.span()).await?),
            None => None,
        };
        let (token, last) = (token_of_device(&device_id), last.transpose()?);
        Ok(Self { device_id, token, last, trips, tags })
    }

    fn example() -> Self {
        let (time, position) = (time(12), LatLon { lat: 52.5212, lon: 13.4112 });
        let last = Some(LastSeen { time, position, trip_id: id(0), kind: Kind::Trip.name() });
        let tags = [("name".to_owned(), "Blue van".to_owned())].into();
        Self { device_id: DEVICE.to_owned(), token: DEVICE.to_owned(), last, trips: None, tags }
    }
}

/// A page of devices.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct DevicePage {
    /// Devices, ordered by the bytes of their ids.
    devices: Vec<Device>,
    /// Cursor of the next page; null on the last page.
    next: Option<String>,
}

/// Lists devices, each with the position, time and trip of its last sample.
#[utoipa::path(get, path = "/v1/devices", tag = "devices", operation_id = "devices",
    params(
        ("day" = Option<String>, Query, format = "date",
            description = "Only devices with a trip or stop that touches this day, each with the number of its trips"),
        ZoneParam,
        ("last" = Option<bool>, Query, description = "Include where each device was last (default); false makes a long list faster"),
        DeviceFilter,
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum devices per page; default 100"),
        ("cursor" = Option<String>, Query, pattern = "^[0-9a-v]+$", description = "`next` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page; `Link` is the URL of the next", body = DevicePage,
            example = json!({"devices": [Device::example()], "next": null})),
    ))]
pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let params = &mut call.params;
    let zone = params.zone();
    let (day, limit, cursor) = (params.day(zone), params.limit(), params.cursor());
    let has_last = params.flag_or("last", true);
    let filter: Option<TagFilter> = params.read("tag", str::parse);
    params.finish()?;
    let after = cursor.map(|cursor| cursor.device_id);
    let _turn = call.app.device_lists.acquire().await.expect("it is never closed");
    let store = call.app.store()?;
    let mut found = match day {
        Some(day) => devices_of_day(&*store, day, after.as_deref(), limit + 1).await?,
        None => store.devices(DeviceScope::All, after.as_deref(), limit + 1).await?,
    };
    let mut is_more = found.len() > limit;
    found.truncate(limit);
    let tags = tags::of_devices(&*store, &found).await?;
    // A page of devices with many tags ends early.
    is_more |= tags.len() < found.len();
    found.truncate(tags.len());
    let last = found.last().filter(|_| is_more);
    let next = last.map(|device_id| TripId {
        device_id: DeviceId::from_store(device_id.as_str()),
        t_star_ms: DeviceTime(0),
    });
    let next = next.map(|next| next.key_text());
    let link = next.as_deref().map(|next| next_link(&call.uri, next));
    let mut tagged: Vec<_> = found.into_iter().zip(tags).collect();
    tagged.retain(|(_, tags)| filter.as_ref().is_none_or(|filter| filter.accepts(tags)));
    let store = call.app.fresh(&store);
    let device = |(id, tags)| Device::read(&store, (id, tag_values(&tags)), has_last, day);
    let reads: Vec<_> = tagged.into_iter().map(device).collect();
    let devices = stream::iter(reads).buffered(CONCURRENCY).try_collect().await?;
    let response = Json(DevicePage { devices, next }).into_response();
    Ok(match link {
        Some(link) => with_header(response, header::LINK, &link),
        None => response,
    })
}
