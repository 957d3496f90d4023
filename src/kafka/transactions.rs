//! Records out, some at a time: all of them or none. Its calls block.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError as ClientError;
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::types::RDKafkaErrorCode;

use super::KafkaError;
use super::client::Brokers;
use super::producer::{ProducerRecord, headers};

/// A transaction whose process is gone is called off after this. Until then nobody reads past it.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a broker may take, where nobody says.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long to wait for room among what is on its way.
const ROOM: Duration = Duration::from_millis(20);

/// A record, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// The topic.
    pub topic: String,
    /// The partition; `None` leaves it to the key, as Java's clients place it.
    pub partition: Option<i32>,
    /// The record.
    pub record: ProducerRecord,
}

/// Hears what becomes of each record. What a transaction says of one that brokers refuse may be
/// what that did to the others: that their numbers have a gap.
#[derive(Default)]
struct Deliveries {
    is_one_too_large: AtomicBool,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, delivery: &DeliveryResult<'_>, (): ()) {
        let refused = delivery.as_ref().err().and_then(|(error, _)| error.rdkafka_error_code());
        if refused == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
            self.is_one_too_large.store(true, Ordering::Release);
        }
    }
}

/// Sends records in transactions. Of two with one name the later stops the earlier.
pub struct Transactions {
    client: ThreadedProducer<Deliveries>,
    brokers: Brokers,
    patience: Duration,
    name: String,
}

impl Transactions {
    /// Begins to send under a name: what an earlier one of it left undone is called off, or done,
    /// before this returns.
    ///
    /// # Errors
    /// No broker answers, or they refuse.
    pub fn init(brokers: &Brokers, name: &str) -> Result<Self, KafkaError> {
        let patience = brokers.limit(PATIENCE);
        let ms = |limit: Duration| limit.as_millis().to_string();
        let config = brokers.config(&[
            ("transactional.id", name),
            ("transaction.timeout.ms", &ms(LIMIT)),
            ("message.timeout.ms", &ms(patience.min(LIMIT))),
            ("enable.idempotence", "true"),
            ("acks", "all"),
            ("partitioner", "murmur2_random"),
            ("linger.ms", "5"),
            ("compression.type", "lz4"),
            ("allow.auto.create.topics", "false"),
        ]);
        let client = config.create_with_context(Deliveries::default());
        let client = client.map_err(|error| brokers.refused(&error))?;
        let (brokers, name) = (brokers.clone(), name.to_owned());
        let begun = Self { client, brokers, patience, name };
        begun.until("beginning transactions", || begun.client.init_transactions(patience))?;
        Ok(begun)
    }

    /// Sends records, all or none.
    ///
    /// # Errors
    /// Another one of this name has begun, a record is refused, or no broker answers. Then none of
    /// them is there, but where the last answer was lost.
    pub fn send(&mut self, records: &[TransactionRecord]) -> Result<(), KafkaError> {
        if records.is_empty() {
            return Ok(());
        }
        self.until("beginning a transaction", || self.client.begin_transaction())?;
        let sent = records.iter().try_for_each(|placed| self.queue(placed)).and_then(|()| {
            self.until("committing", || self.client.commit_transaction(self.patience))
        });
        let Err(error) = sent else { return Ok(()) };
        // Where this fails too, the brokers call it off when its time is up.
        self.client.abort_transaction(self.patience).ok();
        let heard = &self.client.context().is_one_too_large;
        match (heard.swap(false, Ordering::AcqRel), error) {
            (_, gone @ (KafkaError::Fenced { .. } | KafkaError::Unreachable { .. })) => Err(gone),
            (true, _) => {
                // To the brokers the numbers of what comes next would have a gap.
                *self = Self::init(&self.brokers, &self.name)?;
                let problem = RDKafkaErrorCode::MessageSizeTooLarge.to_string();
                Err(KafkaError::TooLarge { problem })
            }
            (false, error) => Err(error),
        }
    }

    fn queue(&self, placed: &TransactionRecord) -> Result<(), KafkaError> {
        let ProducerRecord { key, value, headers: of, timestamp_ms } = &placed.record;
        let until = Instant::now() + self.patience;
        loop {
            let mut record = BaseRecord::<[u8], [u8]>::to(&placed.topic).payload(value);
            record.key = key.as_deref();
            record.partition = placed.partition;
            record.timestamp = *timestamp_ms;
            record.headers = headers(of);
            match self.client.send(record) {
                Ok(()) => return Ok(()),
                Err((error, _))
                    if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull)
                        && Instant::now() < until =>
                {
                    self.client.poll(ROOM);
                }
                Err((error, _)) => return Err(self.failed("sending a record", error)),
            }
        }
    }

    /// Calls again for as long as the client says that this helps.
    fn until(
        &self,
        doing: &'static str,
        call: impl Fn() -> Result<(), ClientError>,
    ) -> Result<(), KafkaError> {
        let until = Instant::now() + self.patience;
        loop {
            match call() {
                Err(ClientError::Transaction(error))
                    if error.is_retriable() && Instant::now() < until => {}
                called => return called.map_err(|error| self.failed(doing, error)),
            }
        }
    }

    fn failed(&self, doing: &'static str, error: ClientError) -> KafkaError {
        use RDKafkaErrorCode as Code;
        let fatal = self.client.client().fatal_error().map(|(code, _)| code);
        match fatal.or(error.rdkafka_error_code()) {
            Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch) => {
                KafkaError::Fenced { name: self.name.clone() }
            }
            Some(Code::MessageSizeTooLarge) => KafkaError::TooLarge { problem: error.to_string() },
            _ => self.brokers.failed(doing, error),
        }
    }
}
