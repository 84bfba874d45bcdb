// Devices, contexts, and what errors are called.
#include <cstdint>
#include <cstdio>

#include "settings.h"
#include "state.h"

using cudasim::settings;

namespace {

thread_local int current = 0;

bool is_device(CUdevice device) { return device >= 0 && size_t(device) < settings.devices.size(); }

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(uintptr_t(device) + 1); }

const struct { CUresult code; const char *name, *text; } ERRORS[] = {
#define ERROR(code, text) {CUDA_##code, "CUDA_" #code, text}
    ERROR(SUCCESS, "no error"),
    ERROR(ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
    ERROR(ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    ERROR(ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain."),
    ERROR(ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(ERROR_NOT_READY, "device not ready"),
    ERROR(ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR(ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR(ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
    ERROR(ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination"),
    ERROR(ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

}

int cudasim::current_device() { return current; }

EXPORTED CUresult cuInit(unsigned) {
    if (settings.init) return static_cast<CUresult>(settings.init);
    return settings.devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
EXPORTED CUresult cuDriverGetVersion(int* version) { *version = settings.driver_version; return CUDA_SUCCESS; }

EXPORTED CUresult cuGetErrorString(CUresult error, const char** out) {
    *out = "an error that CUDA on CPU has no words for";
    for (auto& known : ERRORS) if (known.code == error) *out = known.text;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuGetErrorName(CUresult error, const char** out) {
    *out = "CUDA_ERROR_UNKNOWN";
    for (auto& known : ERRORS) if (known.code == error) *out = known.name;
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetCount(int* count) {
    *count = settings.devices.size();
    return cuInit(0);
}
EXPORTED CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    if (CUresult answer = cuInit(0)) return answer;
    if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, size, "%s", settings.devices[device].name.c_str());
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceTotalMem(size_t* size, CUdevice device) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *size = settings.devices[device].memory;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetPCIBusId(char* out, int size, CUdevice device) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(out, size, "0000:%02X:00.0", settings.devices[device].ordinal + 1);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const cudasim::Device& its = settings.devices[device];
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = its.major; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = its.minor; break;
        case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 << 10; break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = its.shared; break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = 1024; break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = 64; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = 2147483647; break;
        case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = 65535; break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = its.sms; break;
        // An A100's, in kHz and bits, whatever the capability.
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1410000; break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 1215000; break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE: *value = its.busy ? 3 : 0; break;  // exclusive process, or default
        case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: *value = 1; break;
        default:
            fprintf(stderr, "CUDA on CPU does not know the device attribute %d\n", attribute);
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (settings.devices[device].busy) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    *out = context_of(device);
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }
EXPORTED CUresult cuCtxSetCurrent(CUcontext context) {
    if (context) current = int(reinterpret_cast<uintptr_t>(context)) - 1;
    return CUDA_SUCCESS;
}
EXPORTED CUresult cuCtxGetCurrent(CUcontext* out) { *out = context_of(current); return CUDA_SUCCESS; }
EXPORTED CUresult cuCtxSynchronize() { return cudasim::poisoned(); }
EXPORTED CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}
