// What the device claims to be: environment variables, read once. README.md has them all.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace cudasim {

struct Device {
    int ordinal;  // before CUDA_VISIBLE_DEVICES
    int major, minor, sms, shared;
    uint64_t memory;
    std::string name;
    bool busy;  // in exclusive mode, and another process has it
};

struct Settings {
    std::vector<Device> devices;  // those that CUDA_VISIBLE_DEVICES shows
    int init;                     // what cuInit answers
    int driver_version, nvrtc_version;
    uint64_t context, granularity;
    Settings();
};
extern const Settings& settings;

// A variable's text, or `otherwise` if it is not set or empty.
std::string setting(const char* name, const std::string& otherwise);
// A number of bytes: 512, 64KiB, 100MiB, 1.5GiB.
uint64_t bytes_of(const std::string& text);
// 12.8 as CUDA writes it: 12080.
int version_of(const std::string& text);

}
