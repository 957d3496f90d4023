//! A proxy before a broker, which falls silent at a request of somebody's choice.
//!
//! Clients go on to the address that a broker says it has; in its answers the proxy's stands there
//! instead. A request and an answer each are a length and so many bytes, first of a request the
//! number of what is asked for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::servers::LIMIT;

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Produce = 0,
    Fetch = 1,
    EndTransaction = 26,
}

/// When it falls silent.
#[derive(Default)]
struct Fate {
    /// At which request of which kind.
    at: Mutex<Option<(Request, usize)>>,
    /// Nothing gets through any more.
    silent: AtomicBool,
    ended: AtomicBool,
}

impl Fate {
    /// Whether a request gets through.
    fn lets(&self, request: &[u8]) -> bool {
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
pub struct Between {
    pub address: String,
    fate: Arc<Fate>,
}

impl Between {
    pub fn before(broker: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fate = Arc::new(Fate::default());
        let address = format!("127.0.0.1:{port}");
        let swap = (said(broker), named("127.0.0.1", port.into()));
        assert_eq!(swap.0.len(), swap.1.len(), "an answer would change its length: {broker}");
        let (broker, of_all) = (broker.to_owned(), Arc::clone(&fate));
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_all.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (client, server) = (client.unwrap(), TcpStream::connect(&broker).unwrap());
                let (fate, swap) = (Arc::clone(&of_all), swap.clone());
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, to, |request| fate.lets(request)));
                let fate = Arc::clone(&of_all);
                thread::spawn(move || {
                    pass(server, client, |answer| {
                        replace(answer, &swap.0, &swap.1);
                        !fate.silent.load(Ordering::SeqCst)
                    });
                });
            }
        });
        Self { address, fate }
    }

    /// Falls silent at the so-manieth request of a kind, and stays so.
    pub fn fall_silent_at(&self, request: Request, nth: usize) {
        *self.fate.at.lock().unwrap() = Some((request, nth));
    }

    /// Whether it came to that.
    pub fn is_silent(&self) -> bool {
        self.fate.silent.load(Ordering::SeqCst)
    }

    /// Lets through what is asked from now on.
    pub fn heal(&self) {
        *self.fate.at.lock().unwrap() = None;
        self.fate.silent.store(false, Ordering::SeqCst);
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.fate.ended.store(true, Ordering::SeqCst);
        // It waits for somebody, who this is. It may have ended.
        drop(TcpStream::connect(&self.address));
    }
}

/// A host and a port as an answer has them, one behind the other.
fn named(host: &str, port: i32) -> Vec<u8> {
    [host.as_bytes(), &port.to_be_bytes()].concat()
}

/// The address that a broker says it has.
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

/// Passes on what comes, one after the other; what does not get through is gone.
fn pass(mut from: TcpStream, mut to: TcpStream, mut lets: impl FnMut(&mut [u8]) -> bool) {
    let mut next = || {
        let mut length = [0; 4];
        from.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut body).ok()?;
        Some((length, body))
    };
    while let Some((length, mut body)) = next() {
        if lets(&mut body) && to.write_all(&[&length[..], &body].concat()).is_err() {
            break;
        }
    }
    // One side is gone; so is the other, then.
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
