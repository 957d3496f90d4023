//! Puts the commit into `tstar --version`.
//!
//! The commit comes from `TSTAR_COMMIT` if a packager sets it, otherwise from git. Without either
//! it is `unknown`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TSTAR_COMMIT");
    for path in [".git/HEAD", ".git/logs/HEAD"] {
        if std::path::Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=src/build.rs");
    let commit = std::env::var("TSTAR_COMMIT").ok().or_else(from_git);
    println!("cargo::rustc-env=TSTAR_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
}

fn from_git() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| commit.trim().to_owned())
}
