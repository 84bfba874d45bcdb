// Blocks of threads on one thread of the host.
#include "../include/exec.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>
#include <sys/mman.h>

namespace cudasim {
namespace {

constexpr size_t STACK = 256 << 10;
constexpr size_t SHARED = 256 << 10;

enum class State : uint8_t { Runs, Collects, Waits, Yields, Done };

struct Fiber : Thread {
    void* sp;
    WarpOp* op;
    State state;
};

struct Block {
    std::vector<Fiber> fibers = std::vector<Fiber>(1024);
    char* stacks = map(STACK * 1024);
    char* shared = map(SHARED);
    void* scheduler = nullptr;
    const Kernel* kernel = nullptr;
    void** arguments = nullptr;
    Thread** self = nullptr;
    unsigned count = 0;

    static char* map(size_t bytes) {
        void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
    }
};

Block* block = nullptr;
std::mutex one_launch;

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
void yield(Thread* thread) { park(thread, State::Yields); }
void collective(Thread* thread, WarpOp* op) {
    static_cast<Fiber*>(thread)->op = op;
    park(thread, State::Collects);
}

void begin() {
    Fiber* fiber = static_cast<Fiber*>(*block->self);
    block->kernel->call(block->arguments);
    park(fiber, State::Done);
    abort();
}

void resume(Fiber& fiber) {
    *block->self = &fiber;
    cudasim_switch(&block->scheduler, fiber.sp);
}

void prepare(Fiber& fiber, unsigned index) {
    char* top = block->stacks + STACK * (index + 1);
    void** sp = reinterpret_cast<void**>(top) - 2;   // a call leaves the stack 8 bytes off a multiple of 16
    *--sp = reinterpret_cast<void*>(&begin);
    sp -= 6;
    fiber.sp = sp;
    fiber.state = State::Runs;
}

// Runs a warp until all of its lanes wait, yield or are done. While some poll, the others stay parked at their collective
// operation, for those who poll will come to it as well; unless that has lasted too long.
void run_warp(unsigned first, unsigned last, bool patient) {
    for (;;) {
        bool yields = false;
        for (unsigned i = first; i < last; i++) {
            if (block->fibers[i].state == State::Runs) resume(block->fibers[i]);
            yields |= block->fibers[i].state == State::Yields;
        }
        if (yields && patient) return;
        WarpOp* lanes[32] = {};
        unsigned mask = 0, site = ~0u;
        for (unsigned i = first; i < last; i++)
            if (block->fibers[i].state == State::Collects && block->fibers[i].op->site < site)
                site = block->fibers[i].op->site;
        for (unsigned i = first; i < last; i++)
            if (block->fibers[i].state == State::Collects && block->fibers[i].op->site == site) {
                lanes[i - first] = block->fibers[i].op;
                mask |= 1u << (i - first);
            }
        if (!mask) return;
        lanes[__builtin_ctz(mask)]->resolve(lanes, mask);
        for (unsigned i = first; i < last; i++)
            if (mask >> (i - first) & 1) block->fibers[i].state = State::Runs;
    }
}

bool run_fibers() {
    for (unsigned i = 0; i < block->count; i++) prepare(block->fibers[i], i);
    for (unsigned round = 0;; round++) {
        for (unsigned first = 0; first < block->count; first += 32)
            run_warp(first, first + 32 < block->count ? first + 32 : block->count, round % 16 != 15);
        bool waits = false, yields = false;
        for (unsigned i = 0; i < block->count; i++) {
            waits |= block->fibers[i].state == State::Waits;
            yields |= block->fibers[i].state == State::Yields;
        }
        if (!waits && !yields) return true;
        // Those that poll get another look; a barrier opens only when nobody polls any more.
        State open = yields ? State::Yields : State::Waits;
        for (unsigned i = 0; i < block->count; i++)
            if (block->fibers[i].state == open) block->fibers[i].state = State::Runs;
    }
}

}

// Runs all blocks of a launch. The caller has checked the sizes.
void launch(const Kernel* kernel, Dim grid, Dim dim, void** arguments) {
    std::lock_guard<std::mutex> lock(one_launch);
    if (!block) block = new Block();
    block->kernel = kernel;
    block->arguments = arguments;
    block->self = kernel->self();
    block->count = dim.x * dim.y * dim.z;
    for (unsigned i = 0; i < block->count; i++) {
        Fiber& fiber = block->fibers[i];
        fiber.threadIdx = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
        fiber.blockDim = dim;
        fiber.gridDim = grid;
        fiber.shared = block->shared;
        fiber.lane = i % 32;
        fiber.barrier = barrier;
        fiber.collective = collective;
        fiber.yield = yield;
    }
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                for (unsigned i = 0; i < block->count; i++) block->fibers[i].blockIdx = {x, y, z};
                if (kernel->cooperates) {
                    run_fibers();
                } else {
                    for (unsigned i = 0; i < block->count; i++) {
                        *block->self = &block->fibers[i];
                        kernel->call(arguments);
                    }
                }
            }
}

}
