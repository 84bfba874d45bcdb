//! Interface-only stand-in for `cubecl-llvm` 0.11.3.
//!
//! `cubecl-cuda` compiles both of its back ends whatever its features say, and the LLVM one brings a build script
//! that downloads a compiler toolchain. Kindling sends its kernels through NVRTC (`cubecl-cuda`'s feature `cpp`),
//! so this crate offers just the items `cubecl-cuda` names and answers every compilation with an error. The README
//! beside this crate says when it can be dropped.

mod compiler;

pub use compiler::{GfxArch, LlvmTarget, NvptxModule, PlironArtifact, PlironCompiler, PlironOptions};

/// NVIDIA PTX.
pub mod nvptx {
    /// The PTX version a driver loads.
    pub mod ptx_version {
        pub use crate::compiler::PtxVersion;
    }
}

/// What every LLVM target shares.
pub mod shared {
    /// The hardware features the LLVM back end lowers.
    pub mod lowered_features {
        pub use crate::compiler::{GpuTarget, restrict_features};
    }
}
