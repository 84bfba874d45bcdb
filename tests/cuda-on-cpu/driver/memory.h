#pragma once
#include <cstdint>

namespace cudasim {

// Bytes of device memory from an address to the end of the allocation it lies in; 0 outside of any. The caller holds
// `guard`.
uint64_t bytes_behind(uint64_t at);

}
