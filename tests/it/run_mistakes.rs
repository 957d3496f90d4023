//! What a terminal shows of a wait for servers.

use std::net::TcpListener;

use crate::cli::Folder;
use crate::servers::free_port;
use crate::terminal::OnTerminal;

/// Starts a server that takes connections and answers none. Returns its address.
fn mute_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().collect::<Vec<_>>());
    address
}

#[test]
fn a_terminal_shows_what_is_waited_for_and_then_a_table() {
    let folder = Folder::new();
    let (closed, mute) = (format!("127.0.0.1:{}", free_port()), mute_server());
    for (words, wait) in [
        (
            format!("--brokers {closed} --store sqlite:t.db --from earliest"),
            format!("tstar: waiting for the Kafka brokers `{closed}`"),
        ),
        (
            format!("--brokers {closed} --store scylla://{mute}/fleet"),
            format!("tstar: waiting for the CQL nodes of `scylla://{mute}/fleet`"),
        ),
    ] {
        let words = format!("run {words} --listen off");
        let mut terminal = OnTerminal::start(&folder, &words);
        let before = terminal.until_shows(&wait);
        assert_eq!(before, [""; 0], "nothing else until then");
        terminal.interrupt();
        let shown = terminal.ends(0);
        let delivered = shown.iter().any(|line| line.ends_with("samples delivered  0"));
        assert!(delivered && shown.iter().all(|line| !line.starts_with('{')), "{shown:#?}");
    }
}
