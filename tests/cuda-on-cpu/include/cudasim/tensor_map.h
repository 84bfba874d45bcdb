// What the driver writes into a tensor map and the copies of compute capability 9.0 read from it. The map is opaque to
// programs, so its content is ours to choose; it must fit into the 128 bytes that CUDA gives it.
#pragma once

namespace cudasim {

struct TensorMap {
    unsigned long address;
    unsigned long shape[5];    // in numbers, the fastest dimension first
    unsigned long strides[4];  // in bytes, of the dimensions behind the first
    union {
        unsigned box[5];       // tiles: in numbers
        struct {               // images: a column of `pixels` with `channels` of each
            unsigned channels, pixels;
            short lower[3], upper[3];  // corners of the box that pixels are taken from, beyond the image; fastest first
        };
    };
    unsigned char steps[5];    // each how many numbers one is taken
    unsigned char rank, bytes, swizzle;  // swizzle: 0 none, 1, 2, 3 for 32, 64, 128 bytes
    bool images;
};
static_assert(sizeof(TensorMap) <= 128, "CUtensorMap has 128 bytes");

}
