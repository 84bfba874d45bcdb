//! What a failed attempt leaves in the process: nothing, and no noise.

mod common;

use std::alloc::System;
use std::panic::{set_hook, take_hook};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::{Fault, Norm, Phase, Run};
use kindling_memory::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator<System> = CountingAllocator(System);

#[test]
fn failed_attempts_leave_no_memory_and_are_not_announced() {
    let announced = Arc::new(AtomicUsize::new(0));
    let (counter, before) = (announced.clone(), take_hook());
    set_hook(Box::new(move |panic| {
        counter.fetch_add(1, Relaxed);
        before(panic);
    }));

    // Every second forward pass fails; with one group to a batch there is no smaller plan to escape to.
    let faults = (0..200).step_by(2).map(|call| Fault::oom(Phase::Forward, call)).collect();
    let run =
        Run { norm: Norm::Burn, dropout: true, ghost_batch_size: 24, batches: 40, epochs: 1, faults, ..Run::default() };
    let ended = run.go();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(ended.recoveries.len(), 40);
    assert_eq!(announced.load(Relaxed), 0, "they are dealt with");

    let live = ended.net.live();
    assert_eq!(live.len(), 80, "40 attempts that failed and 40 that did not");
    // The maps of an abandoned forward pass are 80 kB; a retry starts without them, and none are there in the end.
    for tries in live.chunks_exact(2) {
        assert!(tries[1] < tries[0] + 40_000, "{} bytes before a try that failed and {} after it", tries[0], tries[1]);
    }
    assert!(
        live[79] < live[1] + 100_000,
        "{} bytes at first and {} in the end: that is more than the log",
        live[1],
        live[79]
    );
}
