// The driver's own promises: memory is limited, faults come when asked for, counters count. `driver.cpp CASE` is started
// once for each case by run-tests.sh, with the variables that the case needs.
#include "harness.h"

static const char EMPTY[] = R"(
extern "C" __global__ void __launch_bounds__(32) nothing(unsigned* const out) { out[threadIdx.x] = 5; })";

static void memory_is_limited() {
    size_t free_bytes, total;
    CUdeviceptr most, more;
    OK(cuMemGetInfo(&free_bytes, &total));
    CHECK(total == 64u << 20 && free_bytes == total);
    OK(cuMemAlloc(&most, 60u << 20));
    CHECK(cuMemAlloc(&more, 5u << 20) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&more, 4u << 20));
    OK(cuMemFree(most));
    CHECK(cuMemFree(most) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemcpyHtoDAsync(more, EMPTY, 5u << 20, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

// The second allocation fails once; the second launch fails as a kernel does, later, and for good.
static void faults_come_when_asked_for() {
    CUdeviceptr at;
    CUfunction nothing = kernel(EMPTY, "nothing");
    OK(cuMemAlloc(&at, 128));
    CUdeviceptr refused;
    CHECK(cuMemAlloc(&refused, 128) == CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&refused, 128));
    launch(nothing, 1, 32, 0, {&at});
    OK(try_launch(nothing, 1, 32, 0, {&at}));
    CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAlloc(&refused, 128) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

// What is made and destroyed; run-tests.sh reads the file.
static void counters_count() {
    CUstream streams[2];
    CUevent events[3];
    for (auto& stream : streams) OK(cuStreamCreate(&stream, 0));
    for (auto& event : events) OK(cuEventCreate(&event, 0));
    OK(cuStreamDestroy(streams[0]));
    OK(cuEventDestroy(events[0]));
    CUfunction nothing = kernel(EMPTY, "nothing");
    Buffer<unsigned> out(std::vector<unsigned>(32));
    launch(nothing, 1, 32, 0, {&out.at});
    CHECK(try_launch(nothing, 1, 33, 0, {&out.at}) == CUDA_ERROR_INVALID_VALUE);
}

// A kernel that is not run is still launched with what its text asks for; run-tests.sh reads the trace and the text.
static void arguments_are_traced() {
    static const char TEXT[] = R"(
struct about_st { uint8_t a[3]; uint64_t b; float c[2]; };
extern "C" __global__ void __launch_bounds__(32) told(float* const out, __grid_constant__ about_st const about) { out[0] = about.c[1]; })";
    struct { unsigned char a[3]; uint64_t b; float c[2]; } about = {{1, 2, 3}, 0x1122334455667788, {0, 1}};
    memset(reinterpret_cast<char*>(&about) + 3, 0, 5);
    CUdeviceptr at = 0x7f0000001000;
    launch(kernel(TEXT, "told"), 1, 32, 0, {&at, &about});
}

// Two kernels of the same times every time: that is what makes the choice among kernels the same in every run.
static void the_clock_is_the_same_in_every_run() {
    CUfunction nothing = kernel(EMPTY, "nothing");
    Buffer<unsigned> out(std::vector<unsigned>(32));
    float first = 0;
    for (int i = 0; i < 3; i++) {
        CUevent from, to;
        OK(cuEventCreate(&from, 0));
        OK(cuEventCreate(&to, 0));
        OK(cuEventRecord(from, nullptr));
        launch(nothing, 1, 32, 0, {&out.at});
        OK(cuEventRecord(to, nullptr));
        float took;
        OK(cuEventElapsedTime(&took, from, to));
        if (i == 0) first = took;
        CHECK(took - first < 1e-6f && first - took < 1e-6f && took > 0);
    }
}

static void devices_have_memories_of_their_own() {
    int count;
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    CUcontext second;
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxSetCurrent(second));
    size_t free_bytes, total;
    CUdeviceptr at;
    OK(cuMemAlloc(&at, 1 << 20));
    OK(cuMemGetInfo(&free_bytes, &total));
    CHECK(total == 32u << 20 && free_bytes == 31u << 20);
    CUdevice third;
    CHECK(cuDeviceGet(&third, 2) == CUDA_ERROR_INVALID_DEVICE);
}

// Only the second is shown, and it is busy.
static void a_busy_device_gives_no_context() {
    int count;
    OK(cuDeviceGetCount(&count));
    CHECK(count == 1);
    CUcontext context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void without_a_device_nothing_starts() { CHECK(cuInit(0) == CUDA_ERROR_NO_DEVICE); }

static void an_old_driver_refuses_what_a_newer_compiler_wrote() {
    std::string ptx, log;
    CUmodule module;
    int version;
    OK(cuDriverGetVersion(&version));
    CHECK(version == 12020);
    OK(try_compile(EMPTY, "--gpu-architecture=sm_80", ptx, log));
    CHECK(cuModuleLoadData(&module, ptx.data()) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
}

static void the_compiler_refuses_devices_that_it_no_longer_knows() {
    std::string ptx, log;
    CHECK(try_compile(EMPTY, "--gpu-architecture=sm_35", ptx, log) == NVRTC_ERROR_INVALID_OPTION);
    CHECK(log.find("gpu-architecture") != std::string::npos);
}

int main(int, char** arguments) {
    const struct { const char* name; void (*run)(); bool starts; } cases[] = {
#define CASE(name, starts) {#name, name, starts}
        CASE(memory_is_limited, true), CASE(faults_come_when_asked_for, true), CASE(counters_count, true), CASE(arguments_are_traced, true),
        CASE(the_clock_is_the_same_in_every_run, true), CASE(devices_have_memories_of_their_own, true),
        CASE(a_busy_device_gives_no_context, false), CASE(without_a_device_nothing_starts, false),
        CASE(an_old_driver_refuses_what_a_newer_compiler_wrote, true),
        CASE(the_compiler_refuses_devices_that_it_no_longer_knows, true),
    };
    for (auto& one : cases) {
        if (strcmp(one.name, arguments[1])) continue;
        if (one.starts) start();
        one.run();
        printf("ok %s\n", one.name);
        return 0;
    }
    return 2;
}
