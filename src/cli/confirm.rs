//! Confirmation on the terminal, before anything is erased or deleted.

use std::io::{self, IsTerminal, Write};

use crate::ops::{InvalidRequest, NoResult};

/// Whether there is a terminal to ask on.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal, and returns the line that is typed.
pub(crate) async fn prompt(question: &str) -> anyhow::Result<String> {
    let mut stderr = io::stderr();
    write!(stderr, "{question}")?;
    stderr.flush()?;
    // Sessions with servers stay alive meanwhile.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    Ok(answer.await??)
}

/// Asks whether trips may be erased. Without a terminal, a flag has to confirm.
///
/// # Errors
/// There is no terminal, or the answer does not confirm.
pub(crate) async fn erasure(what: &str, device: Option<&str>) -> anyhow::Result<()> {
    if !is_possible() {
        return Err(InvalidRequest(format!(
            "this erases {what}: this cannot be undone; pass --yes"
        ))
        .into());
    }
    let answers = device.map_or("`yes`".to_owned(), |device| format!("`{device}` or `yes`"));
    let answer = prompt(&format!("Erase {what}? This cannot be undone. Type {answers}: ")).await?;
    if !agrees(&answer, device) {
        return Err(NoResult("nothing was erased: the answer was no".into()).into());
    }
    Ok(())
}

/// Whether an answer is `yes`, or the device.
fn agrees(answer: &str, device: Option<&str>) -> bool {
    let answer = answer.trim_end_matches(['\n', '\r']);
    answer == "yes" || device == Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_or_the_device_agrees() {
        for (answer, device, expected) in [
            ("yes\n", None, true),
            ("yes\r\n", Some("truck-17"), true),
            ("truck-17\n", Some("truck-17"), true),
            ("truck-1\n", Some("truck-17"), false),
            ("truck-17\n", None, false),
            ("y\n", None, false),
            ("", None, false),
            ("", Some("truck-17"), false),
        ] {
            assert_eq!(agrees(answer, device), expected, "{answer:?} {device:?}");
        }
    }
}
