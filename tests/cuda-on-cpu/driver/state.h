// What all parts of the driver share: counters, the trace, faults on demand, the device that is current.
#pragma once
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "../api/cuda.h"

namespace cudasim {

// Counters for the whole process. What is `live` must go down again, or something leaks.
struct Counters {
    uint64_t current = 0, peak = 0;  // bytes of device memory, of all devices together
    uint64_t allocations = 0, frees = 0, refused = 0, largest_refused = 0, invalid_frees = 0;
    uint64_t live_allocations = 0, most_allocations = 0;
    uint64_t pinned = 0, pinned_peak = 0, live_pinned = 0;
    uint64_t streams = 0, live_streams = 0, events = 0, live_events = 0, modules = 0, live_modules = 0;
    uint64_t graphs = 0, live_graphs = 0, graph_launches = 0;
    uint64_t launches = 0, executed = 0, invalid_launches = 0;
    uint64_t bytes_to_device = 0, bytes_to_host = 0, copies = 0, bad_copies = 0, synchronizations = 0;
    uint64_t calls_after_fault = 0;
};

// Guards counters and tables. Calls of the driver may come from any thread.
extern std::mutex guard;
extern Counters counters;

// Writes the counters to the file CUDASIM_STATS as one JSON object. Also done when the process ends, and whenever an
// allocation is refused, for the process may not survive that. The caller holds `guard`.
void write_stats();

// A line in the file CUDASIM_TRACE, with the seconds since the start.
extern FILE* trace_file;
void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Seconds since the driver was loaded.
double now();

// The fault that has made the context unusable, or success. Every call asks first.
CUresult poisoned();
// As `poisoned`; and counts this call as the `ordinal`-th of its kind, which CUDASIM_FAULTS may name.
CUresult fault(const char* kind, uint64_t ordinal);
// From now on every call answers so.
void poison(CUresult code);

// The device whose context is current on this thread, an index into settings.devices.
int current_device();
}

#define UNLESS_POISONED do { CUresult poisoned_ = cudasim::poisoned(); if (poisoned_) return poisoned_; } while (0)
#define EXPORTED extern "C" __attribute__((visibility("default")))
