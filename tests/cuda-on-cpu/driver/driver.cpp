// A stand-in for the CUDA driver library: devices, memory, streams, events, modules and launches, without a GPU.
// Everything is done at once, in the order it is asked for. README.md says what can be set.
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include "../include/exec.h"

namespace cudasim {
void launch(const Kernel* kernel, Dim grid, Dim dim, void** arguments);
}

namespace {

// ---------------------------------------------------------------------------------------------------- settings

const char* text(const char* name, const char* otherwise) {
    const char* value = getenv(name);
    return value && *value ? value : otherwise;
}

uint64_t bytes(const char* name, const char* otherwise) {
    char* end;
    double value = strtod(text(name, otherwise), &end);
    switch (*end) {
        case 'K': return value * (1ull << 10);
        case 'M': return value * (1ull << 20);
        case 'G': return value * (1ull << 30);
        default: return value;
    }
}

struct Settings {
    int major, minor, devices, sms, shared;
    uint64_t memory, context, granularity;
    const char *name, *stats, *trace, *faults;
    bool fill;
    float fill_value;
    Settings() {
        sscanf(text("CUDASIM_CC", "9.0"), "%d.%d", &major, &minor);
        devices = atoi(text("CUDASIM_DEVICES", "1"));
        sms = atoi(text("CUDASIM_SMS", "16"));
        memory = bytes("CUDASIM_MEMORY", "8GiB");
        context = bytes("CUDASIM_CONTEXT", "0");
        granularity = bytes("CUDASIM_GRANULARITY", "512");
        name = text("CUDASIM_NAME", "cudasim (no GPU)");
        stats = getenv("CUDASIM_STATS");
        trace = getenv("CUDASIM_TRACE");
        faults = text("CUDASIM_FAULTS", "");
        fill = getenv("CUDASIM_FILL") != nullptr;
        fill_value = fill ? atof(getenv("CUDASIM_FILL")) : 0;
        int cc = major * 10 + minor, kib = 48;
        if (cc >= 70) kib = 96;
        if (cc == 75) kib = 64;
        if (cc >= 80) kib = 163;
        if (cc == 86 || cc == 89 || cc >= 120) kib = 99;
        if (cc >= 90 && cc < 120) kib = 227;
        shared = atoi(text("CUDASIM_SHARED", std::to_string(kib << 10).c_str()));
    }
};
const Settings settings;

// ------------------------------------------------------------------------------------------------------- state

std::mutex state;
struct Counters {
    uint64_t current = 0, peak = 0, allocations = 0, frees = 0, refused = 0, largest_refused = 0;
    uint64_t pinned = 0, pinned_peak = 0, modules = 0, launches = 0, executed = 0, invalid = 0;
    uint64_t to_device = 0, to_host = 0, calls_after_fault = 0, invalid_frees = 0, bad_copies = 0;
} counters;
std::map<uint64_t, std::pair<uint64_t, uint64_t>> device_memory;   // address: asked for, charged
std::map<uint64_t, uint64_t> pinned_memory;
std::atomic<int> sticky{0};
FILE* trace = nullptr;

// The device's own clock, which events read. Real time means nothing here, so a launch takes as long as CUDASIM_CLOCK says:
// `fixed`, 1 us each, or `real`. Whoever chooses kernels by their time then always chooses the same ones.
std::atomic<uint64_t> device_nanoseconds{0};

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
const double start = now();

#define TRACE(...) do { if (trace) { fprintf(trace, "%.6f ", now() - start); fprintf(trace, __VA_ARGS__); fputc('\n', trace); } } while (0)

void write_stats() {
    if (!settings.stats) return;
    FILE* f = fopen(settings.stats, "w");
    if (!f) return;
    const Counters& c = counters;
    fprintf(f, "{\"current\": %lu, \"peak\": %lu, \"total\": %lu, \"allocations\": %lu, \"frees\": %lu, \"refused\": %lu, "
        "\"largest_refused\": %lu, \"pinned\": %lu, \"pinned_peak\": %lu, \"modules\": %lu, \"launches\": %lu, "
        "\"executed\": %lu, \"invalid_launches\": %lu, \"bytes_to_device\": %lu, \"bytes_to_host\": %lu, "
        "\"invalid_frees\": %lu, \"bad_copies\": %lu, \"fault\": %d, \"calls_after_fault\": %lu, \"seconds\": %.3f}\n",
        c.current, c.peak, settings.memory, c.allocations, c.frees, c.refused, c.largest_refused, c.pinned,
        c.pinned_peak, c.modules, c.launches, c.executed, c.invalid, c.to_device, c.to_host, c.invalid_frees,
        c.bad_copies, sticky.load(), c.calls_after_fault, now() - start);
    fclose(f);
}

struct Ends {
    Ends() { if (settings.trace) { trace = fopen(settings.trace, "w"); if (trace) setvbuf(trace, nullptr, _IOLBF, 1 << 16); } }
    ~Ends() { write_stats(); if (trace) fclose(trace); }
} ends;

// ------------------------------------------------------------------------------------------------------ faults

bool is_sticky(int code) {
    switch (code) {
        case CUDA_ERROR_ECC_UNCORRECTABLE: case CUDA_ERROR_ILLEGAL_ADDRESS: case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED: case CUDA_ERROR_ASSERT: case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION: case CUDA_ERROR_MISALIGNED_ADDRESS: case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC: case CUDA_ERROR_LAUNCH_FAILED: return true;
        default: return false;
    }
}

// CUDASIM_FAULTS=alloc:57=2,launch:900=700: the 57th allocation answers 2, the 900th launch 700, and what 700 means stays.
CUresult fault(const char* kind, uint64_t ordinal) {
    if (sticky) { counters.calls_after_fault++; return static_cast<CUresult>(sticky.load()); }
    for (const char* p = settings.faults; *p;) {
        char name[32]; unsigned long at; int code, used = 0;
        if (sscanf(p, "%31[a-z]:%lu=%d%n", name, &at, &code, &used) == 3 && !strcmp(name, kind) && at == ordinal) {
            if (is_sticky(code)) sticky = code;
            TRACE("fault %s %lu = %d", kind, ordinal, code);
            return static_cast<CUresult>(code);
        }
        p = strchr(p, ',');
        if (!p) break;
        p++;
    }
    // CUDASIM_FAULT_FILE holds `launch=700` or `alloc=2`: the next such call takes it and answers so.
    static const char* file = getenv("CUDASIM_FAULT_FILE");
    if (file && *kind) {
        if (FILE* f = fopen(file, "r")) {
            char name[32]; int code;
            bool ours = fscanf(f, "%31[a-z]=%d", name, &code) == 2 && !strcmp(name, kind);
            fclose(f);
            if (ours) {
                unlink(file);
                if (is_sticky(code)) sticky = code;
                TRACE("fault %s %lu = %d", kind, ordinal, code);
                return static_cast<CUresult>(code);
            }
        }
    }
    return CUDA_SUCCESS;
}
CUresult poisoned() { return fault("", 0); }
#define UNLESS_POISONED do { CUresult r_ = poisoned(); if (r_) return r_; } while (0)

// ------------------------------------------------------------------------------------------------------ memory

// Memory that reads as one number until it is written, backed by one page for all of it.
char* map_filled(size_t size) {
    constexpr size_t PIECE = 2 << 20;
    static int file = [] {
        int f = memfd_create("cudasim", 0);
        std::vector<float> pattern(PIECE / 4, settings.fill_value);
        if (write(f, pattern.data(), PIECE) != static_cast<ssize_t>(PIECE)) abort();
        return f;
    }();
    char* at = static_cast<char*>(mmap(nullptr, size + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (at == MAP_FAILED) return nullptr;
    for (size_t done = 0; done < size; done += PIECE) {
        size_t piece = size - done < PIECE ? size - done : PIECE;
        if (mmap(at + done, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) return nullptr;
    }
    return at;
}

// Lazily mapped, with a page behind it that may not be touched.
char* map(size_t size) {
    size_t whole = (size + 4095) & ~size_t(4095);
    if (settings.fill) return map_filled(whole);
    char* at = static_cast<char*>(mmap(nullptr, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (at == MAP_FAILED) return nullptr;
    mprotect(at + whole, 4096, PROT_NONE);
    return at;
}

void unmap(uint64_t at, size_t size) { munmap(reinterpret_cast<void*>(at), ((size + 4095) & ~size_t(4095)) + 4096); }

CUresult allocate(CUdeviceptr* out, size_t size) {
    std::lock_guard<std::mutex> lock(state);
    counters.allocations++;
    if (CUresult r = fault("alloc", counters.allocations)) return r;
    if (!size) return CUDA_ERROR_INVALID_VALUE;
    uint64_t charged = (size + settings.granularity - 1) / settings.granularity * settings.granularity;
    if (settings.context + counters.current + charged > settings.memory) {
        counters.refused++;
        if (size > counters.largest_refused) counters.largest_refused = size;
        TRACE("refused %lu with %lu in use", size, counters.current);
        write_stats();
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    char* at = map(size);
    if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = reinterpret_cast<uint64_t>(at);
    device_memory[*out] = {size, charged};
    counters.current += charged;
    if (counters.current > counters.peak) counters.peak = counters.current;
    TRACE("alloc %llx %lu in use %lu", *out, size, counters.current);
    return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr at) {
    std::lock_guard<std::mutex> lock(state);
    UNLESS_POISONED;
    auto found = device_memory.find(at);
    if (found == device_memory.end()) { counters.invalid_frees++; return CUDA_ERROR_INVALID_VALUE; }
    counters.frees++;
    counters.current -= found->second.second;
    TRACE("free %llx %lu in use %lu", at, found->second.first, counters.current);
    unmap(at, found->second.first);
    device_memory.erase(found);
    return CUDA_SUCCESS;
}

// Whether a range lies in one allocation of the device.
bool is_device(uint64_t at, uint64_t size) {
    std::lock_guard<std::mutex> lock(state);
    auto next = device_memory.upper_bound(at);
    if (next == device_memory.begin()) return false;
    --next;
    bool inside = at + size <= next->first + next->second.first;
    if (!inside) counters.bad_copies++;
    return inside;
}

// How many arguments a kernel takes stands in the source beside its library.
unsigned arguments_of(const cudasim::Kernel* kernel, const std::string& library) {
    static std::map<const cudasim::Kernel*, unsigned> known;
    unsigned& count = known[kernel];
    if (count) return count;
    std::string source = library.substr(0, library.size() - 2) + "cpp";
    if (FILE* f = fopen(source.c_str(), "r")) {
        std::vector<char> all(1 << 22);
        all.resize(fread(all.data(), 1, all.size() - 1, f) + 1);
        fclose(f);
        const char* p = strstr(all.data(), kernel->name);
        for (count = 1; p && *p != ')'; p++) count += *p == ',';
    }
    return count;
}

// CUDASIM_DUMP=forward_f:FOLDER writes what the buffers of such kernels hold after each launch, up to CUDASIM_DUMP_BYTES each.
void dump(const cudasim::Kernel* kernel, const std::string& library, uint64_t ordinal, void** arguments) {
    static const std::string setting = text("CUDASIM_DUMP", "");
    size_t colon = setting.find(':');
    if (colon == std::string::npos || strncmp(kernel->name, setting.c_str(), colon) || !strncmp(kernel->name, "launch_overhead", 15)) return;
    unsigned count = arguments_of(kernel, library);
    for (unsigned i = 0; i < count; i++) {
        uint64_t at = *static_cast<uint64_t*>(arguments[i]);
        auto next = device_memory.upper_bound(at);
        if (next == device_memory.begin()) continue;
        --next;
        static const uint64_t limit = bytes("CUDASIM_DUMP_BYTES", "4MiB");
        uint64_t left = next->first + next->second.first - at;
        std::string path = setting.substr(colon + 1) + "/" + std::to_string(ordinal) + "-" + kernel->name + "-" + std::to_string(i);
        if (FILE* f = fopen(path.c_str(), "wb")) {
            fwrite(reinterpret_cast<void*>(at), 1, std::min<uint64_t>(left, limit), f);
            fclose(f);
        }
    }
}

// ----------------------------------------------------------------------------------------------------- modules

struct Function {
    std::string name;
    unsigned most_threads = 1024;
    int dynamic_shared = 48 << 10;
    const cudasim::Kernel* kernel = nullptr;
    std::string library;
    bool probe = false;   // measures how fast the device is: nothing here is worth measuring, so it is not run
};

struct Module {
    std::map<std::string, Function> functions;
    void* library = nullptr;
};

constexpr char HOST[] = "cudasim host library ";

// The entries of a PTX text, with the threads they were compiled for.
void read_ptx(const char* ptx, Module& module) {
    for (const char* p = strstr(ptx, ".entry "); p; p = strstr(p, ".entry ")) {
        p += 7;
        const char* end = strpbrk(p, "( \n\t");
        if (!end) return;
        Function f;
        f.name.assign(p, end);
        const char* body = strchr(end, '{');
        const char* threads = strstr(end, ".maxntid ");
        if (threads && body && threads < body) {
            unsigned x = 1, y = 1, z = 1;
            sscanf(threads, ".maxntid %u, %u, %u", &x, &y, &z);
            f.most_threads = x * y * z;
        }
        module.functions[f.name] = f;
        p = end;
    }
}

}

// ---------------------------------------------------------------------------------------------- the driver's API

#pragma GCC visibility push(default)
extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { *version = 12080; return CUDA_SUCCESS; }

static const struct { CUresult code; const char *name, *text; } ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};
CUresult cuGetErrorString(CUresult error, const char** out) {
    for (auto& e : ERRORS) if (e.code == error) { *out = e.text; return CUDA_SUCCESS; }
    *out = "an error cudasim has no words for"; return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult error, const char** out) {
    for (auto& e : ERRORS) if (e.code == error) { *out = e.name; return CUDA_SUCCESS; }
    *out = "CUDA_ERROR_UNKNOWN"; return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) { *count = settings.devices; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    if (ordinal < 0 || ordinal >= settings.devices) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal; return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) { snprintf(name, size, "%s", settings.name); return CUDA_SUCCESS; }
CUresult cuDeviceTotalMem(size_t* size, CUdevice) { *size = settings.memory; return CUDA_SUCCESS; }
CUresult cuDeviceGetPCIBusId(char* out, int size, CUdevice device) { snprintf(out, size, "0000:%02X:00.0", device + 1); return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = settings.major; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = settings.minor; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = settings.shared; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = settings.sms; break;
        default: fprintf(stderr, "cudasim: attribute %d is not known\n", attribute); return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) { *out = reinterpret_cast<CUcontext>(uintptr_t(device) + 1); return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext* out) { *out = reinterpret_cast<CUcontext>(1); return CUDA_SUCCESS; }
CUresult cuCtxSynchronize() { return poisoned(); }
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) { *least = 0; *greatest = -5; return CUDA_SUCCESS; }

CUresult cuMemGetInfo(size_t* free, size_t* total) {
    std::lock_guard<std::mutex> lock(state);
    *total = settings.memory;
    *free = settings.memory - settings.context - counters.current;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* out, size_t size) { return allocate(out, size); }
CUresult cuMemAllocAsync(CUdeviceptr* out, size_t size, CUstream) { return allocate(out, size); }
CUresult cuMemFree(CUdeviceptr at) { return release(at); }
CUresult cuMemFreeAsync(CUdeviceptr at, CUstream) { return release(at); }

CUresult cuMemAllocHost(void** out, size_t size) {
    UNLESS_POISONED;
    if (posix_memalign(out, 4096, size ? size : 1)) return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard<std::mutex> lock(state);
    pinned_memory[reinterpret_cast<uint64_t>(*out)] = size;
    counters.pinned += size;
    if (counters.pinned > counters.pinned_peak) counters.pinned_peak = counters.pinned;
    return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* at) {
    std::lock_guard<std::mutex> lock(state);
    auto found = pinned_memory.find(reinterpret_cast<uint64_t>(at));
    if (found == pinned_memory.end()) return CUDA_ERROR_INVALID_VALUE;
    counters.pinned -= found->second;
    pinned_memory.erase(found);
    free(at);
    return CUDA_SUCCESS;
}

static CUresult copy(void* to, const void* from, size_t size, uint64_t device, uint64_t* counter) {
    UNLESS_POISONED;
    if (!size) return CUDA_SUCCESS;
    if (!is_device(device, size)) return CUDA_ERROR_INVALID_VALUE;
    if (counter) *counter += size;
    memmove(to, from, size);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t size, CUstream) { return copy(reinterpret_cast<void*>(to), from, size, to, &counters.to_device); }
CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t size, CUstream) { return copy(to, reinterpret_cast<void*>(from), size, from, &counters.to_host); }
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream) {
    if (size && !is_device(to, size)) return CUDA_ERROR_INVALID_VALUE;
    return copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size, from, nullptr);
}
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* c, CUstream) {
    UNLESS_POISONED;
    if (!c->Height || !c->WidthInBytes) return CUDA_SUCCESS;
    auto side = [&](CUmemorytype type, const void* host, CUdeviceptr device, size_t pitch, size_t x, size_t y) -> char* {
        if (c->WidthInBytes > pitch) return nullptr;
        if (type == CU_MEMORYTYPE_HOST) return const_cast<char*>(static_cast<const char*>(host)) + y * pitch + x;
        uint64_t at = device + y * pitch + x;
        return is_device(at, (c->Height - 1) * pitch + c->WidthInBytes) ? reinterpret_cast<char*>(at) : nullptr;
    };
    char* from = side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->srcXInBytes, c->srcY);
    char* to = side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->dstXInBytes, c->dstY);
    if (!from || !to) return CUDA_ERROR_INVALID_VALUE;
    (c->dstMemoryType == CU_MEMORYTYPE_HOST ? counters.to_host : counters.to_device) += c->WidthInBytes * c->Height;
    for (size_t row = 0; row < c->Height; row++) memcpy(to + row * c->dstPitch, from + row * c->srcPitch, c->WidthInBytes);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* out, unsigned) { *out = reinterpret_cast<CUstream>(new int(0)); return poisoned(); }
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int) { return cuStreamCreate(out, flags); }
CUresult cuStreamDestroy(CUstream stream) { delete reinterpret_cast<int*>(stream); return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) { return poisoned(); }
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return poisoned(); }
CUresult cuStreamQuery(CUstream) { return poisoned(); }

CUresult cuEventCreate(CUevent* out, unsigned) { *out = reinterpret_cast<CUevent>(new double(0)); return poisoned(); }
CUresult cuEventDestroy(CUevent event) { delete reinterpret_cast<double*>(event); return CUDA_SUCCESS; }
CUresult cuEventRecord(CUevent event, CUstream) {
    static const bool real = !strcmp(text("CUDASIM_CLOCK", "fixed"), "real");
    *reinterpret_cast<double*>(event) = real ? now() : device_nanoseconds * 1e-9;
    return poisoned();
}
CUresult cuEventSynchronize(CUevent) { return poisoned(); }
CUresult cuEventQuery(CUevent) { return poisoned(); }

CUresult cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
    *ms = (*reinterpret_cast<double*>(to) - *reinterpret_cast<double*>(from)) * 1e3;
    if (*ms < 1e-3f) *ms = 1e-3f;
    return poisoned();
}
CUresult cuEventElapsedTime_v2(float* ms, CUevent from, CUevent to) { return cuEventElapsedTime(ms, from, to); }

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    std::lock_guard<std::mutex> lock(state);
    counters.modules++;
    if (CUresult r = fault("module", counters.modules)) return r;
    const char* text = static_cast<const char*>(image);
    Module* module = new Module();
    // What the stand-in for NVRTC compiled for the host comes before the PTX, as a comment.
    const char* host = strstr(text, HOST);
    if (host && host < text + 64) {
        std::string path(host + strlen(HOST), strcspn(host + strlen(HOST), "\n"));
        module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        auto kernel = module->library ? static_cast<const cudasim::Kernel*>(dlsym(module->library, "cudasim_kernel")) : nullptr;
        if (!kernel) { fprintf(stderr, "cudasim: %s\n", dlerror()); delete module; return CUDA_ERROR_INVALID_IMAGE; }
        Function f;
        f.name = kernel->name;
        f.most_threads = kernel->most_threads;
        f.kernel = kernel;
        f.library = path;
        module->functions[f.name] = f;
    } else {
        read_ptx(text, *module);
    }
    if (module->functions.empty()) { delete module; return CUDA_ERROR_INVALID_IMAGE; }
    *out = reinterpret_cast<CUmodule>(module);
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
    auto& functions = reinterpret_cast<Module*>(module)->functions;
    auto found = functions.find(name);
    if (found == functions.end()) return CUDA_ERROR_NOT_FOUND;
    for (const char* probe : {"compute_direct_throughput", "memory_direct_throughput", "memory_read_throughput", "memory_write_throughput",
                              "compute_cmma_throughput", "prime_buffer"})
        found->second.probe |= !strncmp(name, probe, strlen(probe));
    *out = reinterpret_cast<CUfunction>(&found->second);
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    UNLESS_POISONED;
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > settings.shared) return CUDA_ERROR_INVALID_VALUE;
        reinterpret_cast<Function*>(function)->dynamic_shared = value > (48 << 10) ? value : 48 << 10;
    }
    return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, CUstream, void** arguments, void**) {
    uint64_t ordinal;
    {
        std::lock_guard<std::mutex> lock(state);
        ordinal = ++counters.launches;
        bool well = !sticky;
        // A kernel fails after the call that launched it has returned: the next call is told.
        if (CUresult r = fault("launch", ordinal)) return well && sticky ? CUDA_SUCCESS : r;
    }
    Function* f = reinterpret_cast<Function*>(function);
    uint64_t threads = uint64_t(bx) * by * bz;
    if (!gx || !gy || !gz || !threads || threads > 1024 || bz > 64 || gx > 2147483647u || gy > 65535 || gz > 65535
        || int(shared) > f->dynamic_shared || threads > f->most_threads) {
        counters.invalid++;
        TRACE("invalid launch %s grid %u %u %u block %u %u %u shared %u of %d", f->name.c_str(), gx, gy, gz, bx, by, bz, shared, f->dynamic_shared);
        return CUDA_ERROR_INVALID_VALUE;
    }
    double from = now();
    static const bool trace_arguments = getenv("CUDASIM_TRACE_ARGUMENTS") != nullptr;
    if (trace && trace_arguments && f->kernel && !f->probe) {
        fprintf(trace, "arguments %lu %s", ordinal, f->name.c_str());
        for (unsigned i = 0, n = arguments_of(f->kernel, f->library); i < n; i++) fprintf(trace, " %lx", *static_cast<uint64_t*>(arguments[i]));
        fputc('\n', trace);
    }
    device_nanoseconds += f->probe ? 21000000 : 1000;
    if (f->probe) {
        // Not run: what it measures means nothing.
    } else if (f->kernel) { cudasim::launch(f->kernel, {gx, gy, gz}, {bx, by, bz}, arguments); counters.executed++; dump(f->kernel, f->library, ordinal, arguments); }
    TRACE("launch %lu %s grid %u %u %u block %u %u %u shared %u took %.6f", ordinal, f->name.c_str(), gx, gy, gz, bx, by, bz, shared, now() - from);
    return CUDA_SUCCESS;
}

// Tensor maps are for the bulk copies of compute capability 9.0; their content is ours to choose.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*, const cuuint64_t*,
    const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    if (rank < 1 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map); return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, const int*,
    const int*, cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    memset(map, 0, sizeof *map); return CUDA_SUCCESS;
}
CUresult cuTensorMapEncodeIm2colWide(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*, int, int,
    cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    memset(map, 0, sizeof *map); return CUDA_SUCCESS;
}

// Captured graphs are refused: Kindling captures none.
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return CUDA_ERROR_NOT_SUPPORTED; }

// For tests in the same process.
void cudasim_write_stats() { std::lock_guard<std::mutex> lock(state); write_stats(); }

}
#pragma GCC visibility pop
