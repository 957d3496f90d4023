//! Length and jumps of a trip by their definition: sort the set of kept fixes, look at neighbours.

/// Below this speed a vehicle that stands has not gone anywhere, m/s, unless it is this far, m.
const STOP_SPEED_MPS: f64 = 0.5;
const MAX_DRIFT_M: f64 = 25.0;

/// A kept fix: time, ms, position, degrees, and whether the vehicle says that it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub time: i64,
    pub lat: f64,
    pub lon: f64,
    pub stands: bool,
}

/// What the legs of a trip add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Legs {
    /// Length of the legs that count, m.
    pub counted_m: f64,
    /// Number of the legs that are faster than the limit.
    pub jumps: usize,
    /// Their durations, ms.
    pub jump_ms: i64,
}

/// The legs between the points of a trip, in any order. Without a limit, every leg counts.
pub fn legs(points: impl IntoIterator<Item = Point>, max_mps: Option<f64>) -> Legs {
    let mut points: Vec<_> = points.into_iter().collect();
    points.sort_by_key(|point| point.time);
    let mut legs = Legs::default();
    for pair in points.windows(2) {
        let (metres, ms) = (metres(pair[0], pair[1]), pair[1].time - pair[0].time);
        let speed_mps = metres / (ms as f64 / 1000.0);
        if max_mps.is_some_and(|max| speed_mps > max) {
            legs.jumps += 1;
            legs.jump_ms += ms;
        } else if !pair.iter().all(|point| point.stands)
            || speed_mps >= STOP_SPEED_MPS
            || metres > MAX_DRIFT_M
        {
            legs.counted_m += metres;
        }
    }
    legs
}

/// The great circle by the angle between two vectors, which the program does not use.
fn metres(a: Point, b: Point) -> f64 {
    let vector = |point: Point| {
        let (lat, lon) = (point.lat.to_radians(), point.lon.to_radians());
        [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
    };
    let (a, b) = (vector(a), vector(b));
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let length = |v: [f64; 3]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
    6_371_008.8 * length(cross).atan2(dot)
}
