//! The tightest of the memory limits that the system sets for this process.
//!
//! These are the installed memory, every control group from the process's own up to the root (version 2, and the memory controller
//! of version 1), the memory that a Slurm job requested, and the limits of the process itself (`ulimit -v`, `ulimit -d`). A limit that
//! cannot be read is ignored.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// A limit of this process, and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemLimit {
    /// The most memory that the process may use.
    pub bytes: u64,
    /// Origin of the limit.
    pub rule: Rule,
}

/// The origin of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The installed memory.
    Installed,
    /// A control group, by the file with the limit.
    ControlGroup(PathBuf),
    /// A variable that Slurm sets for its jobs.
    Slurm(&'static str),
    /// The address space of the process: `ulimit -v`.
    AddressSpace,
    /// The data segment of the process: `ulimit -d`.
    Data,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Installed => f.write_str("installed memory"),
            Self::ControlGroup(file) => write!(f, "control group {}", file.display()),
            Self::Slurm(variable) => f.write_str(variable),
            Self::AddressSpace => f.write_str("ulimit -v (address space)"),
            Self::Data => f.write_str("ulimit -d (data)"),
        }
    }
}

/// The tightest limit of this process; `None` if no limit can be read.
pub fn tightest_limit() -> Option<SystemLimit> {
    all(Path::new("/"), &|name| std::env::var(name).ok()).into_iter().min_by_key(|limit| limit.bytes)
}

/// Whether allocations of this process can fail, as they do under a limit of its address space or data.
pub(crate) fn allocations_may_fail() -> bool {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    of_process(&text).next().is_some()
}

/// All limits. `root` is the root of the file system, and `variable` reads the environment.
fn all(root: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Vec<SystemLimit> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let mut found: Vec<SystemLimit> = installed(&read("proc/meminfo")).into_iter().collect();
    found.extend(control_groups(root, &read("proc/self/cgroup"), &read("proc/self/mountinfo")));
    found.extend(slurm(variable));
    found.extend(of_process(&read("proc/self/limits")));
    found
}

fn installed(meminfo: &str) -> Option<SystemLimit> {
    let kilobytes = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"))?;
    let bytes = kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    Some(SystemLimit { bytes, rule: Rule::Installed })
}

/// A hierarchy of control groups.
struct Hierarchy<'a> {
    mount: PathBuf,
    /// The group that the mount shows as its root.
    shown: &'a str,
    /// Names of the files with limits in the folder of each group.
    files: &'static [&'static str],
}

/// The limits of the process's groups and of all above them. `groups` is `/proc/self/cgroup`, `mounts`
/// `/proc/self/mountinfo`.
fn control_groups(root: &Path, groups: &str, mounts: &str) -> Vec<SystemLimit> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|controller| controller == "memory") {
            continue;
        }
        for hierarchy in mounts.lines().filter_map(|line| hierarchy(line, second)) {
            // A group that is not below the mount (it is in another namespace) counts as its root.
            let inside = Path::new(group).strip_prefix(hierarchy.shown).unwrap_or(Path::new(""));
            for folder in inside.ancestors().map(|path| hierarchy.mount.join(path)) {
                for file in hierarchy.files.iter().map(|name| folder.join(name)) {
                    let seen = root.join(file.strip_prefix("/").unwrap_or(&file));
                    let bytes = fs::read_to_string(seen).ok().and_then(|text| text.trim().parse().ok());
                    let limit = bytes.filter(|bytes| *bytes < UNLIMITED);
                    found.extend(limit.map(|bytes| SystemLimit { bytes, rule: Rule::ControlGroup(file) }));
                }
            }
        }
    }
    found
}

/// Version 1 writes "no limit" as the largest number of whole pages.
const UNLIMITED: u64 = 1 << 60;

/// The hierarchy that a line of `/proc/self/mountinfo` mounts, if it has memory limits of this version:
/// `36 35 0:30 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory`.
fn hierarchy(line: &str, second: bool) -> Option<Hierarchy<'_>> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (shown, place) = (mount.next()?, mount.next()?);
    let mut kind = kind.split(' ');
    let fits = match (kind.next()?, second) {
        ("cgroup2", true) => true,
        ("cgroup", false) => kind.nth(1)?.split(',').any(|option| option == "memory"),
        _ => false,
    };
    let files: &[&str] = if second { &["memory.max", "memory.high"] } else { &["memory.limit_in_bytes"] };
    fits.then(|| Hierarchy { mount: PathBuf::from(place.replace("\\040", " ")), shown, files })
}

/// The memory of a job, which Slurm gives in megabytes for a node or for each of the job's processors. 0 means no limit.
fn slurm(variable: &dyn Fn(&str) -> Option<String>) -> Vec<SystemLimit> {
    let number = |name| variable(name)?.trim().parse::<u64>().ok().filter(|number| *number > 0);
    let of_node = number("SLURM_MEM_PER_NODE").map(|megabytes| (Some(megabytes), "SLURM_MEM_PER_NODE"));
    let of_processors = number("SLURM_MEM_PER_CPU").map(|megabytes| {
        let processors = number("SLURM_CPUS_ON_NODE").or_else(|| number("SLURM_CPUS_PER_TASK")).unwrap_or(1);
        (megabytes.checked_mul(processors), "SLURM_MEM_PER_CPU")
    });
    let limit = |(megabytes, name): (Option<u64>, _)| {
        Some(SystemLimit { bytes: megabytes?.checked_mul(1 << 20)?, rule: Rule::Slurm(name) })
    };
    of_node.into_iter().chain(of_processors).filter_map(limit).collect()
}

/// The limits in `/proc/self/limits`, whose columns are name, soft limit, hard limit and unit.
fn of_process(limits: &str) -> impl Iterator<Item = SystemLimit> {
    let named =
        |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    let address_space = named("Max address space").map(|bytes| SystemLimit { bytes, rule: Rule::AddressSpace });
    let data = named("Max data size").map(|bytes| SystemLimit { bytes, rule: Rule::Data });
    address_space.into_iter().chain(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits in a file system with these files, tightest first.
    fn limits(name: &str, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Vec<(u64, String)> {
        let root = std::env::temp_dir().join(format!("kindling-limits-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        let variable = |name: &str| variables.iter().find(|known| known.0 == name).map(|known| known.1.to_string());
        let mut found = all(&root, &variable);
        found.sort_by_key(|limit| limit.bytes);
        let _ = fs::remove_dir_all(&root);
        found.into_iter().map(|limit| (limit.bytes, limit.rule.to_string())).collect()
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal:        2000 kB\nMemFree:  1 kB\n");
    const SECOND: (&str, &str) =
        ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");

    #[test]
    fn without_groups_the_installed_memory_is_the_limit() {
        assert_eq!(limits("none", &[MEMORY], &[]), [(2_048_000, "installed memory".to_string())]);
    }

    #[test]
    fn a_nested_group_of_version_2_and_all_above_it_are_read() {
        let files = [
            MEMORY,
            SECOND,
            ("proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
            ("sys/fs/cgroup/slurm/job_7/memory.max", "700000\n"),
            ("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job_7/step_0/memory.high", "900000\n"),
        ];
        let expected = [
            (700_000, "control group /sys/fs/cgroup/slurm/job_7/memory.max"),
            (900_000, "control group /sys/fs/cgroup/slurm/job_7/step_0/memory.high"),
            (2_048_000, "installed memory"),
        ];
        assert_eq!(limits("v2", &files, &[]), expected.map(|(bytes, rule)| (bytes, rule.to_string())));
    }

    #[test]
    fn a_group_of_version_1_is_read_where_its_controller_is_mounted() {
        let mounts = "36 35 0:30 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
                      37 35 0:31 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
        let files = [
            MEMORY,
            ("proc/self/mountinfo", mounts),
            ("proc/self/cgroup", "4:cpu,cpuacct:/jobs\n9:memory:/jobs/a\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes", "700000\n"),
            ("sys/fs/cgroup/cpu/jobs/memory.limit_in_bytes", "1\n"),
        ];
        let tightest = limits("v1", &files, &[]).swap_remove(0);
        assert_eq!(tightest, (700_000, "control group /sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes".to_string()));
    }

    #[test]
    fn a_group_that_is_shown_as_the_root_of_its_mount_is_found_there() {
        let files = [
            MEMORY,
            ("proc/self/mountinfo", "36 35 0:30 /docker/a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            ("proc/self/cgroup", "9:memory:/docker/a/inner\n"),
            ("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "600000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n"),
        ];
        let found = limits("docker", &files, &[]);
        assert_eq!(found.iter().map(|limit| limit.0).collect::<Vec<_>>(), [600_000, 700_000, 2_048_000]);
    }

    #[test]
    fn what_slurm_grants_is_a_limit() {
        let of = |name: &str, variables: &[(&str, &str)]| {
            limits(name, &[("proc/meminfo", "MemTotal: 9999999 kB")], variables).swap_remove(0)
        };
        assert_eq!(of("node", &[("SLURM_MEM_PER_NODE", "512")]), (512 << 20, "SLURM_MEM_PER_NODE".to_string()));
        let by_processors = [("SLURM_MEM_PER_CPU", "100"), ("SLURM_CPUS_ON_NODE", "4"), ("SLURM_CPUS_PER_TASK", "2")];
        assert_eq!(of("cpus", &by_processors), (400 << 20, "SLURM_MEM_PER_CPU".to_string()));
        for nothing in ["0", "", "many", "18446744073709551615"] {
            assert_eq!(of("nothing", &[("SLURM_MEM_PER_NODE", nothing)]).1, "installed memory", "{nothing}");
        }
    }

    #[test]
    fn limits_of_the_process_are_read_where_there_are_any() {
        let limits_file = "Limit                     Soft Limit           Hard Limit           Units     \n\
                           Max cpu time              unlimited            unlimited            seconds   \n\
                           Max data size             900000               unlimited            bytes     \n\
                           Max address space         800000               unlimited            bytes     \n";
        let found = limits("process", &[MEMORY, ("proc/self/limits", limits_file)], &[]);
        let expected =
            [(800_000, "ulimit -v (address space)"), (900_000, "ulimit -d (data)"), (2_048_000, "installed memory")];
        assert_eq!(found, expected.map(|(bytes, rule)| (bytes, rule.to_string())));
    }

    #[test]
    fn this_machine_has_a_limit() {
        let limit = tightest_limit().expect("Linux tells the memory that is installed");
        assert!(limit.bytes > 64 << 20, "{limit:?}");
    }
}
