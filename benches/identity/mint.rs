//! Generators of ids, each as its authors describe it. Only the bench has these: tstar itself
//! generates no ids.
//!
//! - UUID versions 4 and 7: crate `uuid`; version 7 with its 42-bit counter within a millisecond
//! - ULID: crate `ulid`, the monotonic generator of the specification
//! - Snowflake: crate `ferroid`, 41 bits of ms since Twitter's epoch, 10 of worker, 12 of sequence
//! - kuuid: like npm's `kuuid` 3.0.1, `id()` and with `reverse`: 8 base62 characters of seconds,
//!   then 4 times 32 random bits in 6 characters each
//! - `ObjectId`: written here from `MongoDB`'s description: 4 bytes of seconds, 5 random bytes of
//!   the process, 3 of a counter from a random start. Crate `bson` has it, but needs a dozen others
//! - `ElasticFlake`: written here from Elasticsearch's `TimeBasedUUIDGenerator` before 6.0 (later
//!   named `LegacyTimeBasedUUIDGenerator`, and extracted as github.com/ppearcy/elasticflake): 6
//!   bytes of ms, 6 of a MAC address under a random mask, 3 of a sequence from a random start
//! - `CrateDB`: written here from the same class since 6.0, which orders the bytes differently for
//!   Lucene; `CrateDB` 5.10 has it for `_id` and `gen_random_text_uuid()`
//! - counters: a number from the database, or a batch of 1000

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use ferroid::generator::{BasicSnowflakeGenerator, Poll};
use ferroid::id::SnowflakeTwitterId;
use ferroid::time::{TWITTER_EPOCH, TimeSource};
use uuid::{ContextV7, Timestamp, Uuid};

use crate::schemes::Scheme;

/// Numbers per request to a counter.
pub const BATCH: i64 = 1000;

/// Number of counters of [`Scheme::Counters`].
pub const COUNTERS: u32 = 8;

/// Twitter's epoch, ms since 1970.
pub const SNOWFLAKE_EPOCH_MS: i64 = 1_288_834_974_657;

/// The numbers of 12 digits.
const DIGITS: std::ops::Range<i64> = 100_000_000_000..1_000_000_000_000;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The largest number of 8 digits of base 62.
const KUUID_MAX: u64 = 62_u64.pow(8) - 1;

/// A database that issues numbers.
pub trait Stock {
    /// Reserves `count` numbers of a counter, and returns the first.
    ///
    /// # Errors
    /// The database fails.
    fn next_numbers(&mut self, counter: u32, count: i64) -> anyhow::Result<i64>;

    /// Reserves this number; false if it is taken.
    ///
    /// # Errors
    /// The database fails.
    fn claim(&mut self, number: i64) -> anyhow::Result<bool>;

    /// Number of requests to the database.
    fn requests(&self) -> u64;
}

/// Mints ids.
pub trait Minter {
    /// Generates an id. `clock` returns the time, ms since 1970, and may advance from call to call.
    ///
    /// # Errors
    /// The database fails, or the clock.
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        stock: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>>;
}

impl Scheme {
    /// The generator of the process with number `worker`; `None` for a scheme that names trips by
    /// their state.
    pub fn minter(self, worker: u32) -> Option<Box<dyn Minter>> {
        Some(match self {
            Self::Uuid4 | Self::Uuid4Base64 => Box::new(Random),
            Self::Digits => Box::new(Digits),
            Self::Kuuid => Box::new(Kuuid { prefix: kuuid_prefix }),
            Self::KuuidReversed => Box::new(Kuuid { prefix: kuuid_prefix_reversed }),
            Self::ObjectId => Box::new(ObjectIds { process: rand::random(), next: rand::random() }),
            Self::Ulid => Box::new(Ulids(ulid::Generator::new())),
            Self::Uuid7 => Box::new(Sorted(ContextV7::new())),
            Self::Snowflake => Box::new(Snowflakes::new(worker)),
            Self::ElasticFlake => Box::new(Flakes::new(elasticsearch_5)),
            Self::CrateDb => Box::new(Flakes::new(elasticsearch_6)),
            Self::Counter => Box::new(Counted { counter: 0, stride: 1, batch: 1, left: 0..0 }),
            Self::Batches => Box::new(Counted { counter: 0, stride: 1, batch: BATCH, left: 0..0 }),
            Self::Counters => {
                let counter = worker % COUNTERS;
                Box::new(Counted { counter, stride: COUNTERS, batch: BATCH, left: 0..0 })
            }
            Self::TStar
            | Self::TStarUuid
            | Self::DeviceStart
            | Self::DeviceStartEnd
            | Self::DeviceOrdinal => return None,
        })
    }
}

/// UUID version 4.
struct Random;

impl Minter for Random {
    fn mint(&mut self, _: &mut dyn FnMut() -> i64, _: &mut dyn Stock) -> anyhow::Result<Vec<u8>> {
        Ok(Uuid::new_v4().into_bytes().to_vec())
    }
}

/// UUID version 7.
struct Sorted(ContextV7);

impl Minter for Sorted {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        let now = since_1970(clock())?;
        let time = Timestamp::from_unix(&self.0, now.as_secs(), now.subsec_nanos());
        Ok(Uuid::new_v7(time).into_bytes().to_vec())
    }
}

struct Ulids(ulid::Generator);

impl Minter for Ulids {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        let now = SystemTime::UNIX_EPOCH + since_1970(clock())?;
        let ulid = match self.0.generate_from_datetime(now) {
            Ok(ulid) => ulid,
            Err(overflow) => overflow.commit_overflow_increment(),
        };
        Ok(ulid.to_bytes().to_vec())
    }
}

/// A clock that is set explicitly.
#[derive(Clone)]
struct ManualClock(Rc<Cell<u64>>);

impl TimeSource<u64> for ManualClock {
    fn current_millis(&self) -> u64 {
        self.0.get()
    }
}

struct Snowflakes {
    clock_source: ManualClock,
    generator: BasicSnowflakeGenerator<SnowflakeTwitterId, ManualClock>,
}

impl Snowflakes {
    fn new(worker: u32) -> Self {
        let clock_source = ManualClock(Rc::new(Cell::new(0)));
        let machine = u64::from(worker) & SnowflakeTwitterId::max_machine_id();
        Self {
            clock_source: clock_source.clone(),
            generator: BasicSnowflakeGenerator::new(machine, clock_source),
        }
    }
}

impl Minter for Snowflakes {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        loop {
            let now = since_1970(clock())?.checked_sub(TWITTER_EPOCH);
            let now = now.context("Snowflake ids start in 2010")?;
            self.clock_source.0.set(u64::try_from(now.as_millis())?);
            // All 4096 ids of this millisecond are used, or the clock went back: wait.
            if let Poll::Ready { id } = self.generator.poll_id() {
                return Ok(id.to_raw().to_be_bytes().to_vec());
            }
        }
    }
}

struct Kuuid {
    prefix: fn(i64) -> String,
}

impl Minter for Kuuid {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        let mut id = (self.prefix)(clock());
        for _ in 0..4 {
            id += &base62::<6>(rand::random::<u32>().into());
        }
        Ok(id.into_bytes())
    }
}

/// The first 8 characters of a kuuid of this time.
pub fn kuuid_prefix(time_ms: i64) -> String {
    base62::<8>((time_ms / 1000).unsigned_abs())
}

/// The first 8 characters of a reversed kuuid, which sorts newest first.
pub fn kuuid_prefix_reversed(time_ms: i64) -> String {
    base62::<8>(KUUID_MAX - (time_ms / 1000).unsigned_abs())
}

/// The last `N` base62 digits of a number.
fn base62<const N: usize>(mut number: u64) -> String {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[usize::try_from(number % 62).expect("below 62")];
        number /= 62;
    }
    digits.map(char::from).iter().collect()
}

struct ObjectIds {
    process: [u8; 5],
    next: u32,
}

impl Minter for ObjectIds {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        let seconds = u32::try_from(clock() / 1000)?;
        let counter = self.next.to_be_bytes();
        self.next = self.next.wrapping_add(1);
        Ok([&seconds.to_be_bytes()[..], &self.process, &counter[1..]].concat())
    }
}

/// How Elasticsearch orders the bytes of time, MAC address and sequence.
type Layout = fn(time: [u8; 8], mac: [u8; 6], sequence: [u8; 4]) -> Vec<u8>;

struct Flakes {
    layout: Layout,
    mac: [u8; 6],
    sequence: u32,
    last_ms: i64,
}

impl Flakes {
    /// Uses random bytes as MAC address: Elasticsearch XORs the real one with random bytes.
    fn new(layout: Layout) -> Self {
        Self { layout, mac: rand::random(), sequence: rand::random(), last_ms: 0 }
    }
}

impl Minter for Flakes {
    fn mint(
        &mut self,
        clock: &mut dyn FnMut() -> i64,
        _: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        self.sequence = self.sequence.wrapping_add(1) & 0xff_ffff;
        self.last_ms = self.last_ms.max(clock()) + i64::from(self.sequence == 0);
        Ok((self.layout)(self.last_ms.to_be_bytes(), self.mac, self.sequence.to_be_bytes()))
    }
}

fn elasticsearch_5(time: [u8; 8], mac: [u8; 6], sequence: [u8; 4]) -> Vec<u8> {
    [&time[2..], &mac, &sequence[1..]].concat()
}

/// The layout of Elasticsearch since 6.0.
pub fn elasticsearch_6(time: [u8; 8], mac: [u8; 6], sequence: [u8; 4]) -> Vec<u8> {
    let [_, _, t5, t4, t3, t2, t1, t0] = time;
    let [_, s2, s1, s0] = sequence;
    [&[s0, s2, t2, t3, t4, t5][..], &mac, &[t1, s1, t0]].concat()
}

struct Digits;

impl Minter for Digits {
    fn mint(
        &mut self,
        _: &mut dyn FnMut() -> i64,
        stock: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        loop {
            let number = rand::random_range(DIGITS);
            if stock.claim(number)? {
                return Ok(number.to_be_bytes().to_vec());
            }
        }
    }
}

struct Counted {
    counter: u32,
    /// Difference between two ids of this counter.
    stride: u32,
    batch: i64,
    left: std::ops::Range<i64>,
}

impl Minter for Counted {
    fn mint(
        &mut self,
        _: &mut dyn FnMut() -> i64,
        stock: &mut dyn Stock,
    ) -> anyhow::Result<Vec<u8>> {
        if self.left.is_empty() {
            let first = stock.next_numbers(self.counter, self.batch)?;
            self.left = first..first + self.batch;
        }
        let number = self.left.next().context("a batch is not empty")?;
        Ok((number * i64::from(self.stride) + i64::from(self.counter)).to_be_bytes().to_vec())
    }
}

fn since_1970(time_ms: i64) -> anyhow::Result<Duration> {
    Ok(Duration::from_millis(u64::try_from(time_ms)?))
}

/// The system clock, ms since 1970.
///
/// # Errors
/// It is before 1970.
pub fn now_ms() -> anyhow::Result<i64> {
    Ok(i64::try_from(SystemTime::UNIX_EPOCH.elapsed()?.as_millis())?)
}

/// A database in the memory of one process.
#[derive(Debug, Default)]
pub struct MemoryStock {
    counters: [i64; COUNTERS as usize],
    taken: std::collections::HashSet<i64>,
    requests: u64,
}

impl Stock for MemoryStock {
    fn next_numbers(&mut self, counter: u32, count: i64) -> anyhow::Result<i64> {
        self.requests += 1;
        let next = &mut self.counters[counter as usize];
        *next += count;
        Ok(*next - count)
    }

    fn claim(&mut self, number: i64) -> anyhow::Result<bool> {
        self.requests += 1;
        Ok(self.taken.insert(number))
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}
