// A stand-in for NVRTC. It keeps what was compiled, so that every kernel is compiled once and for all processes, and can
// compile for the host. CUDASIM_KERNELS is `host` (kernels run on the CPU), `ptx` (the real NVRTC, kernels do nothing) or
// `both` (the real NVRTC must accept what runs on the CPU).
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>
#include "translate.h"

extern char** environ;

namespace {

enum Result { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };

struct Program {
    std::string source, ptx, log;
};

std::string folder() {
    Dl_info info;
    dladdr(reinterpret_cast<void*>(&folder), &info);
    std::string path = info.dli_fname;
    size_t slash = path.rfind('/');
    return (slash == std::string::npos ? "." : path.substr(0, slash)) + "/..";
}

std::string setting(const char* name, const std::string& otherwise) {
    const char* value = getenv(name);
    return value && *value ? value : otherwise;
}

const std::string& cache() {
    static std::string path = [] {
        std::string p = setting("CUDASIM_CACHE", folder() + "/cache");
        mkdir(p.c_str(), 0755);
        return p;
    }();
    return path;
}

std::string hash(const std::string& text) {
    uint64_t a = 14695981039346656037ull, b = 0x9e3779b97f4a7c15ull;
    for (unsigned char c : text) {
        a = (a ^ c) * 1099511628211ull;
        b = (b + c) * 0xbf58476d1ce4e5b9ull;
        b ^= b >> 29;
    }
    char out[33];
    snprintf(out, sizeof out, "%016lx%016lx", a, b);
    return out;
}

bool read(const std::string& path, std::string& out) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    std::stringstream text;
    text << file.rdbuf();
    out = text.str();
    return true;
}

// Whole or not at all, for several processes share the cache.
void write(const std::string& path, const std::string& text) {
    std::string temporary = path + "." + std::to_string(getpid());
    { std::ofstream(temporary, std::ios::binary) << text; }
    rename(temporary.c_str(), path.c_str());
}

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

void note(const char* what, const std::string& key, double from) {
    if (const char* path = getenv("CUDASIM_COMPILATIONS"))
        if (FILE* f = fopen(path, "a")) {
            fprintf(f, "%s %s %.3f\n", what, key.c_str(), now() - from);
            fclose(f);
        }
}

// The real library, under its own name so that the loader does not give us ourselves.
struct Real {
    int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
    int (*compile)(void*, int, const char* const*);
    int (*size)(void*, size_t*);
    int (*get)(void*, char*);
    int (*log_size)(void*, size_t*);
    int (*log)(void*, char*);
    int (*destroy)(void**);
    bool there = false;
    Real() {
        void* library = dlopen(setting("CUDASIM_NVRTC", setting("CUDA_PATH", folder()) + "/lib/libnvrtc.so.12").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (!library) { fprintf(stderr, "cudasim: %s\n", dlerror()); return; }
        auto find = [&](auto& f, const char* name) { f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, name)); };
        find(create, "nvrtcCreateProgram"); find(compile, "nvrtcCompileProgram"); find(size, "nvrtcGetPTXSize");
        find(get, "nvrtcGetPTX"); find(log_size, "nvrtcGetProgramLogSize"); find(log, "nvrtcGetProgramLog");
        find(destroy, "nvrtcDestroyProgram");
        there = true;
    }
};

int to_ptx(Program& p, const std::vector<std::string>& options) {
    std::string all;
    for (auto& o : options) all += o + "\n";
    std::string key = cache() + "/" + hash(all + p.source);
    if (read(key + ".ptx", p.ptx)) return SUCCESS;
    if (read(key + ".ptx.log", p.log)) return COMPILATION;
    double from = now();
    write(key + ".cu", p.source);
    static Real real;
    if (!real.there) return INTERNAL;
    void* program;
    if (int r = real.create(&program, p.source.c_str(), nullptr, 0, nullptr, nullptr)) return r;
    std::vector<const char*> raw;
    for (auto& o : options) raw.push_back(o.c_str());
    int r = real.compile(program, raw.size(), raw.data());
    size_t size = 0;
    real.log_size(program, &size);
    p.log.resize(size);
    real.log(program, &p.log[0]);
    if (r == SUCCESS) {
        real.size(program, &size);
        p.ptx.resize(size);
        real.get(program, &p.ptx[0]);
        if (!p.ptx.empty() && p.ptx.back() == 0) p.ptx.pop_back();
        write(key + ".ptx", p.ptx);
    } else {
        write(key + ".ptx.log", p.log);
    }
    real.destroy(&program);
    note(r ? "ptx-failed" : "ptx", key, from);
    return r;
}

// A module with the kernels' names and nothing in them.
// Bytes of a structure whose fields are arrays of numbers, as CubeCL passes what a kernel has to know besides its buffers.
size_t bytes_of_structure(const std::string& source, const std::string& type) {
    if (type == "CUtensorMap") return 128;
    size_t at = source.find("struct " + type + " {"), end = at == std::string::npos ? at : source.find("};", at);
    if (end == std::string::npos) return 0;
    static const std::regex field("(u?int(8|16|32|64)_t|float|double|__half|__nv_bfloat16)\\s+\\w+(\\[(\\d+)\\])?;");
    size_t bytes = 0, widest = 1;
    std::string body = source.substr(at, end - at);
    for (std::sregex_iterator it(body.begin(), body.end(), field), none; it != none; ++it) {
        std::string name = (*it)[1];
        size_t width = (*it)[2].matched ? std::stoul((*it)[2]) / 8 : name == "float" ? 4 : name == "double" ? 8 : 2;
        bytes = (bytes + width - 1) / width * width + width * ((*it)[4].matched ? std::stoul((*it)[4]) : 1);
        widest = std::max(widest, width);
    }
    return (bytes + widest - 1) / widest * widest;
}

// A list of parameters as PTX has it: addresses, and structures by their bytes.
std::string parameters_of(const std::string& source, const std::string& list) {
    std::string out;
    for (size_t from = 0; from < list.size();) {
        size_t to = std::min(list.find(',', from), list.size());
        std::string one = list.substr(from, to - from);
        from = to + 1;
        std::string line = ".param .u64 p";
        if (one.find('*') == std::string::npos) {
            size_t bytes = 0;
            std::istringstream words(one);
            for (std::string word; !bytes && words >> word;) bytes = bytes_of_structure(source, word);
            line = ".param .align 8 .b8 p[" + std::to_string(bytes) + "]";
        }
        out += (out.empty() ? "" : ",\n") + line;
    }
    return out;
}

// CUDASIM_SOURCES: a folder for the text of each kernel, by its name.
void keep_source(const std::string& name, const std::string& source) {
    static const std::string folder = setting("CUDASIM_SOURCES", "");
    if (!folder.empty()) std::ofstream(folder + "/" + name + ".cu") << source;
}

int to_nothing(Program& p) {
    for (size_t at = p.source.find("__global__"); at != std::string::npos; at = p.source.find("__global__", at + 1)) {
        // The name stands before the list of parameters; attributes with lists of their own may come first.
        size_t open = p.source.find("void", at);
        open = open == std::string::npos ? open : p.source.find('(', open);
        for (; open != std::string::npos; open = p.source.find('(', open + 1)) {
            size_t start = p.source.find_last_not_of(" \n", open - 1), first = start;
            while (first > 0 && (isalnum(p.source[first - 1]) || p.source[first - 1] == '_')) first--;
            std::string name = p.source.substr(first, start - first + 1);
            if (name == "__launch_bounds__" || name == "__cluster_dims__") { open = p.source.find(')', open); continue; }
            size_t close = p.source.find(')', open);
            if (close == std::string::npos) break;
            p.ptx += ".visible .entry " + name + "(\n" + parameters_of(p.source, p.source.substr(open + 1, close - open - 1)) + "\n){}\n";
            keep_source(name, p.source);
            break;
        }
    }
    if (p.ptx.empty()) p.log = "no kernel was found";
    return p.ptx.empty() ? COMPILATION : SUCCESS;
}

int to_host(Program& p) {
    std::string error, text = translate(p.source, error);
    if (!error.empty()) { p.log = error; return COMPILATION; }
    std::string compiler = setting("CUDASIM_CXX", "g++"), flags = setting("CUDASIM_CXXFLAGS", "-O1");
    std::string include = folder() + "/include", header;
    static const char* const HEADERS[] = {"machine", "kernel", "warp", "mathematics", "halves", "atomics", "tensor_cores", "wmma", "copies",
        "tensor_map", "tensor_maps"};
    for (const char* name : HEADERS) {
        std::string text;
        read(include + "/cudasim/" + name + ".h", text);
        header += text;
    }
    // The same kernels on most machines, so that a cache can be carried from one to another.
    bool usual = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    std::vector<std::string> words = {compiler, "-std=c++17", "-shared", "-fPIC", "-w", usual ? "-march=x86-64-v3" : "-march=native",
        "-ffp-contract=fast", "-fno-strict-aliasing", "-fvisibility=hidden"};
    std::string how = flags;
    for (auto& w : words) how += " " + w;
    std::string key = cache() + "/" + hash(how + header + text), library = key + ".so";
    p.ptx = "// CUDA on CPU, library " + library + "\n";
    if (access(library.c_str(), R_OK) == 0) return SUCCESS;
    if (read(key + ".so.log", p.log)) return COMPILATION;
    double from = now();
    write(key + ".cpp", text);
    std::string temporary = library + "." + std::to_string(getpid()), log = key + ".log." + std::to_string(getpid());
    words.insert(words.end(), {"-I" + include, key + ".cpp", "-o", temporary});
    std::stringstream more(flags);
    for (std::string word; more >> word;) words.push_back(word);
    std::vector<char*> raw;
    for (auto& w : words) raw.push_back(&w[0]);
    raw.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    pid_t child;
    int status = -1;
    if (posix_spawnp(&child, raw[0], &actions, nullptr, raw.data(), environ) == 0) waitpid(child, &status, 0);
    posix_spawn_file_actions_destroy(&actions);
    read(log, p.log);
    unlink(log.c_str());
    note(status ? "host-failed" : "host", key, from);
    if (status) {
        write(key + ".so.log", p.log);
        return COMPILATION;
    }
    rename(temporary.c_str(), library.c_str());
    return SUCCESS;
}

}

#pragma GCC visibility push(default)
extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = 12;
    *minor = 8;
    sscanf(setting("CUDASIM_NVRTC_VERSION", "12.8").c_str(), "%d.%d", major, minor);
    return SUCCESS;
}
const char* nvrtcGetErrorString(int r) { return r == SUCCESS ? "NVRTC_SUCCESS" : r == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }

// What NVRTC 12.8 compiles for; CUDA 13 has dropped everything before Turing.
static std::vector<int> architectures() {
    int major, minor;
    nvrtcVersion(&major, &minor);
    if (major >= 13) return {75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121};
    return {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120};
}
int nvrtcGetNumSupportedArchs(int* count) { *count = int(architectures().size()); return SUCCESS; }
int nvrtcGetSupportedArchs(int* out) {
    for (int architecture : architectures()) *out++ = architecture;
    return SUCCESS;
}

int nvrtcCreateProgram(void** out, const char* source, const char*, int headers, const char* const*, const char* const*) {
    if (!source || headers) return INVALID_INPUT;
    *out = new Program{source, "", ""};
    return SUCCESS;
}
int nvrtcDestroyProgram(void** program) { delete static_cast<Program*>(*program); *program = nullptr; return SUCCESS; }

int nvrtcCompileProgram(void* program, int count, const char* const* options) {
    Program& p = *static_cast<Program*>(program);
    std::string kernels = setting("CUDASIM_KERNELS", "host");
    std::vector<std::string> all(options, options + count);
    int architecture;
    for (auto& option : all)
        if (sscanf(option.c_str(), "--gpu-architecture=sm_%d", &architecture) == 1 && architecture < architectures().front()) {
            p.log = "nvrtc: error: invalid value for --gpu-architecture (-arch): " + option;
            return INVALID_OPTION;
        }
    if (kernels == "none") return to_nothing(p);
    if (kernels != "host")
        if (int r = to_ptx(p, all)) return r;
    return kernels == "ptx" ? int(SUCCESS) : to_host(p);
}
int nvrtcGetPTXSize(void* program, size_t* size) { *size = static_cast<Program*>(program)->ptx.size() + 1; return SUCCESS; }
int nvrtcGetPTX(void* program, char* out) { strcpy(out, static_cast<Program*>(program)->ptx.c_str()); return SUCCESS; }
int nvrtcGetProgramLogSize(void* program, size_t* size) { *size = static_cast<Program*>(program)->log.size() + 1; return SUCCESS; }
int nvrtcGetProgramLog(void* program, char* out) { strcpy(out, static_cast<Program*>(program)->log.c_str()); return SUCCESS; }

}
#pragma GCC visibility pop
