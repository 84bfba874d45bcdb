//! The files a CUDA run needs, and where they lie: the driver, the kernel compiler NVRTC, and the headers that kernels
//! include.

use std::path::{Path, PathBuf};

/// The kernel driver's library.
pub(super) const DRIVER: &str = "libcuda.so";
const NVRTC: &str = "libnvrtc.so";

/// Folders the loader looks in: distributions, containers with a mounted driver, WSL, NixOS.
const SYSTEM: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/lib/wsl/lib",
    "/run/opengl-driver/lib",
];

/// The headers that kernels include, directly or through another, and the package of PyPI that brings each. A toolkit has
/// all of them; put together from packages, one is easily forgotten, and only the kernels that need it fail to compile.
const HEADERS: [(&str, &str); 7] = [
    ("cuda_runtime.h", "nvidia-cuda-runtime-cu12"),
    ("cuda_fp16.h", "nvidia-cuda-runtime-cu12"),
    ("cuda_bf16.h", "nvidia-cuda-runtime-cu12"),
    ("mma.h", "nvidia-cuda-runtime-cu12"),
    ("crt/mma.h", "nvidia-cuda-nvcc-cu12"),
    ("cuda/barrier", "nvidia-cuda-cccl-cu12"),
    ("nv/target", "nvidia-cuda-cccl-cu12"),
];

/// Where NVRTC lies.
pub(super) fn nvrtc() -> Option<PathBuf> {
    library(NVRTC)
}

/// The folder above `include/`, where CubeCL looks for the headers.
pub(super) fn headers() -> Option<PathBuf> {
    toolkits().into_iter().find(|folder| folder.join("include").join(HEADERS[0].0).exists())
}

/// What is missing of NVRTC and the headers, in a sentence.
pub(super) fn missing() -> Option<String> {
    if nvrtc().is_none() {
        return Some(format!(
            "the kernel compiler {NVRTC} was not found (install the CUDA toolkit, or `pip install \
             nvidia-cuda-nvrtc-cu12` and put its lib folder on LD_LIBRARY_PATH)"
        ));
    }
    let Some(toolkit) = headers() else {
        return Some("the CUDA headers were not found (set CUDA_PATH to a folder with include/)".to_string());
    };
    incomplete(&toolkit)
}

/// The headers that are not there, with the packages that bring them.
fn incomplete(toolkit: &Path) -> Option<String> {
    let include = toolkit.join("include");
    // Since CUDA 13 a toolkit has some of them one folder further down, where CubeCL looks as well.
    let there = |name: &str| include.join(name).exists() || include.join("cccl").join(name).exists();
    let absent: Vec<(&str, &str)> = HEADERS.into_iter().filter(|(name, _)| !there(name)).collect();
    if absent.is_empty() {
        return None;
    }
    let names: Vec<&str> = absent.iter().map(|(name, _)| *name).collect();
    let mut packages: Vec<&str> = absent.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Some(format!(
        "the CUDA headers in {} are incomplete: {} {} missing, without which kernels do not compile (`pip install {}` \
         and copy its include folder there; NVRTC does not follow symbolic links)",
        include.display(),
        names.join(", "),
        if names.len() == 1 { "is" } else { "are" },
        packages.join(" ")
    ))
}

/// Where a shared library lies whose name begins so: on `LD_LIBRARY_PATH`, in the toolkit, in the folders of
/// systems and containers, and last where the loader's cache says.
pub(super) fn library(name: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("LD_LIBRARY_PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    folders.extend(toolkits().into_iter().map(|folder| folder.join("lib64")));
    folders.extend(SYSTEM.map(PathBuf::from));
    let inside = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).ok()?;
        entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(name)).map(|entry| entry.path())
    };
    folders.into_iter().find_map(inside).or_else(|| {
        let cache = std::process::Command::new("ldconfig").arg("-p").output().ok()?;
        let lines = String::from_utf8_lossy(&cache.stdout).into_owned();
        let line = lines.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split_once("=> ").map(|(_, path)| PathBuf::from(path))
    })
}

/// Folders a toolkit may be in, in the order CubeCL looks.
fn toolkits() -> Vec<PathBuf> {
    match std::env::var_os("CUDA_PATH") {
        Some(path) => vec![PathBuf::from(path)],
        None => ["/usr/local/cuda", "/opt/cuda", "/usr"].map(PathBuf::from).to_vec(),
    }
}
