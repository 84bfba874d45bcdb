//! The items `cubecl-cuda` names, with the shapes it expects and nothing behind them.

use core::ffi::c_char;
use core::fmt;

use cubecl_core::ir::{DeviceProperties, nvidia::SmArch};
use cubecl_core::prelude::KernelDefinition;
use cubecl_environment::backtrace::BackTrace;
use cubecl_server::compiler::{CompilationError, Compiler};
use cubecl_server::kernel::BufferIOAttr;

/// A PTX version. It is part of the LLVM back end's cache keys only, so no driver is given one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PtxVersion(());

impl PtxVersion {
    /// Always `None`: NVRTC chooses the version it emits.
    pub fn for_driver(_driver: i32) -> Option<Self> {
        None
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ptx")
    }
}

/// The GPU family whose features [`restrict_features`] narrows.
#[derive(Clone, Copy, Debug)]
pub enum GpuTarget {
    /// NVIDIA.
    Nvptx,
}

/// Leaves `_properties` alone: the features the LLVM back end lacks are there through NVRTC.
pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}

/// What the compiler would compile for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA PTX.
    #[default]
    Nvptx,
}

/// An AMD architecture; there is none here.
#[derive(Clone, Copy, Debug)]
pub enum GfxArch {}

/// Compilation options, as `cubecl-cuda` fills them.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// AMD architecture.
    pub arch: Option<GfxArch>,
    /// NVIDIA architecture.
    pub sm_arch: Option<SmArch>,
    /// PTX version to emit.
    pub ptx_version: Option<PtxVersion>,
    /// Whether scalars travel in the kernel parameter block.
    pub grid_constants: bool,
    /// Stands for the options only other targets have, so that a struct update has something left to fill.
    pub other_targets: (),
}

/// A compiled PTX module; none is ever made.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// NUL-terminated PTX.
    pub ptx: Vec<c_char>,
    /// IR for logs and cache keys.
    pub ir: String,
    /// Shared memory a launch reserves, in bytes.
    pub shared_memory_size: usize,
    /// Buffer access modes in binding order.
    pub io: Vec<BufferIOAttr>,
}

/// A compiled kernel; none is ever made.
#[derive(Clone, Debug)]
pub enum PlironArtifact {
    /// PTX.
    NvptxCode(NvptxModule),
    /// Stands for the artifacts of other targets.
    OtherTargets,
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvptxCode(module) => f.write_str(&module.ir),
            Self::OtherTargets => Ok(()),
        }
    }
}

/// The compiler that is not there.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// What it would compile for.
    pub target: LlvmTarget,
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &Self::CompilationOptions,
    ) -> Result<Self::Representation, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this build has no LLVM back end; CUDA kernels go through NVRTC".to_string(),
            backtrace: BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}
