//! What a list of trips contains, and how it is written: the parameters of every list.

use axum::http::{HeaderMap, header};

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::params::{Params, positive};
use super::trip_response::MAX_LIST;
use crate::model::zone::Zone;
use crate::ops::trip_filter::{Bbox, MAX_DISTANCE_M, TripFilter};
use crate::ops::trip_page::PageRequest;
use crate::store::Kinds;
use crate::views::{Detail, Form, PathRule, TRIP_FIELDS};

/// The formats of lists besides JSON, and their media types. The name of a format, after a dot,
/// ends the URL path of the list.
pub(crate) fn list_forms() -> impl Iterator<Item = (Form, &'static str)> {
    Form::ALL.into_iter().filter_map(|form| Some((form, form.spec().list_type?)))
}

/// The format that the client prefers: the first in its `Accept` header that lists have.
pub(crate) fn accepted(headers: &HeaderMap) -> Form {
    let values = headers.get_all(header::ACCEPT).into_iter();
    let mut types = values.filter_map(|it| it.to_str().ok()).flat_map(|text| text.split(','));
    let form = |text: &str| {
        let essence = text.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case("application/json") || essence == "*/*" {
            return Some(Form::Json);
        }
        let is_type = |(_, media_type): &(Form, &str)| {
            let known = media_type.split(';').next().unwrap_or_default();
            essence.eq_ignore_ascii_case(known)
        };
        list_forms().find(is_type).map(|(form, _)| form)
    };
    types.find_map(form).unwrap_or(Form::Json)
}

/// Schema of a `bbox`.
pub(crate) fn bbox_schema() -> ObjectBuilder {
    let (longitude, latitude) = ("-?(1[0-7][0-9]|[0-9]{1,2})", "-?[0-8]?[0-9]");
    let numbers = [longitude, latitude, longitude, latitude];
    text_schema(&numbers.map(|number| format!("{number}([.][0-9]{{1,9}})?")).join(","))
        .examples(["8.4,47.3,8.6,47.5"])
}

/// Schema of `fields`.
pub(crate) fn fields_schema() -> ObjectBuilder {
    let name = format!("({})", TRIP_FIELDS.join("|"));
    text_schema(&format!("{name}(,{name})*")).examples(["id,start_time,distance_m"])
}

/// A text that matches a pattern as a whole.
fn text_schema(pattern: &str) -> ObjectBuilder {
    Object::builder().schema_type(Type::String).pattern(Some(format!("^{pattern}$")))
}

/// Which trips a list contains, and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    /// Maximum number of trips of a page.
    pub limit: usize,
    /// Which segments.
    pub kinds: Kinds,
    /// Which of these.
    pub filter: TripFilter,
    /// The fields of each trip; all if `None`.
    pub fields: Option<Vec<String>>,
    /// How much of the paths.
    pub detail: Detail,
    /// Format of the answer.
    pub form: Form,
    /// Zone of the times of CSV.
    pub zone: Zone,
}

impl ListOptions {
    /// Whether the answer needs the samples.
    pub(crate) fn reads_path(&self) -> bool {
        match self.form.spec().path {
            PathRule::Never => false,
            PathRule::OnRequest => self.detail.path,
            PathRule::Always => true,
        }
    }

    /// Whether the answer needs the tags.
    fn reads_tags(&self) -> bool {
        let is_shown = |fields: &Vec<String>| fields.iter().any(|field| field == "tags");
        !self.filter.tags.is_empty() || self.fields.as_ref().is_none_or(is_shown)
    }

    /// What a page contains.
    pub(crate) fn request(&self) -> PageRequest {
        let (limit, filter) = (self.limit, self.filter.clone());
        let (reads_path, reads_tags) = (self.reads_path(), self.reads_tags());
        let (kinds, max_bytes) = (self.kinds, MAX_LIST);
        PageRequest { limit, max_bytes, kinds, filter, reads_path, reads_tags }
    }
}

impl Params {
    /// The options of a list in a format and a zone.
    pub(crate) fn list_options(&mut self, form: Form, zone: Zone) -> ListOptions {
        let (limit, mut detail) = (self.limit(), self.detail());
        let kinds = self.read("kind", |name| {
            Kinds::from_name(name).ok_or_else(|| format!("`{name}` is not trip, stop or all"))
        });
        let bbox = self.read("bbox", Bbox::parse);
        let tags = Vec::from_iter(self.read("tag", str::parse));
        let min_distance_m = self
            .read("min_distance_m", |text| positive(text, MAX_DISTANCE_M, "a distance in metres"));
        let min_distance_m = min_distance_m.unwrap_or_default();
        let filter = TripFilter { bbox, driver: self.text("driver"), tags, min_distance_m };
        let fields = self.read("fields", read_fields);
        if fields.is_some() && !matches!(form, Form::Json | Form::Ndjson) {
            let form = form.spec().name;
            self.fault("fields", format!("{form} always has the same columns; leave it out"));
        }
        detail.path |= fields.iter().flatten().any(|field| field == "path");
        let kinds = kinds.unwrap_or(Kinds::Trips);
        ListOptions { limit, kinds, filter, fields, detail, form, zone }
    }
}

fn read_fields(text: &str) -> Result<Vec<String>, String> {
    let fields: Vec<_> = text.split(',').map(|field| field.trim().to_owned()).collect();
    match fields.iter().find(|field| !TRIP_FIELDS.contains(&field.as_str())) {
        None => Ok(fields),
        Some(unknown) => {
            Err(format!("`{unknown}` is not a field of a trip: {}", TRIP_FIELDS.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn accepting(value: &'static str) -> Form {
        let headers = [(header::ACCEPT, HeaderValue::from_static(value))];
        accepted(&headers.into_iter().collect())
    }

    #[test]
    fn the_first_format_that_lists_have_is_accepted() {
        assert_eq!(accepted(&HeaderMap::new()), Form::Json);
        assert_eq!(accepting("text/csv"), Form::Csv);
        assert_eq!(accepting("text/html, Application/Geo+JSON;q=0.9, */*"), Form::GeoJson);
        assert_eq!(accepting("application/json, text/csv"), Form::Json);
        assert_eq!(accepting("application/vnd.apache.parquet"), Form::Parquet);
        assert_eq!(accepting("text/html"), Form::Json);
    }
}
