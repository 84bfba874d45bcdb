// What a kernel compiled for the host and the machine that runs it know of each other. Both sides include this: the
// driver (machine/blocks.cpp) and, through kernel.h, every compiled kernel. No header of the system is included, for
// kernels declare uint32_t and its like themselves.
#pragma once

namespace cudasim {

struct Dim { unsigned x, y, z; };

// Whom a collective operation needs: whoever comes, all lanes that are not done, or all 32.
enum class Needs : unsigned char { Any, Living, All };

// A collective operation of a warp. Each lane parks with one. When every lane of the warp that still runs has parked,
// those at the same place of the program are resolved together, reading and writing each other's operations.
struct WarpOp {
    void (*resolve)(WarpOp** lanes, unsigned mask);
    unsigned site;  // the place in the program; earlier places have smaller numbers
    Needs needs;
};

// What a thread of a kernel sees of the machine.
struct Thread {
    Dim threadIdx, blockIdx, blockDim, gridDim;
    Dim cluster;   // blocks of a cluster
    char* shared;  // the block's shared memory, aligned to a page
    unsigned lane;
    void (*barrier)(Thread*);
    void (*collective)(Thread*, WarpOp*);
    void (*yield)(Thread*);                   // while polling: let the others go on
    void (*refuse)(Thread*, const char* why); // the kernel did what a GPU traps on
};

// What the library of a compiled kernel exports as `cudasim_kernel`.
struct Kernel {
    const char* name;
    bool cooperates;          // has barriers or collectives, and so needs a stack for each thread
    unsigned most_threads;    // __launch_bounds__
    Dim cluster;              // __cluster_dims__
    unsigned arguments;       // how many there are
    const unsigned* sizes;    // bytes of each
    Thread** self;            // where the running thread is kept
    void (*call)(void** arguments);
};

}
