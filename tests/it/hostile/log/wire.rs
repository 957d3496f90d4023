//! Sends records to a broker byte by byte as the protocol encodes them, also what no client would
//! send.

use std::io::{Read, Write};
use std::net::TcpStream;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A record as encoded in a batch.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Names are any bytes.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub timestamp_ms: i64,
}

/// The compression of a batch, as its attributes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    None = 0,
    Gzip = 1,
    Zstd = 4,
}

/// Bytes of a batch before its records.
const BATCH_HEAD: usize = 61;

impl Record {
    /// Size of a batch of this record only, bytes: what the topic's limit counts.
    pub fn batch_bytes(&self) -> usize {
        let mut bytes = Vec::new();
        put(&mut bytes, self, 0, self.timestamp_ms);
        BATCH_HEAD + bytes.len()
    }
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn bytes(out: &mut Vec<u8>, content: Option<&[u8]>) {
    varint(out, content.map_or(-1, |content| content.len() as i64));
    out.extend_from_slice(content.unwrap_or_default());
}

fn put(out: &mut Vec<u8>, record: &Record, nth: usize, base_ms: i64) {
    let mut body = vec![0];
    varint(&mut body, record.timestamp_ms.wrapping_sub(base_ms));
    varint(&mut body, nth as i64);
    bytes(&mut body, record.key.as_deref());
    bytes(&mut body, record.value.as_deref());
    varint(&mut body, record.headers.len() as i64);
    for (name, value) in &record.headers {
        bytes(&mut body, Some(name));
        bytes(&mut body, value.as_deref());
    }
    varint(out, body.len() as i64);
    out.append(&mut body);
}

/// CRC-32C, the checksum of a batch.
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut nth = 0;
        while nth < 256 {
            let (mut value, mut bit) = (nth as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ if value & 1 == 1 { 0x82f6_3b78 } else { 0 };
                bit += 1;
            }
            table[nth] = value;
            nth += 1;
        }
        table
    };
    let step = |crc: u32, byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(!0, step)
}

fn compressed(records: Vec<u8>, codec: Codec) -> Vec<u8> {
    match codec {
        Codec::None => records,
        Codec::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(&records).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => zstd::encode_all(&records[..], 3).unwrap(),
    }
}

fn batch(records: &[&Record], codec: Codec) -> Vec<u8> {
    let base_ms = records[0].timestamp_ms;
    let latest_ms = records.iter().map(|record| record.timestamp_ms).max().unwrap_or(base_ms);
    let mut content = Vec::new();
    for (nth, record) in records.iter().enumerate() {
        put(&mut content, record, nth, base_ms);
    }
    let count = i32::try_from(records.len()).unwrap();
    // From the attributes on, which the checksum covers.
    let mut tail = Vec::new();
    tail.extend_from_slice(&(codec as i16).to_be_bytes());
    tail.extend_from_slice(&(count - 1).to_be_bytes());
    tail.extend_from_slice(&base_ms.to_be_bytes());
    tail.extend_from_slice(&latest_ms.to_be_bytes());
    // No producer id, epoch, sequence.
    tail.extend_from_slice(&[0xff; 14]);
    tail.extend_from_slice(&count.to_be_bytes());
    tail.append(&mut compressed(content, codec));
    let mut batch = vec![0; 8];
    batch.extend_from_slice(&i32::try_from(tail.len() + 9).unwrap().to_be_bytes());
    // No leader epoch; the version of the format.
    batch.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 2]);
    batch.extend_from_slice(&crc32c(&tail).to_be_bytes());
    batch.append(&mut tail);
    batch
}

/// A connection to the only broker.
pub struct Wire {
    stream: TcpStream,
    topic: String,
}

impl Wire {
    pub fn to(address: &str, topic: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, topic: topic.to_owned() }
    }

    /// Sends records as one batch. Returns the offset of the first, or the error code.
    pub fn send(&mut self, partition: i32, records: &[&Record], codec: Codec) -> Result<i64, i16> {
        let batch = batch(records, codec);
        let topic = self.topic.as_bytes();
        // Produce, version 7; a correlation id; no client id.
        let mut body = vec![0, 0, 0, 7, 0, 0, 0, 1, 0xff, 0xff];
        // No transaction; acknowledged by all; 30 s; one topic of one partition.
        body.extend_from_slice(&[0xff, 0xff, 0xff, 0xff]);
        body.extend_from_slice(&30_000_i32.to_be_bytes());
        body.extend_from_slice(&1_i32.to_be_bytes());
        body.extend_from_slice(&i16::try_from(topic.len()).unwrap().to_be_bytes());
        body.extend_from_slice(topic);
        body.extend_from_slice(&1_i32.to_be_bytes());
        body.extend_from_slice(&partition.to_be_bytes());
        body.extend_from_slice(&i32::try_from(batch.len()).unwrap().to_be_bytes());
        body.extend_from_slice(&batch);
        self.stream.write_all(&i32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
        self.stream.write_all(&body).unwrap();
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.stream.read_exact(&mut answer).unwrap();
        // After the correlation id, the count, the topic, the count and the partition.
        let at = 4 + 4 + 2 + topic.len() + 4 + 4;
        let code = i16::from_be_bytes(answer[at..at + 2].try_into().unwrap());
        let offset = i64::from_be_bytes(answer[at + 2..at + 10].try_into().unwrap());
        if code == 0 { Ok(offset) } else { Err(code) }
    }
}

#[test]
fn a_checksum_is_that_of_rfc_3720() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}
