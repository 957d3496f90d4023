//! Commands on a terminal, by `script` of util-linux.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::cli::Folder;

/// What a terminal sends for Ctrl-C.
const INTERRUPT: &[u8] = b"\x03";

/// A running command on a terminal that is as wide as its longest line. Killed when dropped.
pub struct OnTerminal {
    child: Child,
    keys: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl OnTerminal {
    pub fn start(folder: &Folder, words: &str) -> Self {
        let command = folder.command(words);
        let program = command.get_program().to_str().unwrap();
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--flush", "--command"]);
        script.arg(format!("exec {program} {words}")).arg("/dev/null");
        script.current_dir(folder.dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => script.env(name, value),
                None => script.env_remove(name),
            };
        }
        let mut child = script.spawn().expect("`script` of util-linux");
        let keys = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, keys, lines }
    }

    /// Its next line; `None` at its end.
    pub fn next(&mut self) -> Option<String> {
        Some(self.lines.next()?.unwrap().trim_end().to_owned())
    }

    /// Reads until a line contains this; returns the lines before it.
    #[track_caller]
    pub fn until_shows(&mut self, words: &str) -> Vec<String> {
        let mut before = Vec::new();
        while let Some(line) = self.next() {
            if line.contains(words) {
                return before;
            }
            before.push(line);
        }
        panic!("it ended without `{words}`: {before:#?}");
    }

    /// Presses Ctrl-C.
    pub fn interrupt(&mut self) {
        self.keys.write_all(INTERRUPT).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for its end, and returns the rest of its lines.
    #[track_caller]
    pub fn ends(mut self, code: i32) -> Vec<String> {
        let rest: Vec<_> = std::iter::from_fn(|| self.next()).collect();
        assert_eq!(self.child.wait().unwrap().code(), Some(code), "{rest:#?}");
        rest
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended. The command gets a hangup.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
