// What CUDA C++ needs of CUDA, for the host's compiler: each kernel includes this first (compiler/translate.cpp).
#pragma once
#include "machine.h"

// One launch runs at a time, on one thread of the host, so this need not be thread-local.
extern cudasim::Thread* cudasim_self;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)
#define threadIdx (cudasim_self->threadIdx)
#define blockIdx (cudasim_self->blockIdx)
#define blockDim (cudasim_self->blockDim)
#define gridDim (cudasim_self->gridDim)
#define warpSize 32

typedef decltype(sizeof 0) size_t;
namespace std {
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T&> { typedef T type; };
template <class T> struct remove_reference<T&&> { typedef T type; };
template <class T> inline typename remove_reference<T>::type&& move(T&& t) {
    return static_cast<typename remove_reference<T>::type&&>(t);
}
}

#include "warp.h"
#include "mathematics.h"
#include "halves.h"
#include "atomics.h"
#include "tensor_cores.h"
#include "wmma.h"
#include "copies.h"
#include "tensor_maps.h"

// What the library exports. The kernel's arguments come as pointers to each, as cuLaunchKernel has them.
namespace cudasim {
template <class T> struct bare { typedef T type; };
template <class T> struct bare<const T> { typedef T type; };
template <unsigned... I> struct Indices {};
template <unsigned N, unsigned... I> struct Count : Count<N - 1, N - 1, I...> {};
template <unsigned... I> struct Count<0, I...> { typedef Indices<I...> type; };
template <class... P, unsigned... I> static inline void call(void (*kernel)(P...), void** a, Indices<I...>) {
    kernel(*(typename bare<P>::type*)a[I]...);
}
template <class... P> static inline void call(void (*kernel)(P...), void** a) {
    call(kernel, a, typename Count<sizeof...(P)>::type());
}
template <class... P> struct Sizes {
    static const unsigned count = sizeof...(P);
    static constexpr unsigned each[sizeof...(P) + 1] = {sizeof(P)..., 0};
};
template <class... P> static constexpr Sizes<P...> sizes_of(void (*)(P...)) { return {}; }
}
#define CUDASIM_KERNEL(kernel, threads, cluster_x, cluster_y, cluster_z, cooperates) \
    cudasim::Thread* cudasim_self; \
    static void cudasim_call(void** arguments) { cudasim::call(&kernel, arguments); } \
    typedef decltype(cudasim::sizes_of(&kernel)) cudasim_sizes; \
    extern "C" __attribute__((visibility("default"))) const cudasim::Kernel cudasim_kernel; \
    const cudasim::Kernel cudasim_kernel = {#kernel, cooperates, threads, {cluster_x, cluster_y, cluster_z}, \
        cudasim_sizes::count, cudasim_sizes::each, &cudasim_self, cudasim_call};
