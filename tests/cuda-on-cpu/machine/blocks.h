#pragma once
#include <string>

#include "../include/cudasim/machine.h"

namespace cudasim {

// Runs all blocks of a launch, one after another; launches from several threads wait for each other. The caller has
// checked the sizes. What went wrong, in words: the kernel cannot end, or did what a GPU traps on. Empty if all is well.
std::string run_blocks(const Kernel& kernel, Dim grid, Dim block, void** arguments);

}
