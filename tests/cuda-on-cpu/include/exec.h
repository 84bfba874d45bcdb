// How a kernel that was compiled for the host is run: one block after another, a fiber for each thread of a block.
// This header is shared by the driver and by every compiled kernel.
#pragma once

namespace cudasim {

struct Dim { unsigned x, y, z; };
struct Thread;

// A collective operation of a warp: each lane parks with one; when every lane of the warp has parked, those at the
// same place are resolved together by reading and writing each other's operations.
struct WarpOp {
    void (*resolve)(WarpOp** lanes, unsigned mask);
    unsigned site;
};

// What a kernel's thread sees of the machine.
struct Thread {
    Dim threadIdx, blockIdx, blockDim, gridDim;
    char* shared;
    unsigned lane;
    void (*barrier)(Thread*);
    void (*collective)(Thread*, WarpOp*);
    void (*yield)(Thread*);
};

// What a kernel's library exports as `cudasim_kernel`.
struct Kernel {
    const char* name;
    bool cooperates;                // has barriers or collectives: needs fibers
    unsigned most_threads;          // __launch_bounds__
    Thread** (*self)();             // where the running thread is kept
    void (*call)(void** arguments); // the kernel itself
};

}
