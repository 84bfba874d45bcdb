// Asynchronous copies and the barriers that announce them. A copy is done at once, where it is asked for; so a kernel
// that forgets to wait is not caught here.
#pragma once

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

// mbarrier: a phase ends when all expected arrivals and all announced bytes have come. 8 bytes, as in CUDA, for kernels
// lay several out side by side. Those who wait poll.
template <thread_scope> struct barrier {
    typedef unsigned long arrival_token;
    unsigned long expected : 12, pending : 12, phase : 16;
    long bytes : 24;  // announced and not yet come; copies may come before they are announced
    void turn() {
        if (pending == 0 && bytes == 0) { phase++; pending = expected; }
    }
    arrival_token arrive(unsigned count = 1) {
        arrival_token now = phase;
        if (pending < count) cudasim_self->refuse(cudasim_self, "more arrivals at an mbarrier than it expects");
        pending -= count;
        turn();
        return now;
    }
    void expect(unsigned announced) { bytes += announced; }
    void come(unsigned size) { bytes -= size; turn(); }
    void wait(arrival_token token) const {
        while (((const volatile barrier*)this)->phase == (token & 0xffff)) cudasim_self->yield(cudasim_self);
    }
    void wait_parity(bool parity) const {
        while ((((const volatile barrier*)this)->phase & 1) == parity) cudasim_self->yield(cudasim_self);
    }
    void arrive_and_wait() { wait(arrive()); }
};
static_assert(sizeof(barrier<thread_scope_block>) == 8, "as large as CUDA's");

template <thread_scope S> static inline void init(barrier<S>* b, unsigned count) {
    b->expected = b->pending = count;
    b->phase = 0;
    b->bytes = 0;
}
template <thread_scope S> static inline void memcpy_async(void* to, const void* from, size_t size, barrier<S>&) {
    __builtin_memcpy(to, from, size);
}
// A copy by the whole block: its first thread does it.
template <thread_scope S>
static inline void memcpy_async(cooperative_groups::Block, void* to, const void* from, size_t size, barrier<S>&) {
    if (!threadIdx.x && !threadIdx.y && !threadIdx.z) __builtin_memcpy(to, from, size);
}

namespace device {
template <thread_scope S> static inline unsigned long long* barrier_native_handle(barrier<S>& b) {
    return (unsigned long long*)&b;
}
template <thread_scope S> static inline unsigned long barrier_arrive_tx(barrier<S>& b, unsigned count, unsigned bytes) {
    b.expect(bytes);
    return b.arrive(count);
}
template <thread_scope S> static inline void barrier_expect_tx(barrier<S>& b, unsigned bytes) { b.expect(bytes); }
template <thread_scope S> static inline void memcpy_async_tx(void* to, const void* from, size_t size, barrier<S>& b) {
    __builtin_memcpy(to, from, size);
    b.come(size);
}
namespace experimental {
static inline void fence_proxy_async_shared_cta() {}
static inline void cp_async_bulk_commit_group() {}
template <int N> static inline void cp_async_bulk_wait_group() {}
template <int N> static inline void cp_async_bulk_wait_group_read() {}
}
}

}
using cuda::init;

namespace cudasim {
// cp.async [to], [from], size, there: what of it is not there is filled with zeros.
template <class P, class N, class M> static inline void copy_async(unsigned to, P from, N size, M there) {
    char* target = from_shared(to);
    unsigned n = size, m = there;
    if (m) __builtin_memcpy(target, (const void*)from, m < n ? m : n);
    if (m < n) __builtin_memset(target + m, 0, n - m);
}
}
#define cudasim_ptx_cp_async_ca_shared__cta_global(...) cudasim::copy_async(__VA_ARGS__)
#define cudasim_ptx_cp_async_cg_shared__cta_global(...) cudasim::copy_async(__VA_ARGS__)
// One more arrival is expected, and comes when the copies before it are done: at once.
#define cudasim_ptx_cp_async_mbarrier_arrive_shared__cta_b64(...) ((void)0)
