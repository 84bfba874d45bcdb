// A stand-in for NCCL among processes of one machine, whose device memory is that of the stand-in for the CUDA driver: memory of the
// process. What is sent has arrived when its group ends, so streams are not looked at. ../README.md has the variables.
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "wires.h"

using namespace ncclsim;

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct ncclComm {
    int ranks, rank;
    Wires wires;
    std::atomic<int> wrong{ncclSuccess};
    uint64_t groups = 0, messages = 0, bytes = 0;
    ncclComm(const std::string& name, int ranks, int rank) : ranks(ranks), rank(rank), wires(name, ranks, rank) {}
};

namespace {

// NCCLSIM_FAULTS: the answer that call `number` of a kind is to give, 0 if it is to work.
int fault(const std::string& kind, uint64_t number) {
    const char* text = getenv("NCCLSIM_FAULTS");
    std::string all = text ? text : "", wanted = kind + ":" + std::to_string(number) + "=";
    for (size_t at = 0; at < all.size();) {
        size_t end = std::min(all.find(',', at), all.size());
        if (!all.compare(at, wanted.size(), wanted)) return atoi(all.c_str() + at + wanted.size());
        at = end + 1;
    }
    return 0;
}

size_t size_of(ncclDataType_t type) {
    switch (type) {
        case ncclInt8: case ncclUint8: return 1;
        case ncclFloat16: case ncclBfloat16: return 2;
        case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
        case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
    }
    return 0;
}

// Calls between the start and the end of a group, of this thread.
struct Group {
    int depth = 0;
    ncclComm* comm = nullptr;
    ncclResult_t wrong = ncclSuccess;
    std::vector<Transfer> sends, receives;
};
thread_local Group group;

std::atomic<uint64_t> inits{0};

void tell(const ncclComm& comm) {
    const char* stats = getenv("NCCLSIM_STATS");
    if (!stats) return;
    FILE* file = fopen((std::string(stats) + "." + std::to_string(comm.rank)).c_str(), "w");
    if (!file) return;
    fprintf(file, "{\"groups\": %lu, \"messages\": %lu, \"bytes\": %lu}\n", comm.groups, comm.messages, comm.bytes);
    fclose(file);
}

ncclResult_t carry_out(Group& its) {
    if (its.wrong) return its.wrong;
    if (!its.comm) return ncclSuccess;
    ncclComm& comm = *its.comm;
    if (comm.wrong) return ncclResult_t(comm.wrong.load());
    comm.groups++;
    if (int code = fault("group", comm.groups)) return ncclResult_t(code);
    if (int code = fault("async", comm.groups)) {
        comm.wires.cut();
        comm.wrong = code;
        return ncclSuccess;
    }
    for (const Transfer& sent : its.sends) {
        if (sent.peer == comm.rank) continue;
        comm.messages++;
        comm.bytes += sent.bytes;
    }
    if (!comm.wires.move(its.sends, its.receives)) {
        // As with NCCL, the call itself was in order: what went wrong is asked for.
        comm.wires.cut();
        comm.wrong = ncclRemoteError;
    }
    return ncclSuccess;
}

ncclResult_t add(std::vector<Transfer> Group::*list, char* at, size_t count, ncclDataType_t type, int peer, ncclComm* comm) {
    if (!comm || !size_of(type) || peer < 0 || peer >= comm->ranks || (count && !at)) return ncclInvalidArgument;
    if (group.comm && group.comm != comm) return ncclInvalidUsage;
    group.comm = comm;
    (group.*list).push_back({peer, at, count * size_of(type)});
    return ncclSuccess;
}

// A call outside of a group is a group of one.
ncclResult_t call(std::vector<Transfer> Group::*list, char* at, size_t count, ncclDataType_t type, int peer, ncclComm* comm) {
    ncclGroupStart();
    if (ncclResult_t wrong = add(list, at, count, type, peer, comm)) group.wrong = wrong;
    return ncclGroupEnd();
}

}

EXPORTED ncclResult_t ncclGetVersion(int* version) {
    const char* told = getenv("NCCLSIM_VERSION");
    *version = told ? atoi(told) : 22105;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    static std::atomic<uint64_t> made{0};
    auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "ncclsim/%d/%lu/%llx", getpid(), ++made, static_cast<unsigned long long>(now));
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRank(ncclComm_t* out, int ranks, ncclUniqueId id, int rank) {
    if (ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
    if (int code = fault("init", ++inits)) return ncclResult_t(code);
    std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
    auto comm = std::make_unique<ncclComm>(name, ranks, rank);
    if (!comm->wires.connect()) return ncclSystemError;
    *out = comm.release();
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!comm) return ncclInvalidArgument;
    tell(*comm);
    delete comm;
    return ncclSuccess;
}
EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm) { return ncclCommDestroy(comm); }

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    if (!comm) return ncclInvalidArgument;
    *error = ncclResult_t(comm->wrong.load());
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
    *count = comm->ranks;
    return ncclSuccess;
}
EXPORTED ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
    *rank = comm->rank;
    return ncclSuccess;
}

EXPORTED const char* ncclGetErrorString(ncclResult_t error) {
    switch (error) {
        case ncclSuccess: return "no error";
        case ncclUnhandledCudaError: return "unhandled cuda error";
        case ncclSystemError: return "unhandled system error";
        case ncclInternalError: return "internal error";
        case ncclInvalidArgument: return "invalid argument";
        case ncclInvalidUsage: return "invalid usage";
        case ncclRemoteError: return "remote process exited or there was a network error";
        case ncclInProgress: return "NCCL operation in progress";
    }
    return "unknown result code";
}

EXPORTED ncclResult_t ncclGroupStart() {
    group.depth++;
    return ncclSuccess;
}
EXPORTED ncclResult_t ncclGroupEnd() {
    if (!group.depth) return ncclInvalidUsage;
    if (--group.depth) return ncclSuccess;
    Group its = std::move(group);
    group = Group();
    return carry_out(its);
}
EXPORTED ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t) {
    return call(&Group::sends, static_cast<char*>(const_cast<void*>(from)), count, type, peer, comm);
}
EXPORTED ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t) {
    return call(&Group::receives, static_cast<char*>(to), count, type, peer, comm);
}
