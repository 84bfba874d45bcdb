// Blocks and warps: barriers, exchanges between lanes, votes.
#pragma once

static inline void __syncthreads() { cudasim_self->barrier(cudasim_self); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

namespace cudasim {

// Which lanes have come to this place together.
struct Meet : WarpOp { unsigned mask; };
static void resolve_meet(WarpOp** lanes, unsigned mask) {
    for (int i = 0; i < 32; i++) if (mask >> i & 1) static_cast<Meet*>(lanes[i])->mask = mask;
}
static inline unsigned meet(unsigned site, Needs needs = Needs::Any) {
    Meet op; op.resolve = resolve_meet; op.site = site; op.needs = needs; op.mask = 0;
    cudasim_self->collective(cudasim_self, &op);
    return op.mask;
}

// Reading from a lane that does not take part is undefined in CUDA; here it gives the reader's own value.
enum Way { INDEX, XOR, UP, DOWN };
template <class T> struct Shuffle : WarpOp { T in, out; unsigned by; Way way; };
template <class T> static void resolve_shuffle(WarpOp** lanes, unsigned mask) {
    for (unsigned i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        Shuffle<T>& op = *static_cast<Shuffle<T>*>(lanes[i]);
        unsigned from = op.way == INDEX ? op.by & 31 : op.way == XOR ? i ^ op.by : op.way == UP ? i - op.by : i + op.by;
        op.out = from < 32 && mask >> from & 1 ? static_cast<Shuffle<T>*>(lanes[from])->in : op.in;
    }
}
template <class T> static inline T shuffle(Way way, T value, unsigned by, unsigned site) {
    Shuffle<T> op; op.resolve = resolve_shuffle<T>; op.site = site; op.needs = Needs::Any;
    op.in = value; op.by = by; op.way = way;
    cudasim_self->collective(cudasim_self, &op);
    return op.out;
}

struct Vote : WarpOp { bool in; unsigned out, mask; };
static void resolve_vote(WarpOp** lanes, unsigned mask) {
    unsigned votes = 0;
    for (int i = 0; i < 32; i++) if (mask >> i & 1 && static_cast<Vote*>(lanes[i])->in) votes |= 1u << i;
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        static_cast<Vote*>(lanes[i])->out = votes;
        static_cast<Vote*>(lanes[i])->mask = mask;
    }
}
static inline Vote vote(bool in, unsigned site) {
    Vote op; op.resolve = resolve_vote; op.site = site; op.needs = Needs::Any; op.in = in;
    cudasim_self->collective(cudasim_self, &op);
    return op;
}

static inline bool all(const Vote& votes) { return votes.out == votes.mask; }

// One lane of those that have come together: the lowest.
static inline bool elect(unsigned site) { return (unsigned)__builtin_ctz(meet(site)) == cudasim_self->lane; }

}

// The mask is not looked at: those that come together take part.
#define __activemask() cudasim::meet(__COUNTER__)
#define __syncwarp(...) ((void)cudasim::meet(__COUNTER__, cudasim::Needs::Living))
#define __shfl_sync(mask, value, by, ...) cudasim::shuffle(cudasim::INDEX, value, by, __COUNTER__)
#define __shfl_xor_sync(mask, value, by, ...) cudasim::shuffle(cudasim::XOR, value, by, __COUNTER__)
#define __shfl_up_sync(mask, value, by, ...) cudasim::shuffle(cudasim::UP, value, by, __COUNTER__)
#define __shfl_down_sync(mask, value, by, ...) cudasim::shuffle(cudasim::DOWN, value, by, __COUNTER__)
#define __all_sync(mask, value) (cudasim::all(cudasim::vote((value), __COUNTER__)))
#define __any_sync(mask, value) (cudasim::vote(value, __COUNTER__).out != 0)
#define __ballot_sync(mask, value) (cudasim::vote(value, __COUNTER__).out)
#define cudasim_ptx_activemask_b32_elect_sync_selp_b32(result) ((result) = cudasim::elect(__COUNTER__))

// A place in shared memory is its distance from the start of it.
static inline unsigned __cvta_generic_to_shared(const volatile void* p) {
    return (const volatile char*)p - cudasim_self->shared;
}
namespace cudasim { static inline char* from_shared(unsigned at) { return cudasim_self->shared + at; } }

// Blocks of a cluster run one after another like all others: their places are known, their memories are not shared.
namespace cooperative_groups {
struct Block {};
static inline Block this_thread_block() { return {}; }
struct Cluster {
    cudasim::Dim block_index() const {
        cudasim::Dim of = cudasim_self->cluster;
        return {(blockIdx).x % of.x, (blockIdx).y % of.y, (blockIdx).z % of.z};
    }
    unsigned block_rank() const {
        cudasim::Dim at = block_index(), of = cudasim_self->cluster;
        return (at.z * of.y + at.y) * of.x + at.x;
    }
};
static inline Cluster this_cluster() { return {}; }
}
