//! The readings of a sample: its optional measurements.

use super::sample::OutOfRange;

/// Calls a macro with the list of readings. An entry here, and its two fields in
/// `schema/path.proto`, make a reading: decoders read it, proposals find it, samples hold it, paths
/// store it, and exports of samples have it.
///
/// `Kind: field of RawSample, field of Sample, bitmap in a path { details }`, where
/// - `tags` are the field numbers of column and bitmap in `schema/path.proto`,
/// - `names` are the canonical name in a record and its aliases,
/// - `guesses` are the names that a proposal takes for it, in lower case without separators, the
///   best first,
/// - `quanta` is the accepted range, in quanta, and the number of quanta per unit,
/// - `docs` describe the two fields.
#[macro_export]
#[doc(hidden)]
macro_rules! readings {
    ($callback:ident) => {
        $callback! {
            Speed: speed_mps, speed_cmps, speed_present {
                tags: [5, 9],
                names: ["speed"],
                guesses: [
                    "speed gpsspeed groundspeed velocity vel spd speedkmh speedkph kmh kph"
                    "speedmph mph speedms speedmps speedknots knots speedkn"
                    "speedmeterspersecond speedmilesperhour geschwindigkeit tempo vitesse"
                    "velocidad velocita snelheid predkosc hastighet hastighed fart velocidade"
                    "nopeus rychlost sebesseg viteza"
                ],
                quanta: (0, 100_000, 100),
                docs: ["Speed, m/s, 0 to 1,000.", "Speed, 0.01 m/s."],
            }
            Heading: heading_deg, heading_ddeg, heading_present {
                tags: [6, 10],
                names: ["heading", "bearing", "course"],
                guesses: [
                    "heading bearing course direction azimuth cog hdg headingdegrees richtung"
                    "fahrtrichtung kurs cap rumbo direccion direzione rotta richting koers"
                    "kierunek riktning retning direcao rumo suunta smer irany directie"
                ],
                quanta: (0, 3600, 10),
                docs: [
                    "Heading from north, degrees, 0 to 360.",
                    "Heading from north, 0.1 degree, 0 to 3599."
                ],
            }
            Altitude: altitude_m, altitude_dm, altitude_present {
                tags: [7, 11],
                names: ["altitude"],
                guesses: [
                    "altitude alt elevation ele gpsaltitude height hohe hoehe altitud"
                    "altitudine quota hoogte wysokosc hojd hoyde hojde hoejde korkeus vyska"
                    "magassag"
                ],
                quanta: (-120_000, 1_000_000, 10),
                docs: ["Altitude, m, -12,000 to 100,000.", "Altitude, 0.1 m."],
            }
            Accuracy: accuracy_m, accuracy_dm, accuracy_present {
                tags: [8, 12],
                names: ["accuracy"],
                guesses: [
                    "accuracy horizontalaccuracy acc hacc accuracymeters genauigkeit"
                    "precision precisione nauwkeurigheid dokladnosc noggrannhet nojagtighed"
                    "noyaktighet precisao tarkkuus presnost pontossag"
                ],
                quanta: (0, 1_000_000_000, 10),
                docs: ["Accuracy, m, 0 to 100,000,000.", "Accuracy, 0.1 m."],
            }
        }
    };
}

pub use readings;

/// Full turn of a heading, 0.1 degree.
pub(super) const FULL_TURN_DDEG: i32 = 3600;

macro_rules! define_kinds {
    ($($kind:ident: $raw:ident, $field:ident, $present:ident {
        tags: $tags:tt,
        names: $names:tt,
        guesses: [$guess:literal $($more_guesses:literal)*],
        quanta: ($min:literal, $max:literal, $per_unit:literal),
        docs: $docs:tt,
    })*) => {
        /// The readings, in the order of their fields in `schema/path.proto`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names of the readings")]
        pub enum ReadingKind {
            $($kind,)*
        }

        impl ReadingKind {
            /// All readings.
            pub const ALL: [Self; READINGS] = [$(Self::$kind,)*];
        }

        /// Number of readings.
        pub const READINGS: usize = SPECS.len();

        const SPECS: &[ReadingSpec] = &[$(
            ReadingSpec {
                names: &$names,
                guesses: concat!($guess $(, " ", $more_guesses)*),
                column: stringify!($field),
                min: $min,
                max: $max,
                per_unit: $per_unit,
            },
        )*];
    };
}

readings!(define_kinds);

/// What is known of a reading.
struct ReadingSpec {
    names: &'static [&'static str],
    guesses: &'static str,
    column: &'static str,
    min: i32,
    max: i32,
    per_unit: i32,
}

impl ReadingKind {
    #[inline]
    const fn spec(self) -> &'static ReadingSpec {
        &SPECS[self as usize]
    }

    /// The canonical name in a record, then the aliases.
    #[must_use]
    pub const fn names(self) -> &'static [&'static str] {
        self.spec().names
    }

    /// The canonical name in a record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Names of foreign records that a proposal takes for it, in lower case and without separators,
    /// separated by spaces: the best first.
    #[must_use]
    pub const fn guesses(self) -> &'static str {
        self.spec().guesses
    }

    /// Name of the column in `schema/path.proto`, which is also the field of
    /// [`Sample`](super::sample::Sample).
    #[must_use]
    pub const fn column(self) -> &'static str {
        self.spec().column
    }

    /// Smallest and largest value that a sample can have, quanta.
    #[must_use]
    pub const fn quanta_range(self) -> (i32, i32) {
        let ReadingSpec { min, max, .. } = *self.spec();
        // A full turn equals 0.
        (min, if matches!(self, Self::Heading) { FULL_TURN_DDEG - 1 } else { max })
    }

    /// Quanta per unit.
    #[must_use]
    pub const fn per_unit(self) -> i32 {
        self.spec().per_unit
    }

    /// Converts quanta to the unit.
    #[inline]
    #[must_use]
    pub fn in_units(self, quanta: i32) -> f64 {
        f64::from(quanta) / f64::from(self.per_unit())
    }

    /// Whether devices send -1 if the value is unknown. As an altitude, -1 is a value.
    #[inline]
    #[must_use]
    pub const fn has_unknown(self) -> bool {
        !matches!(self, Self::Altitude)
    }

    /// Whether this value means that the device does not know it.
    #[inline]
    #[must_use]
    #[expect(clippy::float_cmp, reason = "any other negative value is an error")]
    pub fn is_unknown(self, value: f64) -> bool {
        value == -1.0 && self.has_unknown()
    }

    /// The accepted value, unless it is out of range.
    #[inline]
    pub(super) fn quantised(self, value: Option<f64>) -> Result<Reading, OutOfRange> {
        let Some(value) = value else { return Ok(Reading::ABSENT) };
        let ReadingSpec { min, max, per_unit, .. } = *self.spec();
        let range = (self.in_units(min), self.in_units(max));
        let quanta = super::sample::quanta(self.name(), value, range, per_unit.into())?;
        Ok(Reading::new(Some(quanta)))
    }
}

/// A set of readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadingSet(u8);

const _: () = assert!(READINGS < 8, "a set has one bit for each reading, and one for the ignition");

/// A value that a record has, and its sample has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostValue {
    /// A reading.
    Reading(ReadingKind),
    /// The ignition.
    Ignition,
}

impl LostValue {
    /// The name of the field.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reading(kind) => kind.name(),
            Self::Ignition => "ignition",
        }
    }
}

impl ReadingSet {
    /// The bit of the ignition.
    const IGNITION: u8 = 1 << 7;

    /// Adds a reading.
    pub fn insert(&mut self, kind: ReadingKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Removes a reading.
    pub fn remove(&mut self, kind: ReadingKind) {
        self.0 &= !(1 << kind as u8);
    }

    /// Adds the ignition.
    pub fn insert_ignition(&mut self) {
        self.0 |= Self::IGNITION;
    }

    /// Whether the ignition is in it.
    #[must_use]
    pub fn has_ignition(self) -> bool {
        self.0 & Self::IGNITION != 0
    }

    /// The values in it.
    pub fn iter(self) -> impl Iterator<Item = LostValue> {
        let has = move |kind: &ReadingKind| self.0 & (1 << *kind as u8) != 0;
        let readings = ReadingKind::ALL.into_iter().filter(has).map(LostValue::Reading);
        readings.chain(self.has_ignition().then_some(LostValue::Ignition))
    }
}

/// An optional measurement of a sample, in quanta; an absent one is less than any other. Uses no
/// more memory than an `i32`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading(i32);

impl Reading {
    /// No measurement.
    pub const ABSENT: Self = Self(i32::MIN);

    /// A measurement in quanta. `i32::MIN` means absent and is not a value.
    #[must_use]
    pub fn new(quanta: Option<i32>) -> Self {
        quanta.map_or(Self::ABSENT, Self)
    }

    /// The measurement in quanta, if there is one.
    #[must_use]
    pub fn get(self) -> Option<i32> {
        (self != Self::ABSENT).then_some(self.0)
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of message `Path` that a comment of `schema/path.proto` gives a range.
    #[test]
    fn the_path_format_has_the_readings() {
        let schema = include_str!("../../schema/path.proto");
        let fields = schema.lines().map(str::trim).filter(|line| line.ends_with(';'));
        let fields: Vec<_> = fields.filter(|line| line.starts_with(['r', 'b'])).collect();
        let mut expected = Vec::new();
        macro_rules! expect_fields {
            ($($kind:ident: $raw:ident, $field:ident, $present:ident {
                tags: [$tag:literal, $present_tag:literal], $($rest:tt)*
            })*) => {
                $(expected.push(format!("repeated sint32 {} = {};", stringify!($field), $tag));)*
                $(expected.push(format!("bytes {} = {};", stringify!($present), $present_tag));)*
            };
        }
        readings!(expect_fields);
        let is_reading = |line: &&str| line.contains("sint32") || line.starts_with("bytes");
        let mut found: Vec<_> = fields.into_iter().filter(is_reading).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        for kind in ReadingKind::ALL {
            let (min, max) = kind.quanta_range();
            let range = format!(", {min} to {max}. First differences.");
            assert!(schema.contains(&range), "{kind:?}: {range}");
        }
    }
}
