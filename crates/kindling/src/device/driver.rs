//! What the NVIDIA driver says about its GPUs before a run begins, and what its refusals mean.
//!
//! CubeCL unwraps the driver's answers while it starts, so that a user would read a panic. Here the same questions are
//! asked first. GPUs are counted as CUDA counts them: those of `CUDA_VISIBLE_DEVICES`, in CUDA's order.

use std::panic::catch_unwind;
use std::sync::Arc;

use cudarc::driver::sys::{CUdevice_attribute as Attribute, CUresult};
use cudarc::driver::{CudaContext, DriverError, result};
use data_encoding::HEXLOWER;

use super::install;
use super::peak::Properties;

/// The least compute capability that kernels are compiled for, whatever NVRTC offers.
const LEAST_CAPABILITY: (i32, i32) = (5, 0);

/// GPUs that the driver shows, or why it shows none.
pub(super) fn count() -> Result<usize, String> {
    if install::library(install::DRIVER).is_none() {
        return Err("no NVIDIA driver (libcuda.so.1) was found".to_string());
    }
    match asked(CudaContext::device_count) {
        Some(Ok(0)) => Err(why(CUresult::CUDA_ERROR_NO_DEVICE)),
        Some(Ok(gpus)) => Ok(usize::try_from(gpus).unwrap_or(0)),
        Some(Err(DriverError(code))) => Err(why(code)),
        None => Err("libcuda.so.1 is there, but it cannot be loaded or is no CUDA driver".to_string()),
    }
}

/// Why GPU `index` cannot be used, in a sentence. Opens it, as a run would.
pub(super) fn refusal(index: usize) -> Option<String> {
    let gpus = match count() {
        Err(reason) => return Some(reason),
        Ok(gpus) => gpus,
    };
    if index >= gpus {
        return Some(no_such_gpu(gpus, visible().as_deref()));
    }
    if let (Some(driver), Some(compiler)) = (driver_serves(), compiler_version())
        && driver < compiler
    {
        return Some(too_old(driver, compiler));
    }
    let context = match asked(|| CudaContext::new(index)) {
        Some(Ok(context)) => context,
        Some(Err(DriverError(code))) => return Some(why(code)),
        None => return Some("the driver lacks functions that every CUDA program calls: it is too old".to_string()),
    };
    let capability = context.compute_capability().ok()?;
    let least = least_compiled().map_or(LEAST_CAPABILITY, |least| least.max(LEAST_CAPABILITY));
    (capability < least).then(|| {
        let (has, needs) = (capability, least);
        format!(
            "its compute capability is {}.{}, and kernels are compiled for {}.{} and later",
            has.0, has.1, needs.0, needs.1
        )
    })
}

/// A GPU's identifier as `nvidia-smi -L` prints it, whatever number it has here.
pub(crate) fn uuid(index: usize) -> Option<String> {
    let uuid = asked(|| {
        result::init()?;
        result::device::get_uuid(result::device::get(index as i32)?)
    })?;
    let bytes = uuid.ok()?.bytes.map(|byte| byte as u8);
    let part = |range: std::ops::Range<usize>| HEXLOWER.encode(&bytes[range]);
    Some(format!("GPU-{}-{}-{}-{}-{}", part(0..4), part(4..6), part(6..8), part(8..10), part(10..16)))
}

/// Free and installed bytes of a GPU; free is what this process can still get, other processes and the context's own
/// memory taken off.
pub(crate) fn free_and_total(index: usize) -> Option<(u64, u64)> {
    let (free, total) = asked(|| CudaContext::new(index)?.mem_get_info())?.ok()?;
    Some((free as u64, total as u64))
}

/// What decides how much a GPU computes and moves; `None` if the driver does not tell, as some of virtual GPUs do not.
pub(super) fn properties(index: usize) -> Option<Properties> {
    let context = hold(index)?;
    let of = |attribute: Attribute| asked(|| context.attribute(attribute))?.ok().filter(|number| *number > 0);
    Some(Properties {
        capability: context.compute_capability().ok()?,
        multiprocessors: of(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        clock_khz: of(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_khz: of(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        bus_bits: of(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
    })
}

/// Keeps a GPU's context alive, which the questions here would otherwise make and destroy each time.
pub(super) fn hold(index: usize) -> Option<Arc<CudaContext>> {
    asked(|| CudaContext::new(index))?.ok()
}

/// The newest CUDA that the driver serves.
#[allow(unsafe_code)]
fn driver_serves() -> Option<(i32, i32)> {
    let mut version = 0;
    // SAFETY: the function writes one number to a place that outlives the call; it needs no context.
    asked(|| unsafe { cudarc::driver::sys::cuDriverGetVersion(&mut version) }.result())?.ok()?;
    Some((version / 1000, version % 1000 / 10))
}

/// The CUDA that NVRTC is of: a driver loads what it compiles only if it serves that CUDA.
#[allow(unsafe_code)]
fn compiler_version() -> Option<(i32, i32)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the function writes two numbers to places that outlive the call.
    asked(|| unsafe { cudarc::nvrtc::sys::nvrtcVersion(&mut major, &mut minor) }.result())?.ok()?;
    Some((major, minor))
}

/// The least compute capability that NVRTC compiles for.
#[allow(unsafe_code)]
fn least_compiled() -> Option<(i32, i32)> {
    let mut count = 0;
    // SAFETY: the function writes one number to a place that outlives the call.
    asked(|| unsafe { cudarc::nvrtc::sys::nvrtcGetNumSupportedArchs(&mut count) }.result())?.ok()?;
    let mut known = vec![0; usize::try_from(count).ok().filter(|count| (1..1000).contains(count))?];
    // SAFETY: the function writes as many numbers as the one above said, and there is room for that many.
    asked(|| unsafe { cudarc::nvrtc::sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result())?.ok()?;
    known.into_iter().min().map(|least| (least / 10, least % 10))
}

/// The answer to a question; `None` if the library or the function is not there, which `cudarc` says by panicking.
fn asked<T>(question: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(std::panic::AssertUnwindSafe(question)).ok()
}

fn visible() -> Option<String> {
    std::env::var("CUDA_VISIBLE_DEVICES").ok()
}

fn no_such_gpu(gpus: usize, visible: Option<&str>) -> String {
    let shown = match visible {
        Some(text) => format!("CUDA_VISIBLE_DEVICES={text} shows this process"),
        None => "the driver shows".to_string(),
    };
    match gpus {
        1 => format!("{shown} one GPU, cuda:0"),
        _ => format!("{shown} {gpus} GPUs, cuda:0 to cuda:{}", gpus - 1),
    }
}

fn too_old(driver: (i32, i32), compiler: (i32, i32)) -> String {
    format!(
        "the driver is too old: it serves CUDA {}.{} and cannot load what NVRTC {}.{} compiles (update the driver, or \
         `pip install 'nvidia-cuda-nvrtc-cu{}=={}.{}.*'`)",
        driver.0, driver.1, compiler.0, compiler.1, driver.0, driver.0, driver.1
    )
}

/// What a refusal means and what to do about it.
fn why(code: CUresult) -> String {
    use CUresult::*;
    match code {
        CUDA_ERROR_NO_DEVICE => match visible() {
            Some(text) => format!("CUDA_VISIBLE_DEVICES={text} shows this process no GPU"),
            None => "the NVIDIA driver is installed but finds no GPU: it is unplugged, switched off or not given to \
                     this machine or container"
                .to_string(),
        },
        CUDA_ERROR_DEVICE_UNAVAILABLE => "it is busy: its compute mode is exclusive and another process has it, or \
                                          prohibited (`nvidia-smi` shows both; --device cuda:N takes another)"
            .to_string(),
        CUDA_ERROR_OUT_OF_MEMORY => "other processes leave it no memory (`nvidia-smi` shows which)".to_string(),
        CUDA_ERROR_SYSTEM_DRIVER_MISMATCH | CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "the driver's library and its kernel module are of different versions: restart the machine, or the \
             container with the host's driver"
                .to_string()
        }
        CUDA_ERROR_SYSTEM_NOT_READY => "the services of its driver are not running (on servers with NVSwitch, \
                                        nvidia-fabricmanager)"
            .to_string(),
        CUDA_ERROR_STUB_LIBRARY => "the libcuda.so that was found is the toolkit's stub and no driver".to_string(),
        CUDA_ERROR_INVALID_DEVICE => "the driver does not know it".to_string(),
        other => format!("the NVIDIA driver answers {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_too_high_is_told_what_there_is() {
        assert_eq!(no_such_gpu(1, None), "the driver shows one GPU, cuda:0");
        assert_eq!(no_such_gpu(3, None), "the driver shows 3 GPUs, cuda:0 to cuda:2");
        let hidden = no_such_gpu(1, Some("2"));
        assert_eq!(hidden, "CUDA_VISIBLE_DEVICES=2 shows this process one GPU, cuda:0");
    }

    #[test]
    fn every_refusal_is_one_sentence() {
        use CUresult::*;
        for code in [
            CUDA_ERROR_NO_DEVICE,
            CUDA_ERROR_DEVICE_UNAVAILABLE,
            CUDA_ERROR_OUT_OF_MEMORY,
            CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
            CUDA_ERROR_SYSTEM_NOT_READY,
            CUDA_ERROR_STUB_LIBRARY,
            CUDA_ERROR_UNKNOWN,
        ] {
            let text = why(code);
            assert!(!text.contains('\n') && !text.contains("  ") && text.len() > 20, "{text}");
        }
        assert!(too_old((12, 4), (12, 8)).contains("nvidia-cuda-nvrtc-cu12==12.4.*"));
    }
}
