//! The base map of the demo: the streets of its town, as a `PMTiles` archive of vector tiles.

use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use prost::encoding::encode_varint;

use crate::simulate::{Fleet, FleetSettings, Street};
use crate::store::files;

/// Zooms of the tiles: all of the motorway in one or two, and the town in a few.
const ZOOMS: std::ops::RangeInclusive<u8> = 6..=11;

/// The zoom from which small streets are in the tiles.
const SMALL: u8 = 10;

/// Units of the side of a tile.
const EXTENT: u32 = 4096;

const METADATA: &[u8] = br#"{"attribution":"A town made by chance",
"vector_layers":[{"id":"roads","fields":{"kind":"String"}}]}"#;

#[derive(Clone, PartialEq, Message)]
struct Tile {
    #[prost(message, repeated, tag = "3")]
    layers: Vec<Layer>,
}

#[derive(Clone, PartialEq, Message)]
struct Layer {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    features: Vec<Feature>,
    #[prost(string, repeated, tag = "3")]
    keys: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    values: Vec<Value>,
    #[prost(uint32, optional, tag = "5")]
    extent: Option<u32>,
    #[prost(uint32, required, tag = "15")]
    version: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    /// Indexes of keys and values.
    #[prost(uint32, repeated, tag = "2")]
    tags: Vec<u32>,
    #[prost(uint32, optional, tag = "3")]
    kind: Option<u32>,
    #[prost(uint32, repeated, tag = "4")]
    geometry: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

/// Writes the streets of the town of a fleet. A file appears under `path` once it is complete.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_streets(path: &Path, fleet: &FleetSettings) -> io::Result<()> {
    let streets = Fleet::new(fleet).map_err(io::Error::other)?.streets();
    let archive = archive(&streets)?;
    files::replace(path, |file| file.write_all(&archive))?;
    Ok(())
}

/// A point in units of the tiles of a zoom, from the north-west of the world.
#[expect(clippy::cast_possible_truncation, reason = "at most 2^23")]
fn project([lat, lon]: [f64; 2], zoom: u8) -> [i64; 2] {
    let units = f64::from(EXTENT << zoom);
    let angle = libm::log(libm::tan(PI / 4.0 + lat.to_radians() / 2.0));
    let shares = [(lon + 180.0) / 360.0, (1.0 - angle / PI) / 2.0];
    shares.map(|share| libm::round(share * units) as i64)
}

/// The lines of each tile by kind of street: straight parts, each in all tiles that it may be in.
type Lines = BTreeMap<u64, BTreeMap<&'static str, Vec<[[i64; 2]; 2]>>>;

fn lines(streets: &[Street], zoom: u8) -> Lines {
    let mut lines = Lines::new();
    let extent = i64::from(EXTENT);
    for street in streets.iter().filter(|street| zoom >= SMALL || street.kind != "minor_road") {
        let points: Vec<_> = street.points.iter().map(|point| project(*point, zoom)).collect();
        for (from, to) in points.iter().zip(&points[1..]).filter(|(from, to)| from != to) {
            let tiles = |axis: usize| {
                let (a, b) = (from[axis] / extent, to[axis] / extent);
                a.min(b)..=a.max(b)
            };
            for (x, y) in tiles(0).flat_map(|x| tiles(1).map(move |y| (x, y))) {
                let local = [from, to].map(|it| [it[0] - x * extent, it[1] - y * extent]);
                let kinds = lines.entry(tile_id(zoom, x, y)).or_default();
                kinds.entry(street.kind).or_default().push(local);
            }
        }
    }
    lines
}

/// The id of a tile: those of lower zooms first, then along a Hilbert curve.
fn tile_id(zoom: u8, mut x: i64, mut y: i64) -> u64 {
    let mut id = ((1_i64 << (2 * zoom)) - 1) / 3;
    for level in (0..zoom).rev() {
        let side = 1_i64 << level;
        let (right, below) = (i64::from(x & side > 0), i64::from(y & side > 0));
        id += side * side * ((3 * right) ^ below);
        if below == 0 {
            if right == 1 {
                (x, y) = (side - 1 - (x & (side - 1)), side - 1 - (y & (side - 1)));
            }
            (x, y) = (y, x);
        }
    }
    id.unsigned_abs()
}

/// A tile: a feature of many lines for each kind of street.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "zigzag of a tile")]
fn tile(kinds: &BTreeMap<&'static str, Vec<[[i64; 2]; 2]>>) -> Vec<u8> {
    let zigzag = |value: i64| ((value << 1) ^ (value >> 63)) as u32;
    let mut layer = Layer {
        name: "roads".into(),
        keys: vec!["kind".into()],
        extent: Some(EXTENT),
        version: 2,
        ..Layer::default()
    };
    for (nth, (kind, lines)) in (0..).zip(kinds) {
        let (mut geometry, mut at) = (Vec::new(), [0, 0]);
        for line in lines {
            // MoveTo and LineTo, each of one point.
            for (command, point) in [9, 10].into_iter().zip(line) {
                geometry.extend([command, zigzag(point[0] - at[0]), zigzag(point[1] - at[1])]);
                at = *point;
            }
        }
        layer.values.push(Value { text: Some((*kind).into()) });
        layer.features.push(Feature { tags: vec![0, nth], kind: Some(2), geometry });
    }
    Tile { layers: vec![layer] }.encode_to_vec()
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// The archive: header, root directory, metadata, tiles.
#[expect(clippy::cast_possible_truncation, reason = "degrees")]
fn archive(streets: &[Street]) -> io::Result<Vec<u8>> {
    let tiles = ZOOMS.flat_map(|zoom| lines(streets, zoom));
    let tiles: Vec<(u64, Vec<u8>)> =
        tiles.map(|(id, kinds)| Ok((id, gzip(&tile(&kinds))?))).collect::<io::Result<_>>()?;
    let mut directory = Vec::new();
    let count = tiles.len() as u64;
    encode_varint(count, &mut directory);
    let ids = tiles.iter().map(|(id, _)| *id);
    let steps = ids.clone().zip([0].into_iter().chain(ids)).map(|(id, before)| id - before);
    steps.for_each(|step| encode_varint(step, &mut directory));
    tiles.iter().for_each(|_| encode_varint(1, &mut directory));
    tiles.iter().for_each(|(_, bytes)| encode_varint(bytes.len() as u64, &mut directory));
    // An offset plus 1, or 0 for the end of the tile before.
    (0..count).for_each(|nth| encode_varint(u64::from(nth == 0), &mut directory));
    let (directory, metadata) = (gzip(&directory)?, gzip(METADATA)?);
    let data: Vec<u8> = tiles.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let points = || streets.iter().flat_map(|street| &street.points);
    let bound = |axis: usize, pick: fn(f64, f64) -> f64| {
        let degrees = points().map(|point| point[axis]).reduce(pick).unwrap_or_default();
        (degrees * 1e7) as i32
    };
    let mut bytes = b"PMTiles\x03".to_vec();
    let (root, meta) = (directory.len() as u64, metadata.len() as u64);
    let end = 127 + root + meta;
    let length = data.len() as u64;
    for number in [127, root, 127 + root, meta, end, 0, end, length, count, count, count] {
        bytes.extend(number.to_le_bytes());
    }
    // In the order of ids, with gzip for everything, vector tiles.
    bytes.extend([1, 2, 2, 1, *ZOOMS.start(), *ZOOMS.end()]);
    let [west, south] = [bound(1, f64::min), bound(0, f64::min)];
    let [east, north] = [bound(1, f64::max), bound(0, f64::max)];
    [west, south, east, north].iter().for_each(|degrees| bytes.extend(degrees.to_le_bytes()));
    bytes.push(*ZOOMS.end());
    [west, south].iter().for_each(|degrees| bytes.extend(degrees.to_le_bytes()));
    Ok([bytes, directory, metadata, data].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::demo::FLEET;

    #[test]
    fn ids_are_those_of_the_specification() {
        let known = [(0, 0, 0, 0), (1, 0, 0, 1), (1, 0, 1, 2), (1, 1, 1, 3), (1, 1, 0, 4)];
        let deep = [(2, 0, 0, 5), (12, 3423, 1763, 19_078_479)];
        for (zoom, x, y, id) in known.into_iter().chain(deep) {
            assert_eq!(tile_id(zoom, x, y), id, "{zoom}/{x}/{y}");
        }
    }

    #[test]
    fn the_archive_is_small_and_its_header_right() {
        let archive = archive(&Fleet::new(&FLEET).unwrap().streets()).unwrap();
        assert!((4_000..100_000).contains(&archive.len()), "{} bytes", archive.len());
        let number = |at: usize| u64::from_le_bytes(archive[at..at + 8].try_into().unwrap());
        assert_eq!(number(56) + number(64), archive.len() as u64);
    }
}
