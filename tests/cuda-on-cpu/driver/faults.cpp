// Errors on demand.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "settings.h"
#include "state.h"

namespace cudasim {
namespace {

std::atomic<int> stays{0};

// Faults after which the context cannot be used any more: every later call answers the same.
bool is_fatal(int code) {
    switch (code) {
        case CUDA_ERROR_ECC_UNCORRECTABLE: case CUDA_ERROR_ILLEGAL_ADDRESS: case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED: case CUDA_ERROR_ASSERT: case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION: case CUDA_ERROR_MISALIGNED_ADDRESS: case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC: case CUDA_ERROR_LAUNCH_FAILED: return true;
        default: return false;
    }
}

CUresult answer(const char* kind, uint64_t ordinal, int code) {
    if (is_fatal(code)) stays = code;
    trace("fault %s %lu = %d", kind, ordinal, code);
    return static_cast<CUresult>(code);
}

}

void poison(CUresult code) { stays = code; }

CUresult poisoned() {
    if (!stays) return CUDA_SUCCESS;
    counters.calls_after_fault++;
    return static_cast<CUresult>(stays.load());
}

// CUDASIM_FAULTS=alloc:57=2,launch:900=700: the 57th allocation answers 2, the 900th launch 700, and what 700 means stays.
// `alloc:57+=2`: the 57th and every later one.
CUresult fault(const char* kind, uint64_t ordinal) {
    if (CUresult fatal = poisoned()) return fatal;
    static const std::string faults = setting("CUDASIM_FAULTS", "");
    for (const char* p = faults.c_str(); *p;) {
        char name[32], later[2] = "";
        unsigned long at;
        int code;
        bool here = sscanf(p, "%31[a-z]:%lu=%d", name, &at, &code) == 3 && at == ordinal;
        here |= sscanf(p, "%31[a-z]:%lu%1[+]=%d", name, &at, later, &code) == 4 && at <= ordinal;
        if (here && !strcmp(name, kind)) return answer(kind, ordinal, code);
        p = strchr(p, ',');
        if (!p) break;
        p++;
    }
    // CUDASIM_FAULT_FILE holds `launch=700` or `alloc=2`: the next such call takes it and answers so.
    static const char* path = getenv("CUDASIM_FAULT_FILE");
    if (FILE* file = path ? fopen(path, "r") : nullptr) {
        char name[32];
        int code;
        bool ours = fscanf(file, "%31[a-z]=%d", name, &code) == 2 && !strcmp(name, kind);
        fclose(file);
        if (ours) {
            unlink(path);
            return answer(kind, ordinal, code);
        }
    }
    return CUDA_SUCCESS;
}

}
