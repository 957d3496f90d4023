use rdkafka::client::DefaultClientContext;
use rdkafka::config::{ClientConfig, FromClientConfig};

use super::*;

fn client<T: FromClientConfig>() -> T {
    let mut config = ClientConfig::new();
    // Nothing listens there.
    config.set("bootstrap.servers", "127.0.0.1:1").set("security.protocol", "sasl_plaintext");
    config.set("sasl.mechanism", "OAUTHBEARER").create().unwrap()
}

fn token(token: &str) -> OAuthToken {
    OAuthToken {
        token: token.into(),
        principal: "ann".into(),
        expires_ms: i64::MAX / 1000,
        extensions: vec![],
    }
}

#[test]
fn clients_of_each_kind_get_new_tokens_until_they_are_dropped() {
    let logins = Logins::default();
    let consumer = logins.add(client::<BaseConsumer>()).unwrap();
    logins.set(token("second")).unwrap();
    let admin = logins.add(client::<AdminClient<DefaultClientContext>>()).unwrap();
    let producer = logins.add(client::<FutureProducer>()).unwrap();
    logins.set(token("third")).unwrap();
    assert_eq!(logins.lock().clients.len(), 3);
    drop((consumer, admin));
    logins.set(token("fourth")).unwrap();
    assert_eq!(logins.lock().clients.len(), 1);
    drop(producer);
    assert_eq!(logins.lock().clients, []);
}

#[test]
fn what_librdkafka_does_not_accept_is_reported_without_the_secret() {
    let logins = Logins::default();
    let consumer = logins.add(client::<BaseConsumer>()).unwrap();
    let expired = OAuthToken { expires_ms: 1, ..token("hunter2") };
    for refused in [expired.clone(), token("hunter2\0")] {
        let problem = logins.set(refused).unwrap_err();
        assert!(!problem.0.is_empty() && !problem.0.contains("hunter2"), "{problem}");
    }
    assert!(!format!("{expired:?} {logins:?}").contains("hunter2"));
    drop(consumer);
}

#[test]
fn a_record_consumer_keeps_its_client() {
    let consumer: LoggedIn<BaseConsumer> = client::<BaseConsumer>().into();
    let native = consumer.client().native_ptr();
    let records = crate::RecordConsumer::new(consumer);
    assert_eq!(records.consumer().client().native_ptr(), native);
}
