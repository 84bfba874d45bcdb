//! The size of the process in memory, as a limit of the system counts it.

/// Resident bytes of this process: tensors, memory that the allocator keeps, code and stacks. `None` if the system does not provide
/// the figure.
#[cfg(target_os = "linux")]
pub fn resident_bytes() -> Option<u64> {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::sync::OnceLock;

    /// `/proc/self/statm`, which counts pages, and the bytes of a page.
    static STATM: OnceLock<Option<(File, u64)>> = OnceLock::new();
    let open = || {
        // Pairs of numbers; `AT_PAGESZ` is 6.
        let auxiliary = fs::read("/proc/self/auxv").ok()?;
        let mut words = auxiliary.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        let page = std::iter::from_fn(|| words.next().zip(words.next())).find(|(kind, _)| *kind == 6)?.1;
        Some((File::open("/proc/self/statm").ok()?, page))
    };
    let (file, page) = STATM.get_or_init(open).as_ref()?;
    let mut text = [0; 128];
    let length = file.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    // Size, resident, shared and others.
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page)
}

/// Resident bytes of this process, which are known on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn resident_bytes() -> Option<u64> {
    None
}

/// The peak of [`resident_bytes`] since the process started, on Linux.
pub fn resident_peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes << 10)
}
