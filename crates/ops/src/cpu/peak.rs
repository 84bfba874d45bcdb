//! What the processor reaches at most, measured: products of matrices in its caches, and copies in its memory.
//!
//! All threads of the pool work at the same time, each on data of its own, as they do in a step. The best of several windows counts,
//! since whatever else runs only takes away.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::DType;
use half::bf16;

use super::factors::multiplies_as_stored;
use super::gemm::{Matrix, Mode, Threads, multiply};
use super::gemm_bf16::Left;
use crate::reserve;

/// The most that a device computes and moves in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// Operations of products, a multiply-add being two.
    pub flops: f64,
    /// Bytes read from memory and bytes written to it, together.
    pub bytes: f64,
}

/// Times that something is measured.
const WINDOWS: usize = 20;
/// How long each time takes at least: so short that some windows are free of what else runs, and so long that threads begin together.
const WINDOW: Duration = Duration::from_millis(25);
/// Side of the matrices of a product. Three of float32 take 768 KiB, which lie in the second-level cache of a core or near it.
const SIDE: usize = 256;
/// The least and the most memory that is copied from and to, all threads together.
const COPIED_BYTES: (usize, usize) = (128 << 20, 1 << 30);

/// Measures the peak of this processor with the threads of the pool, in about a second.
///
/// Products are those that convolutions of maps of this format are made of: of bf16 where the processor multiplies it
/// ([`super::multiplies_bf16`]), otherwise of float32, which maps of a half format are computed in as well. A byte that is copied counts twice, read and
/// written; a cache line that is read only because it is about to be overwritten does not count.
///
/// # Errors
/// What the keeper of the memory limit says, if there is no room for the copies.
pub fn measured_peak(format: DType) -> Result<Peak, String> {
    let flops = match multiplies_as_stored(format) {
        true => best(halves, product_of_halves),
        false => best(|| [vec![0.5f32; SIDE * SIDE], vec![0.25; SIDE * SIDE], vec![0.0; SIDE * SIDE]], product),
    };
    let together = copied_bytes();
    reserve::ask(together)?;
    // Numbers other than zero: pages of zeros that nobody has written are one and the same in memory.
    let elements = together / rayon::current_num_threads() / 2 / size_of::<f32>();
    let bytes = best(|| [vec![1.0f32; elements], vec![2.0; elements]], copy);
    Ok(Peak { flops, bytes })
}

/// Well above the last-level cache.
fn copied_bytes() -> usize {
    let cache = gemm_common::cache::CACHE_INFO[2].cache_bytes;
    cache.saturating_mul(4).clamp(COPIED_BYTES.0, COPIED_BYTES.1)
}

/// Operations of a product, a multiply-add being two.
const OPERATIONS: f64 = (2 * SIDE * SIDE * SIDE) as f64;

/// Factors of bf16 and room for their product: filters, which are packed once for a whole map, and a piece of the map.
fn halves() -> (Left, Vec<bf16>, Vec<f32>) {
    let filters = Left::new(Matrix::of(&vec![0.5f32; SIDE * SIDE], SIDE, SIDE));
    (filters, vec![bf16::from_f32(0.25); SIDE * SIDE], vec![0.0; SIDE * SIDE])
}

/// Multiplies them, and returns how many operations that took.
fn product_of_halves((filters, piece, target): &mut (Left, Vec<bf16>, Vec<f32>)) -> f64 {
    filters.multiply(target, SIDE, Mode::Replace, Matrix::of(piece, SIDE, SIDE), Threads::One);
    black_box(target);
    OPERATIONS
}

/// Multiplies two matrices, and returns how many operations that took.
fn product([left, right, target]: &mut [Vec<f32>; 3]) -> f64 {
    let [left, right] = [&*left, &*right].map(|values| Matrix::of(values, SIDE, SIDE));
    multiply(target, SIDE, Mode::Replace, left, right, Threads::One);
    black_box(target);
    OPERATIONS
}

/// Copies numbers, and returns how many bytes that read and wrote.
fn copy([source, target]: &mut [Vec<f32>; 2]) -> f64 {
    target.copy_from_slice(source);
    black_box(target);
    (2 * size_of_val(source.as_slice())) as f64
}

/// How much work all threads of the pool do together in a second, in the best window. `work` returns how much it has done; each thread
/// has its own of what `make` makes.
fn best<T: Send>(make: impl Fn() -> T + Sync, work: impl Fn(&mut T) -> f64 + Sync) -> f64 {
    let states: Vec<Mutex<T>> = rayon::broadcast(|_| Mutex::new(make()));
    let window = |_: usize| -> f64 {
        let rates = rayon::broadcast(|thread| {
            let mut state = states[thread.index()].lock().unwrap_or_else(PoisonError::into_inner);
            rate(|| work(&mut state))
        });
        rates.into_iter().sum()
    };
    (0..WINDOWS).map(window).fold(0.0, f64::max)
}

/// How much work a thread does in a second.
fn rate(mut work: impl FnMut() -> f64) -> f64 {
    let (mut done, began) = (0.0, Instant::now());
    loop {
        done += work();
        let time = began.elapsed();
        if time >= WINDOW {
            return done / time.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The work of a product and of a copy, counted by hand, and that both are done.
    #[test]
    fn work_is_done_and_counted() {
        let mut factors = [vec![0.5; SIDE * SIDE], vec![0.25; SIDE * SIDE], vec![0.0; SIDE * SIDE]];
        assert_eq!(product(&mut factors), 33_554_432.0, "2 x 256 x 256 x 256");
        assert!(factors[2].iter().all(|sum| *sum == 32.0), "256 x 0.5 x 0.25");
        if multiplies_as_stored(DType::BF16) {
            let mut factors = halves();
            assert_eq!(product_of_halves(&mut factors), 33_554_432.0);
            assert!(factors.2.iter().all(|sum| *sum == 32.0), "the same of bf16");
        }
        let mut buffers = [vec![1.0; 1000], vec![2.0; 1000]];
        assert_eq!(copy(&mut buffers), 8000.0, "1000 numbers of 4 bytes, read and written");
        assert!(buffers[1].iter().all(|copied| *copied == 1.0));
    }

    #[test]
    fn every_thread_works_on_its_own_and_their_rates_are_added() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("a thread pool");
        let made = Mutex::new(Vec::new());
        let sleep = |thread: &mut usize| {
            made.lock().expect("a list").push(*thread);
            std::thread::sleep(WINDOW);
            1.0
        };
        let total = pool.install(|| best(|| rayon::current_thread_index().expect("a thread of the pool"), sleep));
        let mut threads = made.into_inner().expect("a list");
        threads.sort_unstable();
        assert_eq!(threads, [[0; WINDOWS], [1; WINDOWS], [2; WINDOWS]].concat());
        // A sleep takes as long as it is asked to, or longer.
        assert!(total > 0.0 && total <= 3.0 / WINDOW.as_secs_f64(), "{total}");
    }
}
