// Streams, events, the device's clock, and captured graphs. Everything is done at once, in the order it is asked for.
#include "streams.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "settings.h"
#include "state.h"

using namespace cudasim;

namespace {

struct Graph { std::vector<std::function<CUresult()>> work; };
struct Stream { Graph* captured = nullptr; };
struct Event { double seconds = 0; };

Stream* of(CUstream stream) { return reinterpret_cast<Stream*>(stream); }
Event* of(CUevent event) { return reinterpret_cast<Event*>(event); }
Graph* of(CUgraph graph) { return reinterpret_cast<Graph*>(graph); }
Graph* of(CUgraphExec graph) { return reinterpret_cast<Graph*>(graph); }

// The streams that CUDA has without being asked: 0, 1 and 2.
bool is_own(CUstream stream) { return reinterpret_cast<uintptr_t>(stream) > 2; }

enum class Clock { Fixed, Real, Seed, Falling };
struct ClockSetting {
    Clock kind = Clock::Fixed;
    uint64_t seed = 0;
    ClockSetting() {
        std::string text = setting("CUDASIM_CLOCK", "fixed");
        if (text == "real") kind = Clock::Real;
        if (text == "falling") kind = Clock::Falling;
        if (!text.compare(0, 5, "seed:")) {
            kind = Clock::Seed;
            seed = strtoull(text.c_str() + 5, nullptr, 10);
        }
    }
};
const ClockSetting clock_setting;
std::atomic<uint64_t> nanoseconds{0};

// A number without a pattern from two.
uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t x = a ^ (b * 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

uint64_t live(uint64_t& count, int by) {
    std::lock_guard<std::mutex> lock(guard);
    return count += by;
}

}

CUresult cudasim::enqueue(CUstream stream, std::function<CUresult()> work) {
    if (!is_captured(stream)) return work();
    of(stream)->captured->work.push_back(std::move(work));
    return CUDA_SUCCESS;
}

bool cudasim::is_captured(CUstream stream) { return is_own(stream) && of(stream)->captured; }

void cudasim::pass_time(uint64_t kernel, bool probe) {
    // A probe of the device's speed must seem to take long, so that no kernel seems too slow for it.
    if (probe) nanoseconds += 25000000;
    else if (clock_setting.kind == Clock::Seed) nanoseconds += 1000000 + mixed(kernel, clock_setting.seed) % 1000000;
    else nanoseconds += 1000;
}

EXPORTED CUresult cuStreamCreate(CUstream* out, unsigned) {
    UNLESS_POISONED;
    *out = reinterpret_cast<CUstream>(new Stream());
    live(counters.streams, 1);
    live(counters.live_streams, 1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int) { return cuStreamCreate(out, flags); }
EXPORTED CUresult cuStreamDestroy(CUstream stream) {
    if (!is_own(stream)) return CUDA_ERROR_INVALID_HANDLE;
    delete of(stream);
    live(counters.live_streams, -1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamSynchronize(CUstream stream) {
    if (is_captured(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    live(counters.synchronizations, 1);
    return poisoned();
}
EXPORTED CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned) { return poisoned(); }
EXPORTED CUresult cuStreamQuery(CUstream) { return poisoned(); }

EXPORTED CUresult cuEventCreate(CUevent* out, unsigned) {
    UNLESS_POISONED;
    *out = reinterpret_cast<CUevent>(new Event());
    live(counters.events, 1);
    live(counters.live_events, 1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuEventDestroy(CUevent event) {
    delete of(event);
    live(counters.live_events, -1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuEventRecord(CUevent event, CUstream) {
    of(event)->seconds = clock_setting.kind == Clock::Real ? now() : nanoseconds * 1e-9;
    return poisoned();
}
EXPORTED CUresult cuEventSynchronize(CUevent) {
    live(counters.synchronizations, 1);
    return poisoned();
}
EXPORTED CUresult cuEventQuery(CUevent) { return poisoned(); }
EXPORTED CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
    double elapsed = of(to)->seconds - of(from)->seconds;
    if (clock_setting.kind == Clock::Falling && elapsed < 0.02) {
        // Each time is 4 % less than the one before, so whoever stops trying when nothing gets better never stops. The
        // range from 1000 s to 1 us lasts for 500 times; then it begins again.
        static std::atomic<unsigned> asked{0};
        elapsed = 1000 * std::pow(0.96, asked++ % 500);
    }
    *milliseconds = std::max(elapsed * 1e3, 1e-3);
    return poisoned();
}
EXPORTED CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
    return cuEventElapsedTime(milliseconds, from, to);
}

EXPORTED CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
    UNLESS_POISONED;
    if (!is_own(stream) || of(stream)->captured) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    of(stream)->captured = new Graph();
    live(counters.graphs, 1);
    live(counters.live_graphs, 1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
    if (!is_captured(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    *graph = reinterpret_cast<CUgraph>(of(stream)->captured);
    of(stream)->captured = nullptr;
    return poisoned();
}
// A node is one piece of work. None of them allocates: memory is asked for outside of streams.
EXPORTED CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
    size_t there = of(graph)->work.size();
    if (nodes)
        for (size_t i = 0; i < *count && i < there; i++) nodes[i] = reinterpret_cast<CUgraphNode>(i + 1);
    *count = nodes ? std::min(*count, there) : there;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType* type) {
    *type = CU_GRAPH_NODE_TYPE_KERNEL;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
    UNLESS_POISONED;
    *out = reinterpret_cast<CUgraphExec>(new Graph(*of(graph)));
    live(counters.live_graphs, 1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGraphUpload(CUgraphExec, CUstream) { return poisoned(); }
EXPORTED CUresult cuGraphLaunch(CUgraphExec graph, CUstream) {
    UNLESS_POISONED;
    live(counters.graph_launches, 1);
    for (auto& work : of(graph)->work)
        if (CUresult wrong = work()) return wrong;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGraphDestroy(CUgraph graph) {
    delete of(graph);
    live(counters.live_graphs, -1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGraphExecDestroy(CUgraphExec graph) { return cuGraphDestroy(reinterpret_cast<CUgraph>(graph)); }
