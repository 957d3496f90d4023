//! The `tstar` program. The environment is read here and nowhere else.

use std::process::ExitCode;

use tstar::cli;

fn main() -> ExitCode {
    cli::exit::on_panic();
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    let env = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let user = ["USER", "LOGNAME"].into_iter().find_map(std::env::var_os).map(text);
    let user = user.filter(|name| !name.is_empty());
    cli::main(env.filter(|(name, _)| name.starts_with("TSTAR_")).collect(), user)
}
