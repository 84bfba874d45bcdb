// Counters and the trace.
#include <cstdarg>
#include <cstdlib>
#include <ctime>

#include "settings.h"
#include "state.h"

namespace cudasim {
namespace {

double clock_seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
const double start = clock_seconds();

// Opens the trace when the library is loaded, and writes what there is to say when the process ends.
struct Ends {
    Ends() {
        const char* path = getenv("CUDASIM_TRACE");
        trace_file = path ? fopen(path, "w") : nullptr;
        if (trace_file) setvbuf(trace_file, nullptr, _IOLBF, 1 << 16);
    }
    ~Ends() {
        std::lock_guard<std::mutex> lock(guard);
        write_stats();
    }
} ends;

}

std::mutex guard;
Counters counters;
FILE* trace_file;

double now() { return clock_seconds() - start; }

void trace(const char* format, ...) {
    if (!trace_file) return;
    va_list values;
    va_start(values, format);
    flockfile(trace_file);  // a line stays whole
    fprintf(trace_file, "%.6f ", now());
    vfprintf(trace_file, format, values);
    fputc('\n', trace_file);
    funlockfile(trace_file);
    va_end(values);
}

void write_stats() {
    const char* path = getenv("CUDASIM_STATS");
    FILE* file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    const Counters& c = counters;
    const struct { const char* name; uint64_t value; } all[] = {
        {"current", c.current}, {"peak", c.peak}, {"allocations", c.allocations}, {"frees", c.frees},
        {"live_allocations", c.live_allocations}, {"most_allocations", c.most_allocations}, {"refused", c.refused},
        {"largest_refused", c.largest_refused}, {"invalid_frees", c.invalid_frees}, {"pinned", c.pinned},
        {"pinned_peak", c.pinned_peak}, {"live_pinned", c.live_pinned}, {"streams", c.streams},
        {"live_streams", c.live_streams}, {"events", c.events}, {"live_events", c.live_events}, {"modules", c.modules},
        {"live_modules", c.live_modules}, {"graphs", c.graphs}, {"live_graphs", c.live_graphs},
        {"graph_launches", c.graph_launches}, {"launches", c.launches}, {"executed", c.executed},
        {"invalid_launches", c.invalid_launches}, {"copies", c.copies}, {"bytes_to_device", c.bytes_to_device},
        {"bytes_to_host", c.bytes_to_host}, {"bad_copies", c.bad_copies}, {"synchronizations", c.synchronizations},
        {"calls_after_fault", c.calls_after_fault},
    };
    fputc('{', file);
    for (auto& one : all) fprintf(file, "\"%s\": %lu, ", one.name, one.value);
    fprintf(file, "\"total\": %lu, \"fault\": %d, \"seconds\": %.3f}\n",
            settings.devices.empty() ? 0 : settings.devices[0].memory, int(poisoned()), now());
    fclose(file);
}

}

// For tests in the same process.
EXPORTED void cudasim_write_stats() {
    std::lock_guard<std::mutex> lock(cudasim::guard);
    cudasim::write_stats();
}
