//! The policy on a device whose tensors share pages.

use kindling_layers::Checkpointing;
use kindling_memory::Plan;

use super::{Decision, Happened, Limits, Policy};

const OUT_OF_MEMORY: Happened = Happened::OutOfMemory { too_large: false, capacity: None };

fn plan(micro_batch: usize, checkpointing: Checkpointing) -> Plan {
    Plan { micro_batch, checkpointing }
}

/// Tells a policy what happened and keeps what it decides.
fn tell(policy: &mut Policy, happened: Happened) -> Decision {
    let (next, decision) = policy.after(happened);
    *policy = next;
    decision
}

#[test]
fn where_tensors_share_pages_each_gets_an_allocation_of_its_own_before_anything_gets_smaller() {
    let limits = Limits::new(8, 16).with_pages(true);
    let mut policy = Policy::new(limits, plan(16, Checkpointing::None));
    assert!(!policy.has_own_allocations());
    for lever in [Decision::Reclaim, Decision::Separate, Decision::Retry(plan(8, Checkpointing::None))] {
        assert_eq!(tell(&mut policy, OUT_OF_MEMORY), lever);
    }
    // Once a run, and for the rest of it.
    let good = Happened::Good { peak: 90, capacity: None, seconds: 1.0 };
    assert_eq!(tell(&mut policy, good), Decision::Continue);
    let rest = [Checkpointing::Stages, Checkpointing::Blocks].map(|level| Decision::Retry(plan(8, level)));
    for lever in [Decision::Reclaim, rest[0], rest[1], Decision::GiveUp] {
        assert_eq!(tell(&mut policy, OUT_OF_MEMORY), lever);
        assert!(policy.has_own_allocations());
    }
}

#[test]
fn a_tensor_too_large_for_any_page_gets_an_allocation_of_its_own_at_once() {
    let mut policy = Policy::new(Limits::new(8, 16).with_pages(true), plan(16, Checkpointing::None));
    let too_large = Happened::OutOfMemory { too_large: true, capacity: None };
    assert_eq!(tell(&mut policy, too_large), Decision::Separate);
    assert_eq!(tell(&mut policy, too_large), Decision::Retry(plan(8, Checkpointing::None)));
}
