//! Describes the machine and the program of the figures.

/// Machine and load, then the version of the program, one line each.
///
/// # Errors
/// The number of cores is unknown.
pub fn describe(version: &str) -> anyhow::Result<String> {
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let model = model.trim_start_matches([' ', '\t', ':']);
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kib: u64 = memory.trim().trim_end_matches(" kB").parse().unwrap_or(0);
    let cores = std::thread::available_parallelism()?;
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or_default();
    Ok(format!(
        "machine: {model}, {cores} cores, {} GiB; load {load} at the start\nprogram: {version}{}",
        kib >> 20,
        changes()
    ))
}

/// Notes that the work tree differs from the commit.
fn changes() -> &'static str {
    let mut git = std::process::Command::new("git");
    git.args(["status", "--porcelain", "--untracked-files=no"]);
    match git.current_dir(env!("CARGO_MANIFEST_DIR")).output() {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => ", with changes",
        _ => "",
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
