// Atomic operations. One thread of the host runs them all, one after another, so reading and writing is enough.
// What CubeCL writes as PTX (`atom.relaxed.add.f32`) arrives as a call named after the instruction.
#pragma once

#define CUDASIM_ATOMIC(name, expression) \
    template <class T, class V> static inline T name(T* at, V with) { T old = *at; T value = T(with); *at = expression; return old; }
CUDASIM_ATOMIC(atomicAdd, old + value) CUDASIM_ATOMIC(atomicSub, old - value) CUDASIM_ATOMIC(atomicExch, value)
CUDASIM_ATOMIC(atomicMin, value < old ? value : old) CUDASIM_ATOMIC(atomicMax, old < value ? value : old)
CUDASIM_ATOMIC(atomicAnd, old & value) CUDASIM_ATOMIC(atomicOr, old | value) CUDASIM_ATOMIC(atomicXor, old ^ value)
template <class T, class V, class W> static inline T atomicCAS(T* at, V compare, W with) { T old = *at; if (old == T(compare)) *at = T(with); return old; }

static inline void cudasim_ptx_max_NaN_f32(float& r, float a, float b) { r = a != a ? a : b != b ? b : a > b ? a : b; }
static inline void cudasim_ptx_min_NaN_f32(float& r, float a, float b) { r = a != a ? a : b != b ? b : a < b ? a : b; }
#define CUDASIM_ATOM(type, suffix) \
    template <class P> static inline void cudasim_ptx_atom_relaxed_add_##suffix(type& r, P at, type v) { type* p = (type*)at; r = *p; *p = r + v; } \
    template <class P> static inline void cudasim_ptx_atom_relaxed_min_##suffix(type& r, P at, type v) { type* p = (type*)at; r = *p; if (v < r) *p = v; } \
    template <class P> static inline void cudasim_ptx_atom_relaxed_max_##suffix(type& r, P at, type v) { type* p = (type*)at; r = *p; if (r < v) *p = v; }
CUDASIM_ATOM(float, f32) CUDASIM_ATOM(double, f64) CUDASIM_ATOM(unsigned, u32) CUDASIM_ATOM(int, s32) CUDASIM_ATOM(unsigned long long, u64) CUDASIM_ATOM(long long, s64)

// Pairs of 16-bit numbers, or one of them, in the bits of a register.
namespace cudasim {
template <class Format> static inline unsigned short add_half(unsigned short a, unsigned short b) {
    return Format::narrow(Format::wide(a) + Format::wide(b));
}
template <class Format, class R, class P> static inline void add_halves(R& result, P at, R value) {
    unsigned short* p = (unsigned short*)at;
    unsigned short old[sizeof(R) / 2], with[sizeof(R) / 2];
    __builtin_memcpy(old, p, sizeof old);
    __builtin_memcpy(with, &value, sizeof with);
    for (unsigned i = 0; i < sizeof(R) / 2; i++) p[i] = add_half<Format>(old[i], with[i]);
    __builtin_memcpy(&result, old, sizeof old);
}
}
#define cudasim_ptx_atom_relaxed_add_noftz_f16(...) cudasim::add_halves<cudasim::F16>(__VA_ARGS__)
#define cudasim_ptx_atom_relaxed_add_noftz_f16x2(...) cudasim::add_halves<cudasim::F16>(__VA_ARGS__)
#define cudasim_ptx_atom_relaxed_add_noftz_bf16(...) cudasim::add_halves<cudasim::BF16>(__VA_ARGS__)
#define cudasim_ptx_atom_relaxed_add_noftz_bf16x2(...) cudasim::add_halves<cudasim::BF16>(__VA_ARGS__)
