//! Servers end with the test that started them.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::process::{is_alive, jars};
use super::ready::{LIMIT, until};
use super::{Kind, skip};

/// `servers::up` in a process of its own, and its output until its servers were up.
pub struct Up {
    child: Child,
    said: Vec<String>,
    /// Kept open, so that later output does not fail.
    _stdout: BufReader<ChildStdout>,
}

impl Up {
    /// As a child of ours, or of a shell that holds its standard input as `tests/all` does.
    pub fn start(names: &str, in_shell: bool, env: &[(&str, &str)]) -> Self {
        let up = env::current_exe().unwrap();
        let mut command = Command::new(if in_shell { "bash".as_ref() } else { up.as_os_str() });
        if in_shell {
            let script = "coproc UP { exec \"$@\"; }; cat <&\"${UP[0]}\"";
            command.args(["-c", script, "bash"]).arg(&up);
        }
        command.args(["--exact", "servers::up", "--ignored", "--nocapture"]);
        for variable in ["TSTAR_TEST_KAFKA", "TSTAR_TEST_CQL"] {
            command.env_remove(variable);
        }
        command.env("TSTAR_TEST_HOLD", names).envs(env.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = Vec::new();
        while said.last().is_none_or(|line| line != "servers are up") {
            let mut line = String::new();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended: {said:?}");
            said.push(line.trim_end().to_owned());
        }
        Self { child, said, _stdout: stdout }
    }

    /// The words that follow a text in the output.
    pub fn after(&self, word: &str) -> Vec<String> {
        let found = self.said.iter().filter_map(|line| line.split_once(word));
        let word = |rest: &str| rest.split([' ', ',']).next().unwrap().to_owned();
        found.map(|(_, rest)| word(rest)).collect()
    }

    fn pids(&self, count: usize) -> Vec<u32> {
        let pids: Vec<_> = self.after("pid ").iter().map(|pid| pid.parse().unwrap()).collect();
        assert_eq!(pids.len(), count, "{:?}", self.said);
        assert!(pids.iter().all(|&pid| is_alive(pid)), "{:?}", self.said);
        pids
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// No container engine, so that `up` starts processes.
const ALONE: [(&str, &str); 1] = [("DOCKER_HOST", "unix:///nonexistent")];

#[track_caller]
fn are_gone(pids: &[u32]) {
    let have_ended = || (!pids.iter().any(|&pid| is_alive(pid))).then_some(());
    until("the end of the servers", LIMIT, have_ended, || None);
}

fn can_run_processes() -> bool {
    let fault = Kind::ALL.into_iter().find_map(|kind| jars(kind).err());
    fault.is_none_or(|why| skip::<()>(&why).is_some())
}

#[test]
fn servers_end_with_a_test_that_is_killed() {
    if !can_run_processes() {
        return;
    }
    let mut up = Up::start("kafka cql", false, &ALONE);
    let pids = up.pids(2);
    up.kill();
    are_gone(&pids);
}

#[test]
fn servers_end_with_a_run_of_all_tests_that_is_killed() {
    if !can_run_processes() {
        return;
    }
    let mut up = Up::start("kafka", true, &ALONE);
    let pids = up.pids(1);
    up.kill();
    are_gone(&pids);
}

#[test]
fn servers_end_when_their_standard_input_closes() {
    if !can_run_processes() {
        return;
    }
    let mut up = Up::start("kafka", false, &ALONE);
    let pids = up.pids(1);
    drop(up.child.stdin.take());
    let status = up.child.wait().unwrap();
    assert!(status.success(), "{status}");
    are_gone(&pids);
}
