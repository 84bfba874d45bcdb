// Blocks of threads on one thread of the host: each thread of a block is a fiber, and this is who runs next.
//
// A fiber runs until it is done or parks: at a barrier of the block, at a collective operation of its warp, or while it
// polls for something that others must do first. Fibers are resumed in a fixed order, so a kernel does the same thing
// every time, and data races show no more than one of their outcomes.
#include "blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace cudasim {
namespace {

constexpr unsigned MOST_THREADS = 1024, WARP = 32;
constexpr size_t STACK = 256 << 10;   // mapped, not used: pages are only taken when a thread touches them
constexpr size_t SHARED = 256 << 10;  // more than any device has

enum class State : uint8_t { Runs, Collects, Waits, Polls, Done };

struct Fiber : Thread {
    void* sp;
    WarpOp* op;
    State state;
};

char* map(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

// The block that runs. There is one for the whole process.
struct Block {
    std::vector<Fiber> fibers = std::vector<Fiber>(MOST_THREADS);
    char* stacks = map(STACK * MOST_THREADS);
    char* shared = map(SHARED);
    void* scheduler = nullptr;
    const Kernel* kernel = nullptr;
    void** arguments = nullptr;
    unsigned count = 0;
    const char* refused = nullptr;
};
Block* block = nullptr;

// Saves the registers that a function must preserve, changes stacks, and goes on where the other left off.
extern "C" void cudasim_switch(void** save, void* load);
asm(R"(
.text
.type cudasim_switch,@function
cudasim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cudasim_switch, .-cudasim_switch
)");

void park(Thread* thread, State state) {
    Fiber* fiber = static_cast<Fiber*>(thread);
    fiber->state = state;
    cudasim_switch(&fiber->sp, block->scheduler);
}

void barrier(Thread* thread) { park(thread, State::Waits); }
void yield(Thread* thread) { park(thread, State::Polls); }
void collective(Thread* thread, WarpOp* op) {
    static_cast<Fiber*>(thread)->op = op;
    park(thread, State::Collects);
}
void refuse(Thread* thread, const char* why) {
    block->refused = why;
    park(thread, State::Done);
}

void begin() {
    Fiber* fiber = static_cast<Fiber*>(*block->kernel->self);
    block->kernel->call(block->arguments);
    park(fiber, State::Done);
    abort();
}

void resume(Fiber& fiber) {
    *block->kernel->self = &fiber;
    cudasim_switch(&block->scheduler, fiber.sp);
}

void prepare(Fiber& fiber, unsigned index) {
    char* top = block->stacks + STACK * (index + 1);
    void** sp = reinterpret_cast<void**>(top) - 1;  // after a call the stack is 8 bytes off a multiple of 16
    *--sp = reinterpret_cast<void*>(&begin);
    sp -= 6;
    fiber.sp = sp;
    fiber.state = State::Runs;
}

// Resolves the collective operation that is first in the program among those that a warp's lanes stand at and that have
// whom they need. Returns whether there was one.
bool resolve(Fiber* lanes, unsigned count) {
    unsigned living = 0;
    for (unsigned i = 0; i < count; i++)
        if (lanes[i].state != State::Done) living |= 1u << i;
    for (unsigned least = 0;;) {
        unsigned site = ~0u;
        for (unsigned i = 0; i < count; i++)
            if (lanes[i].state == State::Collects && lanes[i].op->site >= least && lanes[i].op->site < site) site = lanes[i].op->site;
        if (site == ~0u) return false;
        WarpOp* ops[WARP] = {};
        unsigned mask = 0;
        for (unsigned i = 0; i < count; i++)
            if (lanes[i].state == State::Collects && lanes[i].op->site == site) {
                ops[i] = lanes[i].op;
                mask |= 1u << i;
            }
        WarpOp* first = ops[__builtin_ctz(mask)];
        if (first->needs == Needs::Any || mask == (first->needs == Needs::All ? ~0u : living)) {
            first->resolve(ops, mask);
            for (unsigned i = 0; i < count; i++)
                if (mask >> i & 1) lanes[i].state = State::Runs;
            return true;
        }
        least = site + 1;
    }
}

// Runs a warp until all of its lanes wait, poll or are done. While some poll, the others stay parked at a collective
// operation, for those who poll will come to it as well, unless `impatient`. Returns whether more was done than polling.
bool run_warp(Fiber* lanes, unsigned count, bool impatient) {
    for (bool done = false;; done = true) {
        bool polls = false;
        for (unsigned i = 0; i < count; i++) {
            if (lanes[i].state == State::Runs) {
                resume(lanes[i]);
                done |= lanes[i].state != State::Polls;
            }
            polls |= lanes[i].state == State::Polls;
        }
        if ((polls && !impatient) || block->refused || !resolve(lanes, count)) return done;
    }
}

// Rounds of nothing but polling after which lanes are let go that wait for those who poll, and after which a kernel is
// said not to end. Between two polls a thread may do something for the others, so a single round proves nothing.
constexpr unsigned PATIENCE = 1000, DESPAIR = 20000;

// Runs a block of threads that work together.
std::string run_fibers() {
    Fiber* fibers = block->fibers.data();
    for (unsigned i = 0; i < block->count; i++) prepare(fibers[i], i);
    for (unsigned idle = 0;;) {
        bool done = false;
        for (unsigned first = 0; first < block->count; first += WARP)
            done |= run_warp(fibers + first, std::min(block->count - first, WARP), idle >= PATIENCE);
        if (block->refused) return block->refused;
        unsigned waits = 0, polls = 0, collects = 0;
        for (unsigned i = 0; i < block->count; i++) {
            waits += fibers[i].state == State::Waits;
            polls += fibers[i].state == State::Polls;
            collects += fibers[i].state == State::Collects;
        }
        if (!waits && !polls && !collects) return "";
        idle = done ? 0 : idle + 1;
        if (idle > DESPAIR || (!polls && collects)) {
            return "the kernel cannot end: " + std::to_string(polls) + " threads poll, " + std::to_string(waits) +
                " wait at __syncthreads and " + std::to_string(collects) + " at an operation of their warp";
        }
        // Those that poll look again; a barrier opens when nobody polls any more.
        State open = polls ? State::Polls : State::Waits;
        for (unsigned i = 0; i < block->count; i++)
            if (fibers[i].state == open) fibers[i].state = State::Runs;
    }
}

void set_up(const Kernel& kernel, Dim grid, Dim dim, void** arguments) {
    if (!block) block = new Block();
    block->kernel = &kernel;
    block->arguments = arguments;
    block->count = dim.x * dim.y * dim.z;
    block->refused = nullptr;
    for (unsigned i = 0; i < block->count; i++) {
        Fiber& fiber = block->fibers[i];
        fiber.threadIdx = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
        fiber.blockDim = dim;
        fiber.gridDim = grid;
        fiber.cluster = kernel.cluster;
        fiber.shared = block->shared;
        fiber.lane = i % WARP;
        fiber.barrier = barrier;
        fiber.collective = collective;
        fiber.yield = yield;
        fiber.refuse = refuse;
    }
}

}

std::string run_blocks(const Kernel& kernel, Dim grid, Dim dim, void** arguments) {
    static std::mutex one_launch;
    std::lock_guard<std::mutex> lock(one_launch);
    set_up(kernel, grid, dim, arguments);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                for (unsigned i = 0; i < block->count; i++) block->fibers[i].blockIdx = {x, y, z};
                if (kernel.cooperates) {
                    std::string wrong = run_fibers();
                    if (!wrong.empty()) return wrong;
                    continue;
                }
                for (unsigned i = 0; i < block->count; i++) {
                    *kernel.self = &block->fibers[i];
                    kernel.call(arguments);
                }
            }
    return "";
}

}
