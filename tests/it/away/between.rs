//! A proxy before a broker, which falls silent at a chosen request.
//!
//! Clients follow the address that a broker advertises; the proxy replaces it by its own in every
//! response. A request and a response each start with their length; a request continues with its
//! API key.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::servers::LIMIT;

/// API keys of Kafka's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Produce = 0,
    Fetch = 1,
}

/// When the proxy falls silent.
#[derive(Default)]
struct ProxyState {
    /// The kind of request, and how many of it are still let through.
    at: Mutex<Option<(Request, usize)>>,
    /// Nothing passes any more.
    silent: AtomicBool,
    ended: AtomicBool,
}

impl ProxyState {
    /// Whether a request passes.
    fn passes(&self, request: &[u8]) -> bool {
        let mut at = self.at.lock().unwrap();
        if let Some((kind, left)) = at.as_mut()
            && request.get(..2) == Some(&(*kind as i16).to_be_bytes())
        {
            *left -= 1;
            if *left == 0 {
                *at = None;
                self.silent.store(true, Ordering::SeqCst);
            }
        }
        !self.silent.load(Ordering::SeqCst)
    }
}

/// A proxy between clients and a broker.
pub struct KafkaProxy {
    pub address: String,
    state: Arc<ProxyState>,
}

impl KafkaProxy {
    pub fn start(broker: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(ProxyState::default());
        let address = format!("127.0.0.1:{port}");
        let swap = (said(broker), named("127.0.0.1", port.into()));
        assert_eq!(swap.0.len(), swap.1.len(), "an answer would change its length: {broker}");
        let (broker, of_all) = (broker.to_owned(), Arc::clone(&state));
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_all.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(&broker).unwrap());
                let (state, swap) = (Arc::clone(&of_all), swap.clone());
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, to, |request| state.passes(request)));
                let state = Arc::clone(&of_all);
                thread::spawn(move || {
                    pass(server, client, |answer| {
                        replace(answer, &swap.0, &swap.1);
                        !state.silent.load(Ordering::SeqCst)
                    });
                });
            }
        });
        Self { address, state }
    }

    /// Falls silent at the nth request of a kind, and stays silent.
    pub fn fall_silent_at(&self, request: Request, nth: usize) {
        *self.state.at.lock().unwrap() = Some((request, nth));
    }

    /// Whether the request came and silenced the proxy.
    pub fn is_silent(&self) -> bool {
        self.state.silent.load(Ordering::SeqCst)
    }

    /// Lets requests pass again.
    pub fn heal(&self) {
        *self.state.at.lock().unwrap() = None;
        self.state.silent.store(false, Ordering::SeqCst);
    }
}

impl Drop for KafkaProxy {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts connections. It may have ended.
        drop(TcpStream::connect(&self.address));
    }
}

/// A host and a port as a response encodes them.
fn named(host: &str, port: i32) -> Vec<u8> {
    [host.as_bytes(), &port.to_be_bytes()].concat()
}

/// The address that the broker advertises.
fn said(broker: &str) -> Vec<u8> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", broker).create().unwrap();
    let metadata = consumer.fetch_metadata(None, LIMIT).unwrap();
    let [one] = metadata.brokers() else { panic!("{} brokers", metadata.brokers().len()) };
    named(one.host(), one.port())
}

fn replace(answer: &mut [u8], old: &[u8], new: &[u8]) {
    for at in 0..answer.len().saturating_sub(old.len() - 1) {
        if answer[at..].starts_with(old) {
            answer[at..at + old.len()].copy_from_slice(new);
        }
    }
}

/// Forwards what arrives; drops what may not pass.
fn pass(mut from: TcpStream, mut to: TcpStream, mut passes: impl FnMut(&mut [u8]) -> bool) {
    let mut next = || {
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut body).ok()?;
        Some((length, body))
    };
    while let Some((length, mut body)) = next() {
        if passes(&mut body) && to.write_all(&[&length[..], &body].concat()).is_err() {
            break;
        }
    }
    // When one side closes, so does the other.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
