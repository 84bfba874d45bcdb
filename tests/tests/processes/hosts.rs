//! Two hosts: network namespaces of this machine, each with a name of its own, and a wire between them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kindling_tests::{Bench, Started, assert_same_bits, events, kindling, newest_step};

use crate::together::{EACH, EVERYTHING, open_mpi};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("two_hosts_end_with_the_bits_of_one_process", two_hosts_end_with_the_bits_of_one_process),
    (
        "a_cut_network_ends_all_within_the_timeout_and_nothing_is_lost",
        a_cut_network_ends_all_within_the_timeout_and_nothing_is_lost,
    ),
];

/// The hosts' addresses in a network that nothing leads out of.
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];

/// Two namespaces, which go away with this.
struct Hosts {
    names: [String; 2],
    bench: Bench,
    agent: PathBuf,
}

/// Whether this process may make network namespaces.
pub(crate) fn can_be_made() -> bool {
    let name = format!("kindling-try-{}", std::process::id());
    let made = ip(&["netns", "add", &name]);
    let _ = ip(&["netns", "del", &name]);
    made
}

fn ip(arguments: &[&str]) -> bool {
    let done = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

impl Hosts {
    fn new() -> Self {
        let id = std::process::id();
        let names = [format!("kindling-a-{id}"), format!("kindling-b-{id}")];
        let bench = Bench::new(EACH);
        let agent = bench.path("agent.sh");
        // What stands in for ssh.
        let text = format!(
            "#!/bin/sh\nhost=$1; shift\ncase $host in\n{}) ns={};;\n{}) ns={};;\n*) exit 9;;\nesac\n\
             exec ip netns exec \"$ns\" unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' \"$ns\" \"$*\"\n",
            ADDRESSES[0], names[0], ADDRESSES[1], names[1]
        );
        fs::write(&agent, text).expect("the test may write");
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("the test may change its file");
        let ends = [format!("ka{id}"), format!("kb{id}")];
        assert!(names.iter().all(|name| ip(&["netns", "add", name])));
        assert!(ip(&["link", "add", &ends[0], "type", "veth", "peer", "name", &ends[1]]));
        for ((name, end), address) in names.iter().zip(&ends).zip(ADDRESSES) {
            assert!(ip(&["link", "set", end, "netns", name, "name", "wire"]));
            assert!(ip(&["-n", name, "addr", "add", &format!("{address}/24"), "dev", "wire"]));
            assert!(["lo", "wire"].iter().all(|link| ip(&["-n", name, "link", "set", link, "up"])));
        }
        Self { names, bench, agent }
    }

    /// The run `name` in one process a host.
    fn command(&self, name: &str, flags: &str) -> Command {
        let train = self.bench.command(name, flags, "");
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.names[0],
            "unshare",
            "--uts",
            "sh",
            "-c",
            "hostname \"$0\"; exec \"$@\"",
            &self.names[0],
        ]);
        // mpirun does not notice that the network is gone.
        command.args(["timeout", "--kill-after=5", "90"]).arg(open_mpi().expect("checked before"));
        command
            .args(["--allow-run-as-root", "-n", "2", "--bind-to", "none", "--host"])
            .arg(ADDRESSES.map(|it| format!("{it}:1")).join(","));
        command.args(["--mca", "plm_rsh_agent"]).arg(&self.agent).args(["--mca", "btl", "tcp,self"]);
        for of in ["btl_tcp_if_include", "oob_tcp_if_include"] {
            command.args(["--mca", of, "10.77.0.0/24"]);
        }
        command.arg(train.get_program()).args(train.get_args()).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }
}

impl Hosts {
    /// Ends whatever is left on them.
    fn end_all(&self) {
        for name in &self.names {
            let script = "for id in $(ip netns pids \"$0\"); do kill -9 $id; done";
            let _ = Command::new("sh").args(["-c", script, name]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.end_all();
        self.names.iter().for_each(|name| {
            ip(&["netns", "del", name]);
        });
    }
}

fn two_hosts_end_with_the_bits_of_one_process() {
    let hosts = Hosts::new();
    let flags = format!("{EVERYTHING} --model mobilenet_v3_small");
    let straight = hosts.bench.run("straight", &flags, "");
    let output = hosts.command("run", &flags).output().expect("the launcher starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let run = hosts.bench.path("run");
    assert_same_bits(&straight, &run, "two hosts");
    let names: Vec<String> =
        events(&run).iter().filter_map(|event| event["together"]["slowest"].as_str().map(str::to_owned)).collect();
    assert!(names.iter().all(|name| hosts.names.iter().any(|host| name.ends_with(host.as_str()))), "{names:?}");
}

fn a_cut_network_ends_all_within_the_timeout_and_nothing_is_lost() {
    let hosts = Hosts::new();
    let flags = EVERYTHING.replacen("--epochs 2", "", 1);
    let flags = format!("{flags} --epochs 10000 --max-steps 100000 --model mobilenet_v3_small --rank-timeout 3s");
    let run = hosts.bench.path("run");
    let mut child = hosts
        .command("run", &flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the launcher starts");
    let began = Instant::now();
    while newest_step(&run) < 3 {
        assert!(
            child.try_wait().expect("a child can be asked").is_none() && began.elapsed() < Duration::from_secs(80),
            "no step ends"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(ip(&["-n", &hosts.names[1], "link", "set", "wire", "down"]));
    let cut = Instant::now();
    let works = || {
        let pids =
            |name: &String| Command::new("ip").args(["netns", "pids", name]).output().expect("ip is here").stdout;
        let of_kindling =
            |id: &str| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name.trim() == "kindling");
        hosts.names.iter().any(|name| String::from_utf8_lossy(&pids(name)).lines().any(of_kindling))
    };
    while works() {
        assert!(cut.elapsed() < Duration::from_secs(40), "processes still wait for each other");
        std::thread::sleep(Duration::from_millis(50));
    }
    // What is left is the launcher, which has not noticed.
    hosts.end_all();
    let said = child.wait_with_output().expect("a child can be waited for").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("no step has ended for") && said.contains("continue with: kindling train --resume"),
        "{said}"
    );
    assert!(newest_step(&run) >= 3);
    // It goes on from there, in one process.
    let mut resumed = kindling();
    resumed.args(["train", "--quiet", "--resume"]).arg(&run);
    let mut resumed = Started::new(resumed, &run);
    resumed.until_step(newest_step(&run) + 2);
    resumed.kill();
}
