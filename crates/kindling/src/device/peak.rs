//! What an NVIDIA GPU reaches at most, from its properties.

use kindling_layers::Precision;
use kindling_ops::Peak;

/// What the driver says about a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties {
    /// Compute capability.
    pub(super) capability: (i32, i32),
    /// Streaming multiprocessors.
    pub(super) multiprocessors: i32,
    /// The highest clock of the multiprocessors.
    pub(super) clock_khz: i32,
    /// The highest clock of the memory, which moves data twice in each cycle.
    pub(super) memory_khz: i32,
    /// Width of the path to the memory.
    pub(super) bus_bits: i32,
}

impl Properties {
    /// Products without sparsity, and the memory's bandwidth; `None` for a compute capability that is not in the table.
    pub(super) fn peak(&self, precision: Precision) -> Option<Peak> {
        let cycles = f64::from(self.multiprocessors) * f64::from(self.clock_khz) * 1e3;
        let flops = 2.0 * f64::from(multiply_adds(self.capability, precision)?) * cycles;
        let bytes = 2.0 * f64::from(self.memory_khz) * 1e3 * f64::from(self.bus_bits) / 8.0;
        Some(Peak { flops, bytes })
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        let Self { capability: (major, minor), multiprocessors, clock_khz, memory_khz, bus_bits } = self;
        format!(
            "(from its properties: compute capability {major}.{minor}, {multiprocessors} multiprocessors at {} MHz, memory of {bus_bits} \
             bits at {} MHz)",
            clock_khz / 1000,
            memory_khz / 1000
        )
    }
}

/// Multiply-adds that a multiprocessor makes in a cycle, with sums in float32.
///
/// Without tensor cores, the table "Throughput of Native Arithmetic Instructions" in NVIDIA's CUDA C++ Programming Guide. With them,
/// NVIDIA's whitepapers on the architectures: Volta, Turing, A100, GA102, H100, Ada and RTX Blackwell. From 8.0 on, float32 products have
/// factors in TF32 (`docs/decisions/tf32-cannot-be-switched-off.md`). GeForce cards of 8.6, 8.9 and 12.0 make half as many as the
/// professional ones, which are meant here.
fn multiply_adds(capability: (i32, i32), precision: Precision) -> Option<u16> {
    let (single, half) = match capability {
        (5, 0 | 2 | 3) | (6, 1 | 2) => (128, 128),
        (6, 0) => (64, 64),
        // Tensor cores of f16 alone.
        (7, 0 | 2 | 5) => (64, if precision == Precision::F16 { 512 } else { 64 }),
        (8, 0) => (512, 1024),
        (8, 6 | 9) | (12, 0) => (256, 512),
        (9, 0) => (1024, 2048),
        _ => return None,
    };
    Some(if precision == Precision::F32 { single } else { half })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TFLOP/s and GB/s of NVIDIA's data sheets: V100 SXM2, A100 40 GB, H100 SXM5, at the clocks that their whitepapers name.
    #[test]
    fn peaks_are_those_of_data_sheets() {
        let gpu = |capability, multiprocessors, mhz: i32, memory_mhz: i32, bus_bits| {
            let (clock_khz, memory_khz) = (mhz * 1000, memory_mhz * 1000);
            Properties { capability, multiprocessors, clock_khz, memory_khz, bus_bits }
        };
        let v100 = gpu((7, 0), 80, 1530, 877, 4096);
        let a100 = gpu((8, 0), 108, 1410, 1215, 5120);
        let h100 = gpu((9, 0), 132, 1830, 2619, 5120);
        for (gpu, precision, teraflops, gigabytes) in [
            (v100, Precision::F32, 15.7, 900.0),
            (v100, Precision::F16, 125.0, 900.0),
            (a100, Precision::F32, 156.0, 1555.0),
            (a100, Precision::Bf16, 312.0, 1555.0),
            (h100, Precision::F32, 494.7, 3352.0),
            (h100, Precision::F16, 989.4, 3352.0),
        ] {
            let peak = gpu.peak(precision).expect("its compute capability is known");
            assert!((peak.flops / 1e12 / teraflops - 1.0).abs() < 0.01, "{gpu:?} in {precision}: {peak:?}");
            assert!((peak.bytes / 1e9 / gigabytes - 1.0).abs() < 0.01, "{gpu:?} in {precision}: {peak:?}");
        }
    }

    #[test]
    fn bf16_has_no_tensor_cores_before_8_0_and_what_is_unknown_is_not_guessed() {
        assert_eq!(multiply_adds((7, 5), Precision::Bf16), multiply_adds((7, 5), Precision::F32));
        assert_eq!(multiply_adds((99, 0), Precision::F32), None);
    }
}
