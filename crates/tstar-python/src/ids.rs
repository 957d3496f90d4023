//! Trip ids in all forms.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tstar_core::DeviceTime;
use tstar_core::identity::{AnyId, TripId, UuidId};

use crate::wrong;

/// An id as its parts: the device, unless it is a UUID, and `t_star` in ms.
type Parts = (Option<String>, i64);

fn parts(id: TripId) -> Parts {
    (Some(id.device_id.into_string()), id.t_star_ms.ms())
}

/// An id in a form: text, base32hex of the key, or UUID as text; or the key as bytes.
#[pyfunction]
pub(crate) fn format<'py>(
    py: Python<'py>,
    device: &str,
    t_star_ms: i64,
    form: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let id = TripId::new(device, DeviceTime(t_star_ms)).map_err(wrong)?;
    let text = match form {
        "key" => return Ok(PyBytes::new(py, &id.key()).into_any()),
        "text" => id.text().map_err(wrong)?,
        "bytes" => id.key_text(),
        "uuid" => id.uuid().map_err(wrong)?.to_string(),
        _ => {
            let message =
                format!("{form:?} is not a form of an id; it is text, bytes, uuid or key");
            return Err(wrong(message));
        }
    };
    Ok(text.into_pyobject(py)?.into_any())
}

/// The parts of an id in any form: text, or the bytes of a key.
#[pyfunction]
pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<Parts> {
    if let Ok(key) = given.cast::<PyBytes>() {
        return TripId::parse_key(key.as_bytes()).map(parts).map_err(wrong);
    }
    let text: &str = given.extract().map_err(|_| {
        let kind = given.get_type().name().map_or_else(|_| "?".to_owned(), |it| it.to_string());
        wrong(format!("a trip id is text, bytes or a UUID, not {kind}"))
    })?;
    Ok(match AnyId::parse(text).map_err(wrong)? {
        AnyId::Trip(id) => parts(id),
        AnyId::Uuid(UuidId { t_star_ms, .. }) => (None, t_star_ms.ms()),
    })
}

/// The token of a device, as in text ids and URLs.
#[pyfunction]
pub(crate) fn token(device: &str) -> PyResult<String> {
    tstar_core::identity::check_device_id(device).map_err(wrong)?;
    Ok(tstar_core::identity::token_of_device(device))
}

/// The device of a token.
#[pyfunction]
pub(crate) fn device_of_token(token: &str) -> PyResult<String> {
    let device = tstar_core::identity::device_of_token(token);
    device.map(|device| device.into_string()).map_err(wrong)
}

/// The prefix of the text ids of a device in a year, month, day or hour.
#[pyfunction]
pub(crate) fn prefix(device: &str, date: &str) -> PyResult<String> {
    tstar_core::identity::prefix(device, date).map_err(wrong)
}

/// The device of a prefix, and its first and last ms.
#[pyfunction]
pub(crate) fn prefix_range(prefix: &str) -> PyResult<(String, i64, i64)> {
    let (device, from_ms, upto_ms) = tstar_core::identity::prefix_range(prefix).map_err(wrong)?;
    Ok((device.into_string(), from_ms.ms(), upto_ms.ms()))
}

/// The first and last ms of a year, month, day or hour.
#[pyfunction]
pub(crate) fn date_range(date: &str) -> PyResult<(i64, i64)> {
    let (from_ms, upto_ms) = tstar_core::identity::date_range(date).map_err(wrong)?;
    Ok((from_ms.ms(), upto_ms.ms()))
}

/// A time as ms since 1970: RFC 3339, or a number.
#[pyfunction]
pub(crate) fn parse_time(text: &str) -> PyResult<i64> {
    tstar_core::model::time::parse_time(text).map_err(wrong)
}
