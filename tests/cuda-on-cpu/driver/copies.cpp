// Copies between host and device, each checked against the allocation it touches.
#include <cstdlib>
#include <cstring>

#include "memory.h"
#include "settings.h"
#include "state.h"
#include "streams.h"

using namespace cudasim;

namespace {

bool is_device_memory(uint64_t at, uint64_t size) {
    std::lock_guard<std::mutex> lock(guard);
    bool inside = bytes_behind(at) >= size;
    if (!inside) counters.bad_copies++;
    return inside;
}

void count(uint64_t to_device, uint64_t to_host) {
    std::lock_guard<std::mutex> lock(guard);
    counters.copies++;
    counters.bytes_to_device += to_device;
    counters.bytes_to_host += to_host;
}

// Where kernels do nothing, what is read is the number that memory is filled with, not what an upload left in its place.
void forget(void* to, size_t size) {
    static const bool nothing = setting("CUDASIM_KERNELS", "ptx") == "none";
    static const float number = atof(setting("CUDASIM_FILL", "0").c_str());
    for (size_t i = 0; nothing && i + sizeof number <= size; i += sizeof number) memcpy(static_cast<char*>(to) + i, &number, sizeof number);
}

}

EXPORTED CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
    UNLESS_POISONED;
    if (size && !is_device_memory(to, size)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, [=] {
        memcpy(reinterpret_cast<void*>(to), from, size);
        count(size, 0);
        return CUDA_SUCCESS;
    });
}
EXPORTED CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream stream) {
    UNLESS_POISONED;
    if (size && !is_device_memory(from, size)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, [=] {
        memcpy(to, reinterpret_cast<void*>(from), size);
        forget(to, size);
        count(0, size);
        return CUDA_SUCCESS;
    });
}
EXPORTED CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
    UNLESS_POISONED;
    if (size && (!is_device_memory(to, size) || !is_device_memory(from, size))) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, [=] {
        memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
        count(0, 0);
        return CUDA_SUCCESS;
    });
}

// Rows, each side with a pitch of its own.
EXPORTED CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
    UNLESS_POISONED;
    CUDA_MEMCPY2D c = *copy;
    if (!c.Height || !c.WidthInBytes) return CUDA_SUCCESS;
    auto start = [&](CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t x, size_t y) -> char* {
        if (c.WidthInBytes > pitch) return nullptr;
        if (type == CU_MEMORYTYPE_HOST) return const_cast<char*>(static_cast<const char*>(host)) + y * pitch + x;
        uint64_t at = device + y * pitch + x;
        return is_device_memory(at, (c.Height - 1) * pitch + c.WidthInBytes) ? reinterpret_cast<char*>(at) : nullptr;
    };
    char* from = start(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcPitch, c.srcXInBytes, c.srcY);
    char* to = start(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstPitch, c.dstXInBytes, c.dstY);
    if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, [=] {
        for (size_t row = 0; row < c.Height; row++) memcpy(to + row * c.dstPitch, from + row * c.srcPitch, c.WidthInBytes);
        bool down = c.dstMemoryType == CU_MEMORYTYPE_HOST;
        for (size_t row = 0; down && row < c.Height; row++) forget(to + row * c.dstPitch, c.WidthInBytes);
        count(down ? 0 : c.WidthInBytes * c.Height, down ? c.WidthInBytes * c.Height : 0);
        return CUDA_SUCCESS;
    });
}
