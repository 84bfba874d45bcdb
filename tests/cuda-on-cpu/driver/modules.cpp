// Modules, functions and launches.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../machine/blocks.h"
#include "memory.h"
#include "settings.h"
#include "state.h"
#include "streams.h"

using namespace cudasim;

namespace {

struct Function {
    std::string name;
    unsigned most_threads = 1024;
    int dynamic_shared = 48 << 10;
    const Kernel* kernel = nullptr;  // none where only PTX was made: then launches do nothing
    std::vector<size_t> sizes;       // of its arguments, in bytes
    uint64_t code = 0;               // a number that stands for the code
    bool probe = false;
};

struct Module {
    std::map<std::string, Function> functions;
};

// What the stand-in for NVRTC writes before the PTX where it compiled for the host: a comment with the library's path.
constexpr char HOST[] = "// CUDA on CPU, library ";

uint64_t number_of(const char* text, size_t length) {
    uint64_t sum = 14695981039346656037ull;
    for (size_t i = 0; i < length; i++) sum = (sum ^ static_cast<unsigned char>(text[i])) * 1099511628211ull;
    return sum;
}

// The bytes of each parameter of an entry: `.param .u64 a` or `.param .align 8 .b8 a[96]`.
std::vector<size_t> sizes_of(const char* from, const char* to) {
    std::vector<size_t> sizes;
    for (const char* p = strstr(from, ".param "); p && p < to; p = strstr(p + 1, ".param ")) {
        const char *end = strpbrk(p, ",)"), *bracket = strchr(p, '[');
        sizes.push_back(bracket && end && bracket < end ? strtoul(bracket + 1, nullptr, 10) : 8);
    }
    return sizes;
}

// The entries of a PTX text, with the threads they were compiled for.
void read_ptx(const char* ptx, Module& module) {
    for (const char* p = strstr(ptx, ".entry "); p; p = strstr(p, ".entry ")) {
        p += strlen(".entry ");
        const char* end = strpbrk(p, "( \n\t");
        if (!end) return;
        Function f;
        f.name.assign(p, end);
        const char *body = strchr(end, '{'), *threads = strstr(end, ".maxntid ");
        if (threads && body && threads < body) {
            unsigned x = 1, y = 1, z = 1;
            sscanf(threads, ".maxntid %u, %u, %u", &x, &y, &z);
            f.most_threads = x * y * z;
        }
        f.sizes = sizes_of(end, body ? body : end);
        f.code = number_of(p, strlen(p));
        module.functions[f.name] = f;
        p = end;
    }
}

bool load_library(const std::string& path, Module& module) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto kernel = library ? static_cast<const Kernel*>(dlsym(library, "cudasim_kernel")) : nullptr;
    if (!kernel) {
        fprintf(stderr, "CUDA on CPU cannot load a kernel: %s\n", dlerror());
        return false;
    }
    Function f;
    f.name = kernel->name;
    f.most_threads = kernel->most_threads;
    f.kernel = kernel;
    for (unsigned i = 0; i < kernel->arguments; i++) f.sizes.push_back(kernel->sizes[i]);
    size_t slash = path.rfind('/');  // the name of the file stands for what is in it
    f.code = number_of(path.c_str() + slash + 1, path.size() - slash - 1);
    module.functions[f.name] = f;
    return true;
}

// CUDASIM_SKIP: kernels whose names begin so are not run, only take long. They measure how fast the device is, and there
// is nothing to measure; some do it with the host's clock, and repeat more and more until some time has passed.
bool is_skipped(const std::string& name) {
    static const std::string list = setting("CUDASIM_SKIP",
        "compute_direct_throughput,memory_direct_throughput,memory_read_throughput,memory_write_throughput,"
        "compute_cmma_throughput,launch_overhead,prime_buffer");
    for (size_t from = 0; from < list.size();) {
        size_t to = std::min(list.find(',', from), list.size());
        if (to > from && !name.compare(0, to - from, list, from, to - from)) return true;
        from = to + 1;
    }
    return false;
}

struct Launch {
    Function* function;
    Dim grid, block;
    unsigned shared;
    uint64_t ordinal;
};

// Addresses, and the bytes of what is passed by value.
void trace_arguments(const Launch& launch, void** arguments) {
    static const bool wanted = getenv("CUDASIM_TRACE_ARGUMENTS") != nullptr;
    if (!trace_file || !wanted) return;
    std::string line = "arguments " + std::to_string(launch.ordinal) + " " + launch.function->name;
    const std::vector<size_t>& sizes = launch.function->sizes;
    for (size_t i = 0; i < sizes.size(); i++) {
        char word[32];
        snprintf(word, sizeof word, " %lx", sizes[i] == 8 ? *static_cast<uint64_t*>(arguments[i]) : 0);
        line += sizes[i] == 8 ? word : " =";
        for (size_t at = 0; sizes[i] != 8 && at < sizes[i]; at++) {
            snprintf(word, sizeof word, "%02x", static_cast<unsigned char*>(arguments[i])[at]);
            line += word;
        }
    }
    trace("%s", line.c_str());
}

// CUDASIM_DUMP=forward_f:FOLDER writes what the buffers of kernels of such names hold after each launch, up to
// CUDASIM_DUMP_BYTES each.
void dump(const Launch& launch, void** arguments) {
    static const std::string wanted = setting("CUDASIM_DUMP", "");
    static const uint64_t limit = bytes_of(setting("CUDASIM_DUMP_BYTES", "4MiB"));
    const Function& f = *launch.function;
    size_t colon = wanted.find(':');
    if (colon == std::string::npos || f.name.compare(0, colon, wanted, 0, colon)) return;
    std::lock_guard<std::mutex> lock(guard);
    for (unsigned i = 0; i < f.kernel->arguments; i++) {
        uint64_t at = f.kernel->sizes[i] == 8 ? *static_cast<uint64_t*>(arguments[i]) : 0, there = bytes_behind(at);
        if (!there) continue;
        std::string path = wanted.substr(colon + 1) + "/" + std::to_string(launch.ordinal) + "-" + f.name + "-" + std::to_string(i);
        if (FILE* file = fopen(path.c_str(), "wb")) {
            fwrite(reinterpret_cast<void*>(at), 1, std::min(there, limit), file);
            fclose(file);
        }
    }
}

CUresult run(const Launch& launch, void** arguments) {
    const Function& f = *launch.function;
    double from = now();
    trace_arguments(launch, arguments);
    pass_time(f.code, f.probe);
    if (f.probe && f.name.compare(0, 5, "prime") && f.name.compare(0, 15, "launch_overhead")) usleep(21000);
    if (f.kernel && !f.probe) {
        std::string wrong = run_blocks(*f.kernel, launch.grid, launch.block, arguments);
        if (!wrong.empty()) {
            fprintf(stderr, "CUDA on CPU stopped kernel %s: %s\n", f.name.c_str(), wrong.c_str());
            trace("stopped %s: %s", f.name.c_str(), wrong.c_str());
            poison(CUDA_ERROR_LAUNCH_TIMEOUT);
        }
        std::lock_guard<std::mutex> lock(guard);
        counters.executed++;
    }
    if (f.kernel && !f.probe) dump(launch, arguments);
    trace("launch %lu %s grid %u %u %u block %u %u %u shared %u took %.6f", launch.ordinal, f.name.c_str(), launch.grid.x,
          launch.grid.y, launch.grid.z, launch.block.x, launch.block.y, launch.block.z, launch.shared, now() - from);
    return CUDA_SUCCESS;
}

// A copy of a launch's arguments, for a graph that is launched later.
struct Arguments {
    std::vector<std::vector<char>> values;
    Arguments(const Kernel* kernel, void** from) {
        for (unsigned i = 0; kernel && i < kernel->arguments; i++) {
            char* at = static_cast<char*>(from[i]);
            values.emplace_back(at, at + kernel->sizes[i]);
        }
    }
    std::vector<void*> pointers() {
        std::vector<void*> all;
        for (auto& value : values) all.push_back(value.data());
        return all;
    }
};

}

EXPORTED CUresult cuModuleLoadData(CUmodule* out, const void* image) {
    std::lock_guard<std::mutex> lock(guard);
    counters.modules++;
    if (CUresult wrong = fault("module", counters.modules)) return wrong;
    // A driver does not read what a newer compiler wrote.
    if (settings.driver_version < settings.nvrtc_version) return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    const char* text = static_cast<const char*>(image);
    Module* module = new Module();
    if (!strncmp(text, HOST, strlen(HOST))) {
        const char* path = text + strlen(HOST);
        load_library(std::string(path, strcspn(path, "\n")), *module);
    } else {
        read_ptx(text, *module);
    }
    if (module->functions.empty()) {
        delete module;
        return CUDA_ERROR_INVALID_IMAGE;
    }
    counters.live_modules++;
    *out = reinterpret_cast<CUmodule>(module);
    return CUDA_SUCCESS;
}
// The library stays loaded: a program may unload a module while a launch of it is still in a graph.
EXPORTED CUresult cuModuleUnload(CUmodule module) {
    std::lock_guard<std::mutex> lock(guard);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    counters.live_modules--;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
    std::lock_guard<std::mutex> lock(guard);
    auto& functions = reinterpret_cast<Module*>(module)->functions;
    auto found = functions.find(name);
    if (found == functions.end()) return CUDA_ERROR_NOT_FOUND;
    found->second.probe = is_skipped(found->first);
    *out = reinterpret_cast<CUfunction>(&found->second);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    UNLESS_POISONED;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    if (value < 0 || value > settings.devices[current_device()].shared) return CUDA_ERROR_INVALID_VALUE;
    reinterpret_cast<Function*>(function)->dynamic_shared = std::max(value, 48 << 10);
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                 unsigned shared, CUstream stream, void** arguments, void**) {
    Launch launch = {reinterpret_cast<Function*>(function), {gx, gy, gz}, {bx, by, bz}, shared, 0};
    {
        std::lock_guard<std::mutex> lock(guard);
        launch.ordinal = ++counters.launches;
        bool well = !poisoned();
        CUresult wrong = fault("launch", launch.ordinal);
        // A kernel fails after the call that launched it has returned: the next call is told.
        if (wrong) return well && poisoned() ? CUDA_SUCCESS : wrong;
        const Function& f = *launch.function;
        uint64_t threads = uint64_t(bx) * by * bz;
        const Dim cluster = f.kernel ? f.kernel->cluster : Dim{1, 1, 1};
        if (!gx || !gy || !gz || !threads || threads > 1024 || bz > 64 || gx > 2147483647u || gy > 65535 || gz > 65535 ||
            int(shared) > f.dynamic_shared || threads > f.most_threads || gx % cluster.x || gy % cluster.y || gz % cluster.z) {
            counters.invalid_launches++;
            trace("invalid launch %s grid %u %u %u block %u %u %u shared %u of %d", f.name.c_str(), gx, gy, gz, bx, by, bz, shared,
                  f.dynamic_shared);
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    if (!is_captured(stream)) return run(launch, arguments);
    Arguments kept(launch.function->kernel, arguments);
    return enqueue(stream, [launch, kept]() mutable { return run(launch, kept.pointers().data()); });
}
