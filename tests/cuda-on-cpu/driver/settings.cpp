#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cudasim {
namespace {

std::vector<std::string> listed(const std::string& text) {
    std::vector<std::string> parts(1);
    for (char c : text) {
        if (c == ',') parts.emplace_back();
        else parts.back() += c;
    }
    return parts;
}

// The entry of a list for a device; the last one holds for all that follow.
const std::string& entry(const std::vector<std::string>& list, int device) {
    return list[std::min<size_t>(device, list.size() - 1)];
}

// Most shared memory that a block may ask for.
int shared_kib(int cc) {
    if (cc == 75) return 64;
    if (cc == 80 || cc == 87) return 163;
    if (cc == 86 || cc == 89 || cc >= 120) return 99;
    if (cc >= 90) return 227;
    return cc >= 70 ? 96 : 48;
}

// Which devices CUDA_VISIBLE_DEVICES shows: numbers in its order, up to the first that is none.
std::vector<int> visible(int count) {
    std::vector<int> ordinals;
    const char* shown = getenv("CUDA_VISIBLE_DEVICES");
    if (!shown) {
        for (int i = 0; i < count; i++) ordinals.push_back(i);
        return ordinals;
    }
    for (auto& part : listed(shown)) {
        char* end;
        long ordinal = strtol(part.c_str(), &end, 10);
        if (part.empty() || *end || ordinal < 0 || ordinal >= count) break;
        ordinals.push_back(ordinal);
    }
    return ordinals;
}

}

std::string setting(const char* name, const std::string& otherwise) {
    const char* value = getenv(name);
    return value && *value ? value : otherwise;
}

uint64_t bytes_of(const std::string& text) {
    char* end;
    double value = strtod(text.c_str(), &end);
    switch (*end) {
        case 'K': return value * (1ull << 10);
        case 'M': return value * (1ull << 20);
        case 'G': return value * (1ull << 30);
        default: return value;
    }
}

int version_of(const std::string& text) {
    int major = 0, minor = 0;
    sscanf(text.c_str(), "%d.%d", &major, &minor);
    return major * 1000 + minor * 10;
}

Settings::Settings() {
    auto capabilities = listed(setting("CUDASIM_CC", "9.0")), memories = listed(setting("CUDASIM_MEMORY", "8GiB"));
    auto names = listed(setting("CUDASIM_NAME", "CUDA on CPU")), busy = listed(setting("CUDASIM_BUSY", ""));
    init = atoi(setting("CUDASIM_INIT", "0").c_str());
    driver_version = version_of(setting("CUDASIM_DRIVER", "12.8"));
    nvrtc_version = version_of(setting("CUDASIM_NVRTC_VERSION", "12.8"));
    context = bytes_of(setting("CUDASIM_CONTEXT", "0"));
    granularity = std::max<uint64_t>(1, bytes_of(setting("CUDASIM_GRANULARITY", "512")));
    for (int ordinal : visible(atoi(setting("CUDASIM_DEVICES", "1").c_str()))) {
        Device device = {ordinal, 0, 0, 0, 0, bytes_of(entry(memories, ordinal)), entry(names, ordinal), false};
        sscanf(entry(capabilities, ordinal).c_str(), "%d.%d", &device.major, &device.minor);
        int kib = shared_kib(device.major * 10 + device.minor);
        device.sms = atoi(setting("CUDASIM_SMS", "16").c_str());
        device.shared = bytes_of(setting("CUDASIM_SHARED", std::to_string(kib) + "KiB"));
        for (auto& part : busy) device.busy |= part == std::to_string(ordinal);
        devices.push_back(device);
    }
}

// Never destroyed: counters are written when the process ends.
const Settings& settings = *new Settings();

}
