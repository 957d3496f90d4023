//! Which trips of a list are wanted, by their content.

use crate::model::tag::{TagFilter, TripTags};
use crate::segment::Kind;
use crate::store::TripRow;

/// Maximum of a distance that a client names, m.
pub const MAX_DISTANCE_M: f64 = 1e6;

/// A box of positions, degrees. If `west` is greater than `east`, it crosses the antimeridian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bbox {
    /// Western longitude, -180 to 180.
    pub west: f64,
    /// Southern latitude, -90 to 90.
    pub south: f64,
    /// Eastern longitude, -180 to 180.
    pub east: f64,
    /// Northern latitude, -90 to 90.
    pub north: f64,
}

impl Bbox {
    /// Parses `WEST,SOUTH,EAST,NORTH`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> =
            text.split(',').map(|number| number.trim().parse().ok()).collect();
        let Some([west, south, east, north]) = numbers.as_deref() else {
            return Err(format!(
                "`{text}` is not four numbers, west, south, east and north in degrees, such as \
                 8.4,47.3,8.6,47.5"
            ));
        };
        for longitude in [west, east] {
            if !(-180.0..=180.0).contains(longitude) {
                return Err(format!("longitude {longitude} is not from -180 to 180"));
            }
        }
        for latitude in [south, north] {
            if !(-90.0..=90.0).contains(latitude) {
                return Err(format!("latitude {latitude} is not from -90 to 90"));
            }
        }
        if south > north {
            return Err(format!("south {south} is greater than north {north}; swap them"));
        }
        Ok(Self { west: *west, south: *south, east: *east, north: *north })
    }

    /// Whether this box and one that does not cross the antimeridian overlap.
    fn overlaps(&self, other: &Self) -> bool {
        let (from_west, to_east) = (other.east >= self.west, other.west <= self.east);
        let by_longitude =
            if self.west <= self.east { from_west && to_east } else { from_west || to_east };
        by_longitude && other.north >= self.south && other.south <= self.north
    }
}

/// Conditions that a trip has to satisfy, all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TripFilter {
    /// Its bounding box overlaps this one.
    pub bbox: Option<Bbox>,
    /// It has this driver.
    pub driver: Option<String>,
    /// It has these tags, all of them.
    pub tags: Vec<TagFilter>,
    /// If it is a trip, the distance that it shows is at least this, m: noise makes short trips of
    /// a parked vehicle.
    pub min_distance_m: f64,
}

impl TripFilter {
    /// Whether a trip satisfies every condition.
    #[must_use]
    pub fn accepts(&self, row: &TripRow, tags: &TripTags) -> bool {
        let of_trip =
            Bbox { west: row.min_lon, south: row.min_lat, east: row.max_lon, north: row.max_lat };
        self.bbox.is_none_or(|bbox| bbox.overlaps(&of_trip))
            && self.driver.as_ref().is_none_or(|driver| row.driver.as_ref() == Some(driver))
            && self.tags.iter().all(|tag| tag.accepts(tags))
            && (row.kind == Kind::Stop || row.shown_distance_m() >= self.min_distance_m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlaps(one: &str, other: &str) -> bool {
        Bbox::parse(one).unwrap().overlaps(&Bbox::parse(other).unwrap())
    }

    #[test]
    fn boxes_that_touch_overlap() {
        let trip = "8,47,9,48";
        for bbox in ["8.5,47.5,8.6,47.6", "0,0,20,60", "9,48,10,49", "7,46,8,47", "7,47.5,10,47.6"]
        {
            assert!(overlaps(bbox, trip), "{bbox}");
        }
        for bbox in ["9.1,47,10,48", "7,47,7.9,48", "8,48.1,9,49", "8,46,9,46.9"] {
            assert!(!overlaps(bbox, trip), "{bbox}");
        }
    }

    #[test]
    fn a_box_may_cross_the_antimeridian() {
        let (fiji, samoa, hawaii) = ("178,-18,179,-17", "-172,-14,-171,-13", "-156,19,-155,20");
        assert!(overlaps("170,-20,-165,0", fiji) && overlaps("170,-20,-165,0", samoa));
        assert!(!overlaps("170,-20,-165,30", hawaii));
    }

    #[test]
    fn a_box_that_is_none_is_explained() {
        for (text, problem) in [
            ("1,2,3", "not four numbers"),
            ("1,2,3,x", "not four numbers"),
            ("181,0,0,0", "longitude 181"),
            ("NaN,0,0,0", "longitude NaN"),
            ("0,-91,0,0", "latitude -91"),
            ("0,2,0,1", "south 2 is greater than north 1"),
        ] {
            let error = Bbox::parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
