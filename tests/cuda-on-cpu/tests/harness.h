// What the tests share: a kernel is compiled, run and read back through the driver's and NVRTC's own interfaces, and
// compared with numbers computed here. Whole numbers are used where sums must be exact.
#pragma once
#include <cuda.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define OK(call) do { int code_ = int(call); if (code_) fail(__LINE__, #call, code_); } while (0)
#define CHECK(holds) do { if (!(holds)) fail(__LINE__, #holds, 0); } while (0)

[[noreturn]] inline void fail(int line, const char* what, int code) {
    printf("FAILED line %d: %s (%d)\n", line, what, code);
    exit(1);
}

inline nvrtcResult try_compile(const std::string& source, const char* option, std::string& ptx, std::string& log) {
    nvrtcProgram program;
    OK(nvrtcCreateProgram(&program, source.c_str(), nullptr, 0, nullptr, nullptr));
    const char* options[] = {option};
    nvrtcResult result = nvrtcCompileProgram(program, 1, options);
    size_t size;
    OK(nvrtcGetProgramLogSize(program, &size));
    log.resize(size);
    OK(nvrtcGetProgramLog(program, &log[0]));
    OK(nvrtcGetPTXSize(program, &size));
    ptx.resize(size);
    OK(nvrtcGetPTX(program, &ptx[0]));
    OK(nvrtcDestroyProgram(&program));
    return result;
}

inline CUfunction kernel(const std::string& source, const char* name) {
    std::string ptx, log;
    if (try_compile(source, "--gpu-architecture=sm_90a", ptx, log)) {
        printf("%s\n", log.c_str());
        fail(__LINE__, name, 0);
    }
    CUmodule module;
    CUfunction function;
    OK(cuModuleLoadData(&module, ptx.data()));
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

// Numbers on the device.
template <class T> struct Buffer {
    CUdeviceptr at = 0;
    size_t count;
    explicit Buffer(const std::vector<T>& values) : count(values.size()) {
        OK(cuMemAlloc(&at, count * sizeof(T)));
        OK(cuMemcpyHtoDAsync(at, values.data(), count * sizeof(T), nullptr));
    }
    ~Buffer() { cuMemFree(at); }
    std::vector<T> read() const {
        std::vector<T> values(count);
        OK(cuMemcpyDtoHAsync(values.data(), at, count * sizeof(T), nullptr));
        return values;
    }
};

inline CUresult try_launch(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, std::vector<void*> arguments) {
    return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared, nullptr, arguments.data(), nullptr);
}
inline void launch(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, std::vector<void*> arguments) {
    OK(try_launch(function, blocks, threads, shared, arguments));
    OK(cuCtxSynchronize());
}

inline void start() {
    OK(cuInit(0));
    CUdevice device;
    CUcontext context;
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}
