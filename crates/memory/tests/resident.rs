//! The size of a process follows what it writes. A process of its own, because other tests beside it give pages back.
#![cfg(target_os = "linux")]

use kindling_memory::{resident_bytes, resident_peak_bytes};

#[test]
fn memory_that_is_written_to_becomes_resident_and_status_agrees() {
    const MORE: u64 = 64 << 20;
    let before = resident_bytes().expect("Linux tells");
    // Keep the compiler from removing the allocation.
    let written = std::hint::black_box(vec![1u8; MORE as usize]);
    let after = resident_bytes().expect("Linux tells");
    assert!(after >= before + MORE * 9 / 10, "{before} {after}");
    let told = status_bytes("VmRSS:");
    assert!(told.abs_diff(after) < MORE / 16, "{told} {after}");
    drop(std::hint::black_box(written));
    let peak = resident_peak_bytes().expect("Linux tells");
    assert!(peak.abs_diff(after) < MORE / 16, "{peak} {after}");
}

/// Bytes of a line of `/proc/self/status`.
fn status_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")).expect("a line");
    line.trim().parse::<u64>().expect("a number") * 1024
}
