//! Filters that are packed once, for inference.
//!
//! Between two optimizer steps filters are constant, and packing them takes some hundredths of the time of a batch: more in a network of
//! large filters, and as many times over as there are parts of a batch that are inferred beside each other
//! ([`crate::inferred_apart`]). So whoever infers many images opens the cache, and filters that were packed for one call serve the next.
//!
//! A packed form belongs to the allocation of the tensor that it was made of, which is remembered by a weak reference: as long as that
//! exists, no other allocation has its address. Burn changes a tensor in place only where nothing else refers to it; with a weak
//! reference it moves the numbers to a new allocation first (`Arc::make_mut`), so the form of what has been changed is not found again.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use burn_flex::FlexTensor;

use super::real::Real;
use super::tensors::Values;

/// While one exists, filters that convolutions on the CPU pack for products of bf16 are kept for all calls, in half the memory of the
/// filters. They are dropped when the last cache closes.
#[derive(Debug)]
#[must_use = "the cache closes where this is dropped"]
pub struct FilterCache(());

impl FilterCache {
    /// Opens the cache of the process, or keeps it open for longer.
    pub fn open() -> Self {
        with_kept(|kept| kept.open += 1);
        Self(())
    }

    /// Drops what is kept where memory is short. From then on nothing is kept until all caches that are open have closed.
    pub fn give_back() {
        let dropped = with_kept(|kept| {
            kept.short = kept.open > 0;
            std::mem::take(&mut kept.forms)
        });
        // Memory is freed without the lock.
        drop(dropped);
    }
}

impl Drop for FilterCache {
    fn drop(&mut self) {
        let dropped = with_kept(|kept| {
            kept.open -= 1;
            let last = kept.open == 0;
            kept.short &= !last;
            last.then(|| std::mem::take(&mut kept.forms))
        });
        // Memory is freed without the lock.
        drop(dropped);
    }
}

/// What is kept.
#[derive(Default)]
struct Kept {
    /// How many caches are open.
    open: usize,
    /// Whether memory ran short while they were.
    short: bool,
    forms: HashMap<Key, Form>,
}

/// Where the numbers of a tensor begin, the shape that they were packed for, and what they were packed as.
type Key = (usize, [usize; 3], TypeId);

/// A packed form, and the allocation of what it was made of.
struct Form {
    of: Weak<dyn Any + Send + Sync>,
    packed: Arc<dyn Any + Send + Sync>,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

fn with_kept<R>(work: impl FnOnce(&mut Kept) -> R) -> R {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    work(kept.get_or_insert_default())
}

/// The form `P` of filters of this shape: what was kept, or what `pack` makes, which is kept if the cache is open. Two threads that need
/// the same form at the same time both make it, and one of the two is kept.
pub(crate) fn packed_once<T: Real, P: Send + Sync + 'static>(
    filters: &Values<T>,
    shape: [usize; 3],
    pack: impl FnOnce(&[T]) -> P,
) -> Arc<P> {
    let Values::Own(tensor) = filters else { return Arc::new(pack(filters)) };
    let key = (filters.as_ptr().addr(), shape, TypeId::of::<P>());
    match with_kept(|kept| kept.found(key, tensor)) {
        Some(packed) => packed,
        None => {
            let packed = Arc::new(pack(filters));
            with_kept(|kept| kept.keep(key, tensor, &packed));
            packed
        }
    }
}

impl Kept {
    /// The form of a tensor, if it is kept.
    fn found<P: Send + Sync + 'static>(&self, key: Key, tensor: &FlexTensor) -> Option<Arc<P>> {
        let form = self.forms.get(&key).filter(|form| form.is_of(tensor))?;
        Arc::clone(&form.packed).downcast().ok()
    }

    /// Keeps the form of a tensor, if the cache is open, and drops those of tensors that are no more.
    fn keep<P: Send + Sync + 'static>(&mut self, key: Key, tensor: &FlexTensor, packed: &Arc<P>) {
        if self.open == 0 || self.short {
            return;
        }
        self.forms.retain(|_, form| form.of.strong_count() > 0);
        let of = Arc::downgrade(&tensor.data_arc());
        self.forms.insert(key, Form { of, packed: Arc::clone(packed) as _ });
    }
}

impl Form {
    fn is_of(&self, tensor: &FlexTensor) -> bool {
        std::ptr::addr_eq(self.of.as_ptr(), Arc::as_ptr(&tensor.data_arc()))
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::TensorData;

    use super::*;

    fn filters(numbers: [f32; 2]) -> FlexTensor {
        FlexTensor::from_data(TensorData::new(numbers.to_vec(), [2]))
    }

    /// The sum of filters as their form, and whether it was made now.
    fn sum(tensor: &FlexTensor) -> (f32, bool) {
        let mut made = false;
        let sum = packed_once(&Values::<f32>::Own(tensor.clone()), [2, 1, 1], |values| {
            made = true;
            values.iter().sum::<f32>()
        });
        (*sum, made)
    }

    /// One test, since the cache is the process's: another one would close it.
    #[test]
    fn a_form_is_made_once_while_the_cache_is_open_and_never_serves_other_numbers() {
        let mut tensor = filters([1.0, 2.0]);
        assert_eq!((sum(&tensor), sum(&tensor)), ((3.0, true), (3.0, true)), "closed");

        let cache = FilterCache::open();
        assert_eq!((sum(&tensor), sum(&tensor), sum(&tensor.clone())), ((3.0, true), (3.0, false), (3.0, false)));
        let form = packed_once(&Values::<f32>::Own(filters([1.0, 2.0])), [2, 1, 1], |_| 3.5_f32);
        assert_eq!(*form, 3.5, "of equal numbers, and another tensor");
        let known = Arc::downgrade(&form);
        drop(form);
        sum(&filters([2.0, 2.0]));
        assert_eq!(known.strong_count(), 0, "a form is dropped with its tensor");

        tensor.storage_mut::<f32>()[0] = 5.0;
        assert_eq!(sum(&tensor), (7.0, true), "changed in place");
        let values = Values::<f32>::Own(tensor.clone());
        assert_eq!(*packed_once(&values, [1, 2, 1], |_| 4.0_f32), 4.0, "of another shape");
        assert_eq!(*packed_once(&values, [2, 1, 1], |_| 4_u8), 4, "another form");
        assert_eq!(sum(&tensor), (7.0, false));
        drop(values);

        // Tensors that are made and dropped in turn tend to have the same address.
        for number in 0..100 {
            assert_eq!(sum(&filters([number as f32, 1.0])), (number as f32 + 1.0, true));
        }
        let second = FilterCache::open();
        drop(cache);
        assert_eq!(sum(&tensor), (7.0, false), "one of two is open");
        FilterCache::give_back();
        assert_eq!((sum(&tensor), sum(&tensor)), ((7.0, true), (7.0, true)), "memory is short");
        drop(second);
        let _again = FilterCache::open();
        assert_eq!((sum(&tensor), sum(&tensor)), ((7.0, true), (7.0, false)), "open again");
    }
}
