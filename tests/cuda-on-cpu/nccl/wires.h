// Connections between the ranks of a communicator: a Unix socket for each pair, of names that leave no files behind.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace ncclsim {

// What one rank sends to a peer, or receives from it.
struct Transfer {
    int peer;
    char* at;
    size_t bytes;
};

class Wires {
public:
    Wires(const std::string& name, int ranks, int rank);
    ~Wires();
    // Connects with all others, who do the same. False if one does not come within a minute.
    bool connect();
    // Moves everything, in both directions at once. False if a peer is gone or sends another length than is expected.
    bool move(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives);
    // What others notice.
    void cut();

private:
    std::string name;
    int ranks, rank;
    std::vector<int> sockets;  // by rank; -1 for this one
    int listening = -1;
};

}
