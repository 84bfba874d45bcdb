#pragma once
#include <functional>

#include "../api/cuda.h"

namespace cudasim {

// Does what is asked of a stream: at once, or, while the stream is captured, whenever the graph is launched.
CUresult enqueue(CUstream stream, std::function<CUresult()> work);
// Whether what is asked of the stream now is only recorded.
bool is_captured(CUstream stream);

// The device's own clock, which events read. Real time means nothing here: a launch takes as long as CUDASIM_CLOCK says,
// and whoever chooses kernels by their times always chooses the same ones. `kernel` is a number that stands for its code.
void pass_time(uint64_t kernel, bool probe);

}
