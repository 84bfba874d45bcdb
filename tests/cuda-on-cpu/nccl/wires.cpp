#include "wires.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>

using namespace ncclsim;

namespace {

constexpr auto PATIENCE = std::chrono::seconds(60);
using Clock = std::chrono::steady_clock;

// An address without a file: its first byte is zero.
socklen_t address(sockaddr_un& out, const std::string& name, int rank) {
    out = {};
    out.sun_family = AF_UNIX;
    std::string full = name + "/" + std::to_string(rank);
    size_t length = std::min(full.size(), sizeof out.sun_path - 1);
    memcpy(out.sun_path + 1, full.data(), length);
    return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + length);
}

bool all(int socket, char* bytes, size_t count, bool sending) {
    while (count) {
        ssize_t done = sending ? send(socket, bytes, count, MSG_NOSIGNAL) : recv(socket, bytes, count, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes += done;
        count -= size_t(done);
    }
    return true;
}

// Bytes on their way in one direction, each message behind its length.
struct Stream {
    struct Message { uint64_t length; char* at; size_t done; };
    std::deque<Message> messages;
    uint64_t told = 0;

    void add(char* at, size_t bytes) { messages.push_back({bytes, at, 0}); }
    bool is_done() const { return messages.empty(); }

    // As much as the socket takes or has now. False if it is closed, or a length is not the one that is expected.
    bool step(int socket, bool sending) {
        while (!messages.empty()) {
            Message& next = messages.front();
            bool head = next.done < sizeof next.length;
            if (sending) told = next.length;
            char* at = head ? reinterpret_cast<char*>(&told) + next.done : next.at + (next.done - sizeof next.length);
            size_t left = head ? sizeof next.length - next.done : next.length + sizeof next.length - next.done;
            if (left) {
                ssize_t done = sending ? send(socket, at, left, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(socket, at, left, MSG_DONTWAIT);
                if (done < 0 && (errno == EAGAIN || errno == EINTR)) return true;
                if (done <= 0) return false;
                next.done += size_t(done);
            }
            if (!sending && next.done == sizeof next.length && told != next.length) return false;
            if (next.done == next.length + sizeof next.length) messages.pop_front();
        }
        return true;
    }
};

}

Wires::Wires(const std::string& name, int ranks, int rank) : name(name), ranks(ranks), rank(rank), sockets(ranks, -1) {}

Wires::~Wires() {
    for (int socket : sockets) if (socket >= 0) close(socket);
    if (listening >= 0) close(listening);
}

void Wires::cut() {
    for (int socket : sockets) if (socket >= 0) shutdown(socket, SHUT_RDWR);
}

bool Wires::connect() {
    sockaddr_un place;
    socklen_t length = address(place, name, rank);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0 || bind(listening, reinterpret_cast<sockaddr*>(&place), length) || listen(listening, ranks)) return false;
    auto until = Clock::now() + PATIENCE;
    // Each calls those before it, and is called by those after it, who say who they are.
    for (int peer = 0; peer < rank; peer++) {
        length = address(place, name, peer);
        int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (made < 0) return false;
        sockets[peer] = made;
        while (::connect(made, reinterpret_cast<sockaddr*>(&place), length)) {
            if (Clock::now() > until) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        int32_t mine = rank;
        if (!all(made, reinterpret_cast<char*>(&mine), sizeof mine, true)) return false;
    }
    for (int expected = rank + 1; expected < ranks; expected++) {
        pollfd waiting = {listening, POLLIN, 0};
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0 || poll(&waiting, 1, int(left)) != 1) return false;
        int made = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
        int32_t peer = -1;
        if (made < 0) return false;
        if (!all(made, reinterpret_cast<char*>(&peer), sizeof peer, false) || peer <= rank || peer >= ranks || sockets[peer] >= 0) {
            close(made);
            return false;
        }
        sockets[peer] = made;
    }
    return true;
}

bool Wires::move(const std::vector<Transfer>& sends, const std::vector<Transfer>& receives) {
    std::vector<Stream> out(ranks), in(ranks);
    std::deque<Transfer> to_itself;
    for (const Transfer& it : sends) {
        if (it.peer == rank) to_itself.push_back(it);
        else out[it.peer].add(it.at, it.bytes);
    }
    for (const Transfer& it : receives) {
        if (it.peer != rank) {
            in[it.peer].add(it.at, it.bytes);
            continue;
        }
        if (to_itself.empty() || to_itself.front().bytes != it.bytes) return false;
        memmove(it.at, to_itself.front().at, it.bytes);
        to_itself.pop_front();
    }
    if (!to_itself.empty()) return false;
    for (;;) {
        std::vector<pollfd> waiting;
        for (int peer = 0; peer < ranks; peer++) {
            if (peer == rank) continue;
            if (!out[peer].step(sockets[peer], true) || !in[peer].step(sockets[peer], false)) return false;
            short events = short((out[peer].is_done() ? 0 : POLLOUT) | (in[peer].is_done() ? 0 : POLLIN));
            if (events) waiting.push_back({sockets[peer], events, 0});
        }
        if (waiting.empty()) return true;
        if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return false;
    }
}
