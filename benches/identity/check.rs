//! Checks the generators against ids published by their authors, before each run and as a test.

use anyhow::{Context as _, ensure};
use data_encoding::BASE64URL_NOPAD;
use ferroid::id::SnowflakeTwitterId;
use ulid::Ulid;
use uuid::Uuid;

use crate::mint::{
    MemoryStock, SNOWFLAKE_EPOCH_MS, elasticsearch_6, kuuid_prefix, kuuid_prefix_reversed,
};
use crate::schemes::Scheme;

/// Checks every layout against a published id.
///
/// # Errors
/// A layout differs.
pub fn generators() -> anyhow::Result<()> {
    // RFC 9562, A.6.
    let uuid = Uuid::parse_str("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")?;
    let (ours, text) = minted(Scheme::Uuid7, 1_645_557_742_000)?;
    ensure!(ours[..6] == uuid.as_bytes()[..6], "UUIDv7 time: {text}");
    ensure!(ours[6] >> 4 == 7 && ours[8] >> 6 == 2, "UUIDv7 version and variant: {text}");
    let (ours, text) = minted(Scheme::Uuid4, 0)?;
    ensure!(ours[6] >> 4 == 4 && ours[8] >> 6 == 2, "UUIDv4 version and variant: {text}");
    let (_, text) = minted(Scheme::Uuid4Base64, 0)?;
    ensure!(BASE64URL_NOPAD.decode(text.as_bytes())?.len() == 16, "UUIDv4 in base64url: {text}");
    // The example of github.com/ulid/javascript.
    let ulid = Ulid::from_string("01ARYZ6S41TSV4RRFFQ69G5FAV")?;
    let (ours, text) = minted(Scheme::Ulid, 1_469_918_176_385)?;
    ensure!(text[..10] == ulid.to_string()[..10] && text.len() == 26, "ULID time: {text}");
    ensure!(ours[..6] == ulid.to_bytes()[..6], "ULID bytes: {text}");
    // MongoDB's manual: the time of ObjectId("507f1f77bcf86cd799439011") is 2012-10-17T21:13:27Z.
    let (ours, text) = minted(Scheme::ObjectId, 1_350_508_407_000)?;
    ensure!(text.starts_with("507f1f77") && ours.len() == 12, "ObjectId: {text}");
    // Tweet 1541815603606036480: 2022-06-28T16:07:40.105Z, worker 378, the first of its ms.
    let (_, text) = minted_by(Scheme::Snowflake, 378, 1_656_432_460_105)?;
    ensure!(text == "1541815603606036480", "Snowflake: {text}");
    let tweet = SnowflakeTwitterId::from_raw(1_541_815_603_606_036_480);
    ensure!(tweet.timestamp() == (1_656_432_460_105 - SNOWFLAKE_EPOCH_MS).unsigned_abs());
    // kuuid's README: 001fgS7k4gJxqY1aXpni3gHuOy0WusLe, of July 2018; reversed 1970 is zzzzzzzz.
    ensure!(kuuid_prefix(1_532_080_496_000) == "001fgS7k", "kuuid time");
    ensure!(kuuid_prefix_reversed(0) == "zzzzzzzz", "reversed kuuid time");
    let (_, text) = minted(Scheme::Kuuid, 1_532_080_496_999)?;
    ensure!(text.starts_with("001fgS7k") && text.len() == 32, "kuuid: {text}");
    // A CrateDB `_id`, inserted at 1767095542595 by that server's now().
    let mac = [0x9c, 0x78, 0x8b, 0x20, 0x00, 0x7f];
    let id = elasticsearch_6(1_767_095_542_594_i64.to_be_bytes(), mac, 0xc5_2580_u32.to_be_bytes());
    ensure!(BASE64URL_NOPAD.encode(&id) == "gMUab5sBnHiLIAB_IyVC", "ElasticFlake since 6.0");
    let (ours, text) = minted(Scheme::ElasticFlake, 1_767_095_542_594)?;
    ensure!(ours[..6] == 1_767_095_542_594_i64.to_be_bytes()[2..], "ElasticFlake time: {text}");
    ensure!(ours.len() == 15 && text.len() == 20, "ElasticFlake: {text}");
    let (_, text) = minted(Scheme::Digits, 0)?;
    ensure!(text.len() == 12, "12 digits: {text}");
    Ok(())
}

fn minted(scheme: Scheme, time_ms: i64) -> anyhow::Result<(Vec<u8>, String)> {
    minted_by(scheme, 0, time_ms)
}

fn minted_by(scheme: Scheme, worker: u32, time_ms: i64) -> anyhow::Result<(Vec<u8>, String)> {
    let mut minter = scheme.minter(worker).context("the scheme mints ids")?;
    let id = scheme.minted(minter.mint(&mut || time_ms, &mut MemoryStock::default())?)?;
    Ok((id.bytes, id.text))
}

#[cfg(test)]
mod tests {
    #[test]
    fn generators_mint_the_published_ids() {
        super::generators().unwrap();
    }
}
