// Tensor maps: what the copies of compute capability 9.0 are told about a tensor, checked as CUDA checks it.
#include <cstring>

#include "../include/cudasim/tensor_map.h"
#include "state.h"

using cudasim::TensorMap;

namespace {

unsigned bytes_of(CUtensorMapDataType type) {
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
        case CU_TENSOR_MAP_DATA_TYPE_UINT16: case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
        case CU_TENSOR_MAP_DATA_TYPE_UINT64: case CU_TENSOR_MAP_DATA_TYPE_INT64: case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
        case CU_TENSOR_MAP_DATA_TYPE_UINT32: case CU_TENSOR_MAP_DATA_TYPE_INT32: case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ: case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
            return 4;
    }
    return 0;
}

// What both kinds of map have. Not here: interleaved layouts, fills other than zero, and packed 4-bit numbers.
bool describe(TensorMap& map, CUtensorMapDataType type, unsigned rank, void* address, const uint64_t* shape, const uint64_t* strides,
              const unsigned* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapFloatOOBfill fill) {
    map = {};
    map.address = reinterpret_cast<uint64_t>(address);
    map.rank = rank;
    map.bytes = bytes_of(type);
    map.swizzle = swizzle;
    bool right = rank >= 1 && rank <= 5 && map.address % 16 == 0 && map.bytes && interleave == CU_TENSOR_MAP_INTERLEAVE_NONE &&
        swizzle <= CU_TENSOR_MAP_SWIZZLE_128B && fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    for (unsigned d = 0; right && d < rank; d++) {
        map.shape[d] = shape[d];
        map.steps[d] = steps[d];
        right = shape[d] >= 1 && shape[d] <= 1ull << 32 && steps[d] >= 1 && steps[d] <= 8;
        if (d == 0) continue;
        map.strides[d - 1] = strides[d - 1];
        right = right && strides[d - 1] % 16 == 0 && strides[d - 1] < 1ull << 40;
    }
    return right;
}

CUresult write(CUtensorMap* out, const TensorMap& map, bool right) {
    if (!right) return CUDA_ERROR_INVALID_VALUE;
    memset(out, 0, sizeof *out);
    memcpy(out, &map, sizeof map);
    return CUDA_SUCCESS;
}

}

EXPORTED CUresult cuTensorMapEncodeTiled(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* shape, const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
    CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    TensorMap map;
    bool right = describe(map, type, rank, address, shape, strides, steps, interleave, swizzle, fill);
    for (unsigned d = 0; right && d < rank; d++) {
        map.box[d] = box[d];
        right = box[d] >= 1 && box[d] <= 256;
    }
    // A row of the box is whole pieces of 16 bytes, and fits into the rows that are swizzled.
    unsigned row = right ? map.box[0] * map.bytes : 0;
    right = right && row % 16 == 0 && (!map.swizzle || row <= 16u << map.swizzle);
    return write(out, map, right);
}

EXPORTED CUresult cuTensorMapEncodeIm2col(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address,
    const cuuint64_t* shape, const cuuint64_t* strides, const int* lower, const int* upper, cuuint32_t channels, cuuint32_t pixels,
    const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
    CUtensorMapFloatOOBfill fill) {
    TensorMap map;
    bool right = rank >= 3 && describe(map, type, rank, address, shape, strides, steps, interleave, swizzle, fill);
    right = right && channels >= 1 && channels <= 256 && pixels >= 1 && pixels <= 1024;
    if (right) {
        map.images = true;
        map.channels = channels;
        map.pixels = pixels;
        for (unsigned s = 0; s < rank - 2; s++) {
            map.lower[s] = lower[s];
            map.upper[s] = upper[s];
        }
        unsigned row = channels * map.bytes;
        right = row % 16 == 0 && (!map.swizzle || row <= 16u << map.swizzle);
    }
    return write(out, map, right);
}

// Of compute capability 10.0, which this device never claims to be executing.
EXPORTED CUresult cuTensorMapEncodeIm2colWide(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
    const cuuint64_t*, int, int, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapIm2ColWideMode,
    CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
