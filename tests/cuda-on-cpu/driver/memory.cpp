// Device memory: counted, limited, and with a page behind each allocation that may not be touched.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "memory.h"
#include "settings.h"
#include "state.h"

using namespace cudasim;

namespace {

constexpr size_t PAGE = 4096;

struct Allocation { uint64_t size, charged; int device; };
std::map<uint64_t, Allocation> allocations;  // by address
std::map<uint64_t, uint64_t> pinned;         // bytes, by address
std::map<int, uint64_t> in_use;              // bytes, by device

size_t pages(size_t size) { return (size + PAGE - 1) & ~(PAGE - 1); }

// CUDASIM_FILL: memory that reads as one number until it is written, all of it backed by one piece.
char* map_filled(size_t size) {
    constexpr size_t PIECE = 2 << 20;
    static int file = [] {
        int made = memfd_create("cudasim", 0);
        std::vector<float> pattern(PIECE / 4, atof(getenv("CUDASIM_FILL")));
        if (write(made, pattern.data(), PIECE) != static_cast<ssize_t>(PIECE)) abort();
        return made;
    }();
    void* at = mmap(nullptr, size + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    char* start = static_cast<char*>(at);
    for (size_t done = 0; done < size; done += PIECE) {
        size_t piece = size - done < PIECE ? size - done : PIECE;
        void* mapped = mmap(start + done, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0);
        if (mapped == MAP_FAILED) return nullptr;
    }
    return start;
}

char* map(size_t size) {
    static const bool filled = getenv("CUDASIM_FILL") != nullptr;
    if (filled) return map_filled(pages(size));
    void* at = mmap(nullptr, pages(size) + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    mprotect(static_cast<char*>(at) + pages(size), PAGE, PROT_NONE);
    return static_cast<char*>(at);
}

CUresult allocate(CUdeviceptr* out, size_t size) {
    std::lock_guard<std::mutex> lock(guard);
    counters.allocations++;
    if (CUresult wrong = fault("alloc", counters.allocations)) return wrong;
    if (!size) return CUDA_ERROR_INVALID_VALUE;
    int device = current_device();
    uint64_t charged = (size + settings.granularity - 1) / settings.granularity * settings.granularity;
    if (settings.context + in_use[device] + charged > settings.devices[device].memory) {
        counters.refused++;
        counters.largest_refused = std::max<uint64_t>(counters.largest_refused, size);
        trace("refused %lu with %lu in use", size, in_use[device]);
        write_stats();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    char* at = map(size);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<uint64_t>(at);
    allocations[*out] = {size, charged, device};
    in_use[device] += charged;
    counters.current += charged;
    counters.peak = std::max(counters.peak, counters.current);
    counters.live_allocations = allocations.size();
    counters.most_allocations = std::max(counters.most_allocations, counters.live_allocations);
    trace("alloc %llx %lu in use %lu", *out, size, in_use[device]);
    return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr at) {
    std::lock_guard<std::mutex> lock(guard);
    UNLESS_POISONED;
    auto found = allocations.find(at);
    if (found == allocations.end()) {
        counters.invalid_frees++;
        return CUDA_ERROR_INVALID_VALUE;
    }
    const Allocation& its = found->second;
    counters.frees++;
    counters.current -= its.charged;
    in_use[its.device] -= its.charged;
    trace("free %llx %lu in use %lu", at, its.size, in_use[its.device]);
    munmap(reinterpret_cast<void*>(at), pages(its.size) + PAGE);
    allocations.erase(found);
    counters.live_allocations = allocations.size();
    return CUDA_SUCCESS;
}

}

uint64_t cudasim::bytes_behind(uint64_t at) {
    auto next = allocations.upper_bound(at);
    if (next == allocations.begin()) return 0;
    --next;
    uint64_t end = next->first + next->second.size;
    return at < end ? end - at : 0;
}

EXPORTED CUresult cuMemGetInfo(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> lock(guard);
    int device = current_device();
    *total = settings.devices[device].memory;
    *free = *total - settings.context - in_use[device];
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemAlloc(CUdeviceptr* out, size_t size) { return allocate(out, size); }
EXPORTED CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream) { return allocate(out, size); }
EXPORTED CUresult cuMemFree(CUdeviceptr at) { return release(at); }
EXPORTED CUresult cuMemFreeAsync(CUdeviceptr at, CUstream) { return release(at); }

EXPORTED CUresult cuMemAllocHost(void** out, size_t size) {
    std::lock_guard<std::mutex> lock(guard);
    UNLESS_POISONED;
    if (posix_memalign(out, PAGE, size ? size : 1)) return CUDA_ERROR_OUT_OF_MEMORY;
    pinned[reinterpret_cast<uint64_t>(*out)] = size;
    counters.pinned += size;
    counters.pinned_peak = std::max(counters.pinned_peak, counters.pinned);
    counters.live_pinned = pinned.size();
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuMemFreeHost(void* at) {
    std::lock_guard<std::mutex> lock(guard);
    auto found = pinned.find(reinterpret_cast<uint64_t>(at));
    if (found == pinned.end()) return CUDA_ERROR_INVALID_VALUE;
    counters.pinned -= found->second;
    pinned.erase(found);
    counters.live_pinned = pinned.size();
    free(at);
    return CUDA_SUCCESS;
}
