//! Limits per client.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use super::sessions::SessionKey;
use super::token::TokenKey;

/// Address of the other end of a connection: the client, or a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub IpAddr);

impl Peer {
    /// The address that limits apply to: an IPv4 address, or the /64 network of an IPv6 host.
    #[must_use]
    pub(crate) fn network(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(address) => {
                let prefix = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(prefix))
            }
            v4 => v4,
        }
    }

    /// The limit of this client: `given`; if that is 0, an eighth of `all`, and `all` for this
    /// machine, as a proxy on it may serve many clients.
    #[must_use]
    pub(crate) fn limit(self, given: usize, all: usize) -> usize {
        match given {
            0 if self.0.to_canonical().is_loopback() => all,
            0 => (all / 8).max(1),
            given => given,
        }
    }
}

/// Whose requests are limited together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// A login.
    Session(SessionKey),
    /// A token, wherever it is used, with its logins.
    Token(TokenKey),
    /// An address without a login, or an IPv6 network.
    Network(IpAddr),
}

/// What each client holds now, by client.
#[derive(Debug)]
pub(crate) struct PerClient<K>(Arc<Mutex<HashMap<K, usize>>>);

impl<K> Default for PerClient<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

fn lock<K>(counts: &Mutex<HashMap<K, usize>>) -> MutexGuard<'_, HashMap<K, usize>> {
    counts.lock().expect("no holder of the lock panics")
}

impl<K: Clone + Eq + Hash> PerClient<K> {
    /// Acquires a slot for a client, unless it already holds `max`.
    pub(crate) fn acquire(&self, client: K, max: usize) -> Option<ClientSlot<K>> {
        self.acquire_many(client, 1, max)
    }

    /// Acquires a slot of some weight, unless the client then holds more than `max`. One that holds
    /// nothing gets a slot of any weight.
    pub(crate) fn acquire_many(
        &self,
        client: K,
        weight: usize,
        max: usize,
    ) -> Option<ClientSlot<K>> {
        let mut counts = lock(&self.0);
        let held = counts.entry(client.clone()).or_default();
        if *held > 0 && held.saturating_add(weight) > max {
            return None;
        }
        *held += weight;
        Some(ClientSlot { counts: Arc::clone(&self.0), client, weight })
    }
}

/// A slot of a client, released on drop.
#[derive(Debug)]
pub(crate) struct ClientSlot<K: Eq + Hash> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    client: K,
    weight: usize,
}

impl<K: Eq + Hash> Drop for ClientSlot<K> {
    fn drop(&mut self) {
        let mut counts = lock(&self.counts);
        if let Some(held) = counts.get_mut(&self.client) {
            *held -= self.weight;
            if *held == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer(text.parse().unwrap())
    }

    #[test]
    fn each_client_has_its_own_limit() {
        let counts = PerClient::default();
        let first = [counts.acquire("a", 2), counts.acquire("a", 2)];
        assert!(first.iter().all(Option::is_some));
        assert!(counts.acquire("a", 2).is_none());
        let other = counts.acquire("b", 2);
        assert!(other.is_some());
        drop(first);
        assert!(counts.acquire("a", 2).is_some());
        drop(other);
        assert!(lock(&counts.0).is_empty(), "no client is left");
    }

    #[test]
    fn a_client_that_holds_nothing_gets_one_slot_of_any_weight() {
        let counts = PerClient::default();
        let large = counts.acquire_many("a", 50, 8).unwrap();
        assert!(counts.acquire_many("a", 1, 8).is_none());
        let small = counts.acquire_many("b", 5, 8).unwrap();
        assert!(counts.acquire_many("b", 4, 8).is_none());
        let more = counts.acquire_many("b", 3, 8).unwrap();
        drop((large, small, more));
        assert!(lock(&counts.0).is_empty(), "no client is left");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        assert_eq!(peer("2001:db8:0:7::1").network(), peer("2001:db8:0:7:a:b:c:d").network());
        assert_ne!(peer("2001:db8:0:7::1").network(), peer("2001:db8:0:8::1").network());
        assert_eq!(peer("::ffff:192.0.2.7").network(), peer("192.0.2.7").network());
        assert_ne!(peer("192.0.2.8").network(), peer("192.0.2.7").network());
    }

    #[test]
    fn a_proxy_on_this_machine_gets_the_whole_limit() {
        for (address, given, max) in [
            ("192.0.2.7", 0, 256),
            ("127.0.0.1", 0, 2048),
            ("::1", 0, 2048),
            ("::ffff:127.0.0.1", 0, 2048),
            ("127.0.0.1", 9, 9),
            ("192.0.2.7", 9, 9),
        ] {
            assert_eq!(peer(address).limit(given, 2048), max, "{address}");
        }
        assert_eq!(peer("192.0.2.7").limit(0, 3), 1);
    }
}
