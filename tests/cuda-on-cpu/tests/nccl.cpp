// Ranks are processes of this program, which share nothing but an identifier. The first argument is a test's name.
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#define OK(call) do { int code_ = int(call); if (code_) { printf("FAILED line %d: %s (%d)\n", __LINE__, #call, code_); _exit(1); } } while (0)
#define CHECK(holds) do { if (!(holds)) { printf("FAILED line %d: %s\n", __LINE__, #holds); _exit(1); } } while (0)

namespace {

using Rank = std::function<void(ncclComm_t, int, int)>;

void on_ranks(int ranks, const Rank& work) {
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    std::vector<pid_t> started;
    for (int rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        if (!child) {
            ncclComm_t comm;
            OK(ncclCommInitRank(&comm, ranks, id, rank));
            work(comm, ranks, rank);
            fflush(stdout);
            _exit(0);
        }
        started.push_back(child);
    }
    for (pid_t child : started) {
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

float number(int from, int to, size_t at) { return float(from * 1000 + to * 100) + float(at % 97); }

// Everyone sends to everyone, itself included: two messages each, the second far larger than what a socket holds.
void all_to_all(ncclComm_t comm, int ranks, int rank) {
    const size_t lengths[] = {3, 1 << 20};
    std::vector<std::vector<float>> sent, received;
    OK(ncclGroupStart());
    for (int peer = 0; peer < ranks; peer++)
        for (size_t length : lengths) {
            std::vector<float> values(length);
            for (size_t at = 0; at < length; at++) values[at] = number(rank, peer, at + length);
            sent.push_back(values);
            received.emplace_back(length, -1.0f);
            OK(ncclSend(sent.back().data(), length, ncclFloat32, peer, comm, nullptr));
            OK(ncclRecv(received.back().data(), length, ncclFloat32, peer, comm, nullptr));
        }
    OK(ncclGroupEnd());
    ncclResult_t wrong;
    OK(ncclCommGetAsyncError(comm, &wrong));
    OK(wrong);
    for (int peer = 0; peer < ranks; peer++)
        for (int which = 0; which < 2; which++)
            for (size_t at = 0; at < lengths[which]; at++)
                CHECK(received[2 * peer + which][at] == number(peer, rank, at + lengths[which]));
    OK(ncclCommDestroy(comm));
}

// The answers that the first and the others get to their first exchange, and whether the communicator is broken then.
void one_fails(ncclComm_t comm, int ranks, int rank, int expected) {
    float mine = 1, other = 0;
    OK(ncclGroupStart());
    OK(ncclSend(&mine, 1, ncclFloat32, (rank + 1) % ranks, comm, nullptr));
    OK(ncclRecv(&other, 1, ncclFloat32, (rank + ranks - 1) % ranks, comm, nullptr));
    CHECK(ncclGroupEnd() == expected);
    ncclResult_t wrong;
    OK(ncclCommGetAsyncError(comm, &wrong));
    CHECK(expected != 0 || wrong == ncclRemoteError);
    OK(ncclCommAbort(comm));
}

void lengths_differ(ncclComm_t comm, int, int rank) {
    float values[4] = {};
    if (rank == 0) OK(ncclSend(values, 3, ncclFloat32, 1, comm, nullptr));
    else OK(ncclRecv(values, 4, ncclFloat32, 0, comm, nullptr));
    ncclResult_t wrong;
    OK(ncclCommGetAsyncError(comm, &wrong));
    CHECK(rank == 0 || wrong == ncclRemoteError);
    OK(ncclCommDestroy(comm));
}

}

int main(int, char** arguments) {
    std::string test = arguments[1];
    int version;
    OK(ncclGetVersion(&version));
    CHECK(version == 22105);
    if (test == "everyone_gets_what_was_sent_to_it") for (int ranks : {1, 2, 3}) on_ranks(ranks, all_to_all);
    else if (test == "a_fault_is_told_to_its_rank_and_breaks_the_others")
        on_ranks(2, [](ncclComm_t comm, int ranks, int rank) {
            // Both have the variable. The second has its fault in a group that never comes.
            if (rank == 1) unsetenv("NCCLSIM_FAULTS");
            one_fails(comm, ranks, rank, rank == 0 ? atoi(getenv("EXPECTED")) : 0);
        });
    else if (test == "another_length_than_expected_is_an_error") on_ranks(2, lengths_differ);
    else CHECK(!"a test of this name");
    return 0;
}
