// All that kernels need of CUDA is included at once; programs also look for this file to see whether there are headers.
#pragma once
#include <cudasim/kernel.h>
