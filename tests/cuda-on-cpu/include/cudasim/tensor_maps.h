// Copies of tiles between tensors and shared memory (TMA, compute capability 9.0).
#pragma once
#include "tensor_map.h"

namespace cudasim {

// Where a byte of a tile lies in shared memory: pieces of 16 bytes are exchanged within rows of 32, 64 or 128 bytes.
static inline unsigned swizzled(unsigned at, unsigned mode) { return at ^ (at >> 3 & ((1u << mode) - 1) << 4); }

// The number at these coordinates; nothing if they are outside.
static inline char* number_at(const TensorMap& map, const int* at) {
    unsigned long offset = 0;
    for (int d = 0; d < map.rank; d++) {
        if (at[d] < 0 || (unsigned long)at[d] >= map.shape[d]) return nullptr;
        offset += d ? at[d] * map.strides[d - 1] : (unsigned long)at[0] * map.bytes;
    }
    return (char*)map.address + offset;
}

// Copies a tile to shared memory, or back where `store` is set. Gives the bytes that an mbarrier counts.
static inline unsigned copy_tile(const TensorMap& map, unsigned shared, const int* corner, bool store) {
    unsigned count = 1, size[5];
    for (int d = 0; d < map.rank; d++) count *= size[d] = (map.box[d] + map.steps[d] - 1) / map.steps[d];
    for (unsigned i = 0; i < count; i++) {
        int at[5];
        unsigned rest = i;
        for (int d = 0; d < map.rank; d++) {
            at[d] = corner[d] + int(rest % size[d]) * map.steps[d];
            rest /= size[d];
        }
        char* outside = number_at(map, at);
        char* inside = from_shared(swizzled(shared + i * map.bytes, map.swizzle));
        if (!store && outside) __builtin_memcpy(inside, outside, map.bytes);
        if (!store && !outside) __builtin_memset(inside, 0, map.bytes);
        if (store && outside) __builtin_memcpy(outside, inside, map.bytes);
    }
    return count * map.bytes;
}

// Copies a column of pixels: from the base pixel on along the box, row by row and image by image, each shifted by the
// offsets of one place of a filter. Dimensions are channels, then the images' (fastest first), then images.
static inline unsigned copy_column(const TensorMap& map, unsigned shared, const int* base, const unsigned short* offsets) {
    int spatial = map.rank - 2, pixel[5];
    for (int d = 0; d < map.rank; d++) pixel[d] = base[d];
    for (unsigned p = 0; p < map.pixels; p++) {
        for (unsigned c = 0; c < map.channels; c++) {
            int at[5];
            at[0] = pixel[0] + c;
            for (int s = 0; s < spatial; s++) at[1 + s] = pixel[1 + s] + offsets[s];
            at[map.rank - 1] = pixel[map.rank - 1];
            char* outside = number_at(map, at);
            char* inside = from_shared(swizzled(shared + (p * map.channels + c) * map.bytes, map.swizzle));
            if (outside) __builtin_memcpy(inside, outside, map.bytes); else __builtin_memset(inside, 0, map.bytes);
        }
        int s = 0;
        for (; s < spatial; s++) {
            pixel[1 + s] += map.steps[1 + s];
            if (pixel[1 + s] < (long)map.shape[1 + s] + map.upper[s]) break;
            pixel[1 + s] = map.lower[s];
        }
        if (s == spatial) pixel[map.rank - 1]++;
    }
    return map.pixels * map.channels * map.bytes;
}

template <class Map> static inline const TensorMap& map_of(const Map* map) { return *(const TensorMap*)map; }
static inline cuda::barrier<cuda::thread_scope_block>& barrier_of(unsigned shared) {
    return *(cuda::barrier<cuda::thread_scope_block>*)from_shared(shared);
}
static inline void column(unsigned shared, unsigned long map, const int* base, unsigned bar, const unsigned short* offsets) {
    barrier_of(bar).come(copy_column(*(const TensorMap*)map, shared, base, offsets));
}

}

// As PTX orders operands: [shared], [map, {coordinates}], [barrier], {offsets}.
#define CUDASIM_IM2COL(rank) cudasim_ptx_cp_async_bulk_tensor_##rank##d_shared__cluster_global_im2col_mbarrier__complete_tx__bytes
static inline void CUDASIM_IM2COL(3)(unsigned to, unsigned long map, int c, int w, int n, unsigned bar, unsigned short ow) {
    int base[] = {c, w, n};
    cudasim::column(to, map, base, bar, &ow);
}
static inline void CUDASIM_IM2COL(4)(unsigned to, unsigned long map, int c, int w, int h, int n, unsigned bar,
                                     unsigned short ow, unsigned short oh) {
    int base[] = {c, w, h, n};
    unsigned short offsets[] = {ow, oh};
    cudasim::column(to, map, base, bar, offsets);
}
static inline void CUDASIM_IM2COL(5)(unsigned to, unsigned long map, int c, int w, int h, int d, int n, unsigned bar,
                                     unsigned short ow, unsigned short oh, unsigned short od) {
    int base[] = {c, w, h, d, n};
    unsigned short offsets[] = {ow, oh, od};
    cudasim::column(to, map, base, bar, offsets);
}

namespace cuda { namespace device { namespace experimental {
#define CUDASIM_TILE(rank, parameters, ...) \
    template <class M, thread_scope S> static inline void cp_async_bulk_tensor_##rank##d_global_to_shared( \
        void* to, const M* map, CUDASIM_UNPACK parameters, barrier<S>& b) { \
        int corner[] = {__VA_ARGS__}; \
        b.come(cudasim::copy_tile(cudasim::map_of(map), __cvta_generic_to_shared(to), corner, false)); \
    } \
    template <class M> static inline void cp_async_bulk_tensor_##rank##d_shared_to_global( \
        const M* map, CUDASIM_UNPACK parameters, const void* from) { \
        int corner[] = {__VA_ARGS__}; \
        cudasim::copy_tile(cudasim::map_of(map), __cvta_generic_to_shared(from), corner, true); \
    }
#define CUDASIM_UNPACK(...) __VA_ARGS__
CUDASIM_TILE(1, (int a), a)
CUDASIM_TILE(2, (int a, int b1), a, b1)
CUDASIM_TILE(3, (int a, int b1, int c), a, b1, c)
CUDASIM_TILE(4, (int a, int b1, int c, int d), a, b1, c, d)
CUDASIM_TILE(5, (int a, int b1, int c, int d, int e), a, b1, c, d, e)
} } }
