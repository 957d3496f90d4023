//! Re-encodes a sample as a record, for a log whose rules differ from those that decoded the
//! sample.

use serde_json::Value;

use super::context::RecordContext;
use super::decode::Decoder;
use super::fields::Field;
use super::{DecodedSample, NoSample};
use crate::model::time::format_time;
use crate::timeline::ReadingKind;

impl Decoder {
    /// Re-encodes a sample as a JSON object that this decoder decodes to the same sample, in a
    /// record with this context. The spans of `decoded` point into `text`.
    ///
    /// # Errors
    /// Why there is no such object, for example two different fields that are mapped to one name.
    pub(crate) fn restate(
        &self,
        (decoded, text): (&DecodedSample, &str),
        context: &RecordContext<'_>,
    ) -> Result<String, String> {
        if self.is_binary() {
            return Err("its records are not JSON, and samples are re-encoded as JSON alone".into());
        }
        let record = self.shape.write(self.values(decoded, text))?;
        let mut new_text = String::new();
        match self.decode((None, record.as_bytes()), context, &mut new_text) {
            Ok(read) if is_same((decoded, text), (&read, &new_text)) => Ok(record),
            Ok(_) => Err(format!("`{record}` decodes to a different sample")),
            Err(NoSample::Dead(error)) => Err(error.message),
            Err(_) => Err("a condition of the map (when or valid) is not met".into()),
        }
    }

    /// Whether this decoder decodes a record to the given sample.
    pub fn finds(
        &self,
        (record, context): (&[u8], &RecordContext<'_>),
        (decoded, text): (&DecodedSample, &str),
    ) -> bool {
        if self.needs_whole_records() {
            return false;
        }
        let mut new_text = String::new();
        let read = self.decode((None, record), context, &mut new_text);
        read.is_ok_and(|read| is_same((decoded, text), (&read, &new_text)))
    }

    /// The fields with their values, in the units of this decoder.
    fn values(&self, decoded: &DecodedSample, text: &str) -> Vec<(Field, Value)> {
        let at = |span: &super::Span| &text[span.start as usize..span.end as usize];
        let sample = &decoded.sample;
        let readings = Field::READINGS.into_iter().zip(sample.readings());
        let readings = readings.map(|((field, kind), reading)| {
            let si_per_unit = match kind {
                ReadingKind::Speed => self.shape.speed_unit.metres_per_second(1.0),
                _ => 1.0,
            };
            let per_unit = f64::from(kind.per_unit()) * si_per_unit;
            (field, reading.get().map(|quanta| Value::from(f64::from(quanta) / per_unit)))
        });
        let others = [
            (Field::Driver, decoded.driver.as_ref().map(|driver| at(driver).into())),
            (Field::Ignition, sample.ignition.map(Value::from)),
        ];
        let required = [
            (Field::DeviceId, at(&decoded.device).into()),
            (Field::Time, format_time(sample.time_ms.ms()).into()),
            (Field::Lat, sample.lat().into()),
            (Field::Lon, sample.lon().into()),
        ];
        let present = readings.chain(others).filter_map(|(field, value)| Some((field, value?)));
        required.into_iter().chain(present).collect()
    }
}

fn is_same((a, a_text): (&DecodedSample, &str), (b, b_text): (&DecodedSample, &str)) -> bool {
    let word =
        |span: &super::Span, text: &str| text[span.start as usize..span.end as usize].to_owned();
    let driver =
        |decoded: &DecodedSample, text| decoded.driver.as_ref().map(|span| word(span, text));
    a.sample == b.sample
        && word(&a.device, a_text) == word(&b.device, b_text)
        && driver(a, a_text) == driver(b, b_text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
    use crate::source::parse_map;

    fn decoder(map: &str, speed_unit: SpeedUnit) -> Decoder {
        let fields = if map.is_empty() { Default::default() } else { parse_map(map).unwrap() };
        let time_unit = TimeUnit::Seconds;
        Decoder::new(&Rules { fields, speed_unit, time_unit, ..Rules::default() }).unwrap()
    }

    fn reencoded(record: &str, from: &str, to: &str) -> Result<String, String> {
        let mut text = "before".to_owned();
        let plain = decoder(from, SpeedUnit::MetresPerSecond);
        let context = RecordContext::default();
        let decoded = plain.decode((None, record.as_bytes()), &context, &mut text).unwrap();
        let context = RecordContext { key: Some(b"a"), ..RecordContext::default() };
        decoder(to, SpeedUnit::KilometresPerHour).restate((&decoded, &text), &context)
    }

    #[test]
    fn a_sample_is_reencoded_with_the_names_and_units_of_another_decoder() {
        let record =
            r#"{"id":"a","when":1795210680,"y":1.5,"x":-2,"speed":10,"driver":"d","ignition":0}"#;
        let from = "device_id=id,time=when,lat=y,lon=x";
        assert_eq!(
            reencoded(record, from, "lat=/gps/lat,lon=/gps/0,driver=/a~1b").unwrap(),
            r#"{"a/b":"d","device_id":"a","gps":{"0":-2.0,"lat":1.5},"ignition":false,"speed":36.0,"time":"2026-11-20T21:38:00.000Z"}"#
        );
    }

    #[test]
    fn conflicting_fields_are_not_reencoded() {
        let record = r#"{"device":"a","time":1795210680,"lat":1.5,"lon":-2,"driver":"d"}"#;
        for (to, why) in [
            ("driver=device_id", "`device_id` would need two values"),
            ("lat=/gps,lon=/gps/lon", "`/gps/lon` would need two values"),
        ] {
            assert_eq!(reencoded(record, "", to).unwrap_err(), why);
        }
        assert!(reencoded(record, "", "driver=device").is_ok());
    }

    #[test]
    fn a_map_with_sources_outside_of_the_record_is_checked() {
        let record = r#"{"device":"a","time":1795210680,"lat":1.5,"lon":-2}"#;
        let written = r#""lat":1.5,"lon":-2.0,"time":"2026-11-20T21:38:00.000Z"}"#;
        for to in ["device_id=@key", "device_id==a", "device_id=@key|id"] {
            assert_eq!(reencoded(record, "", to).unwrap(), format!("{{{written}"), "{to}");
        }
        let with = |member: &str| format!("{{{member},{written}");
        for (to, member) in [
            ("device_id=id|@key", r#""id":"a""#.to_owned()),
            ("device_id==a,when=_type=x;y", r#""_type":"x""#.to_owned()),
            ("device_id==a,when=/fix,valid=ok", r#""fix":true"#.to_owned()),
        ] {
            let read = reencoded(record, "", to).unwrap();
            let value: Value = serde_json::from_str(&read).unwrap();
            let expected: Value = serde_json::from_str(&with(&member)).unwrap();
            assert_eq!(value, expected, "{to}");
        }
        for (to, why) in [
            ("device_id==b", "decodes to a different sample"),
            ("device_id=@key/1", "no part 1 of the record's key"),
            ("device_id=@header:D", "no header `D`"),
            ("samples=/s", "the map reads several samples from one record (samples=/s)"),
            ("open=/p,lat=/p/lat", "JSON inside a text (open=/p)"),
            ("lat=/d/[k=v]/lat", "the map reads lat from a list"),
            ("when=@topic=x", "a condition of the map"),
            ("when=lat=7", "a condition of the map"),
        ] {
            let error = reencoded(record, "", to).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_sample_is_reencoded_in_every_unit(
            lat in -90.0..=90.0f64,
            lon in -180.0..=180.0f64,
            speed in proptest::option::of(0.0..999.9f64),
            heading in proptest::option::of(0.0..=360.0f64),
            altitude in proptest::option::of(-12e3..=1e5f64),
            time in 0..4_102_444_800_000i64,
        ) {
            let optional = |name: &str, value: Option<f64>| {
                value.map_or_else(String::new, |value| format!(r#","{name}":{value}"#))
            };
            let record = format!(
                r#"{{"device":"ü\"","time":"{}","lat":{lat},"lon":{lon}{}{}{}}}"#,
                format_time(time),
                optional("speed", speed),
                optional("heading", heading),
                optional("altitude", altitude),
            );
            let mut text = String::new();
            let plain = decoder("", SpeedUnit::MetresPerSecond);
            let context = RecordContext::default();
        let decoded = plain.decode((None, record.as_bytes()), &context, &mut text).unwrap();
            for unit in [
                SpeedUnit::MetresPerSecond,
                SpeedUnit::KilometresPerHour,
                SpeedUnit::MilesPerHour,
                SpeedUnit::Knots,
            ] {
                // `restate` itself checks that the sample is the same.
                let context = RecordContext::default();
                decoder("lat=/a/b", unit).restate((&decoded, &text), &context).unwrap();
            }
        }
    }
}
