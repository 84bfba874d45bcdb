//! What a run was measured on. No figure without it.

use std::fs;

use serde::{Deserialize, Serialize};

/// What only the caller knows about the device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// The device in words, e.g. `cpu` or `NVIDIA H200`.
    pub device: String,
    /// Memory of the device in bytes, if it has its own.
    pub device_memory_bytes: Option<u64>,
    /// Version of the device's driver.
    pub driver: Option<String>,
    /// Version of CUDA.
    pub cuda: Option<String>,
}

/// `environment.json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// When these facts were collected, in local time with offset (RFC 3339).
    pub time: String,
    /// Kindling's version.
    pub kindling: String,
    /// The commit it was built from. Read from `KINDLING_COMMIT` at build time; the command may fill it in, for it is
    /// the only crate that can be rebuilt at every commit without rebuilding others.
    pub commit: Option<String>,
    /// Burn's version.
    pub burn: String,
    /// Version of the Rust compiler that built Kindling.
    pub rustc: Option<String>,
    /// Operating system, with its kernel where known.
    pub os: String,
    /// Processor architecture.
    pub architecture: String,
    /// Processor model.
    pub cpu: Option<String>,
    /// Threads this process may use.
    pub threads: Option<usize>,
    /// Main memory in bytes; in a container with a limit, the limit.
    pub memory_bytes: Option<u64>,
    /// The device and its software.
    #[serde(flatten)]
    pub device: DeviceFacts,
    /// The command line, program name first.
    pub command: Vec<String>,
}

impl Environment {
    /// Looks around. Never fails: what cannot be found out is `None`.
    pub fn collect(burn: &str, device: DeviceFacts) -> Self {
        Self {
            time: now(),
            kindling: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("KINDLING_COMMIT").map(Into::into),
            burn: burn.into(),
            rustc: option_env!("KINDLING_RUSTC").map(Into::into),
            os: os(),
            architecture: std::env::consts::ARCH.into(),
            cpu: read("/proc/cpuinfo").and_then(|text| value(&text, "model name", ':')),
            threads: std::thread::available_parallelism().ok().map(Into::into),
            memory_bytes: memory_bytes(),
            device,
            command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// Local time with its offset, to the second.
pub(crate) fn now() -> String {
    jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

fn os() -> String {
    let name = read("/etc/os-release").and_then(|text| value(&text, "PRETTY_NAME", '='));
    let kernel = read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
    match (name, kernel) {
        (Some(name), Some(kernel)) => format!("{name} (kernel {kernel})"),
        (Some(name), None) => name,
        (None, Some(kernel)) => format!("{} {kernel}", std::env::consts::OS),
        (None, None) => std::env::consts::OS.into(),
    }
}

fn memory_bytes() -> Option<u64> {
    let installed = read("/proc/meminfo").and_then(|text| {
        let kilobytes = value(&text, "MemTotal", ':')?;
        kilobytes.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    });
    // Without a limit the file says `max`, which is no number.
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    [installed, limit].into_iter().flatten().min()
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The value after `key` in lines such as `key: value` and `KEY="value"`.
fn value(text: &str, key: &str, separator: char) -> Option<String> {
    let found = text.lines().find_map(|line| {
        let (name, value) = line.split_once(separator)?;
        (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
    })?;
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_collected_and_survives_the_file() {
        let facts = DeviceFacts { device: "cpu".into(), ..DeviceFacts::default() };
        let environment = Environment::collect("0.22.1", facts);
        assert_eq!(environment.kindling, env!("CARGO_PKG_VERSION"));
        assert!(!environment.os.is_empty() && !environment.command.is_empty());
        let text = serde_json::to_string(&environment).unwrap();
        assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
        assert!(text.contains(r#""device":"cpu""#), "{text}");
    }

    #[test]
    fn values_are_found_in_system_files() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\n";
        assert_eq!(value(cpuinfo, "model name", ':').as_deref(), Some("Some CPU @ 2.0 GHz"));
        assert_eq!(value("PRETTY_NAME=\"A B\"\n", "PRETTY_NAME", '=').as_deref(), Some("A B"));
        assert_eq!(value("nothing here", "model name", ':'), None);
    }
}
