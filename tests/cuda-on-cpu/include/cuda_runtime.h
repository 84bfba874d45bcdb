// Programs look for this file to see that the headers of CUDA are there. Kernels need nothing of it here.
#pragma once
#include "cudasim.h"
