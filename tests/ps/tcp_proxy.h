// A TCP proxy on loopback. A test can cut its connections, damage payloads or withhold answers.
#ifndef TETHYS_TESTS_PS_TCP_PROXY_H_
#define TETHYS_TESTS_PS_TCP_PROXY_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/mutex.h"

namespace tethys {

inline sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// A connection to "127.0.0.1:PORT".
inline FileDescriptor ConnectTo(const std::string& address) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in to = LoopbackAddress(std::stoi(address.substr(address.rfind(':') + 1)));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

class TcpProxy {
 public:
  explicit TcpProxy(std::string target)
      : target_(std::move(target)), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    std::signal(SIGPIPE, SIG_IGN);  // Writing to a cut connection must not kill the process.
    sockaddr_in address = LoopbackAddress(0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~TcpProxy() {
    shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    Cut();
    for (Connection& connection : connections_) connection.thread.join();
  }

  const std::string& address() const { return address_; }
  int connections() const { return accepted_; }

  // Closes all current connections; new connections may be made.
  void Cut() {
    MutexLock lock(mu_);
    for (Connection& connection : connections_) {
      shutdown(connection.worker.get(), SHUT_RDWR);
      shutdown(connection.server.get(), SHUT_RDWR);
    }
  }
  // Flips a bit in the next payload, of either direction, that contains `value` sixteen times in a row.
  void Damage(float value) {
    MutexLock lock(damage_mu_);
    for (int i = 0; i < 16; ++i) damaged_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  // All bytes that workers have sent.
  std::string sent() {
    MutexLock lock(damage_mu_);
    return sent_;
  }
  // Drops everything that servers send on the present connections from now on.
  void WithholdAnswers() {
    MutexLock lock(mu_);
    for (Connection& connection : connections_) connection.deaf = true;
  }
  // Reads nothing more that workers send on the present connections, so their sockets fill.
  void StopReading() {
    MutexLock lock(mu_);
    for (Connection& connection : connections_) connection.stopped = true;
  }

 private:
  struct Connection {
    FileDescriptor worker;
    FileDescriptor server;
    std::atomic<bool> deaf{false};
    std::atomic<bool> stopped{false};
    std::thread thread;
  };

  void Accept() {
    while (true) {
      FileDescriptor worker(accept(listener_.get(), nullptr, nullptr));
      if (!worker.valid()) return;
      MutexLock lock(mu_);
      Connection& connection = connections_.emplace_back();
      connection.worker = std::move(worker);
      connection.server = ConnectTo(target_);
      connection.thread = std::thread([this, &connection] { Relay(connection); });
      ++accepted_;
    }
  }

  void DoDamage(std::vector<char>& buffer, int64_t bytes) {
    MutexLock lock(damage_mu_);
    if (damaged_.empty() || bytes <= 0) return;
    const size_t found = absl::string_view(buffer.data(), bytes).find(damaged_);
    if (found == absl::string_view::npos) return;
    buffer[found + damaged_.size() / 2] ^= 1;
    damaged_.clear();
  }

  void Keep(absl::string_view bytes) {
    MutexLock lock(damage_mu_);
    sent_.append(bytes.data(), bytes.size());
  }

  void Relay(Connection& connection) {
    pollfd ends[2] = {{connection.worker.get(), POLLIN, 0}, {connection.server.get(), POLLIN, 0}};
    std::vector<char> buffer(1 << 16);
    while (poll(ends, 2, -1) > 0) {
      for (int from = 0; from < 2; ++from) {
        if (ends[from].revents == 0) continue;
        if (from == 0 && connection.stopped && (ends[0].revents & (POLLHUP | POLLERR)) == 0) {
          ends[0].events = 0;
          continue;
        }
        const ssize_t bytes = read(ends[from].fd, buffer.data(), buffer.size());
        DoDamage(buffer, bytes);
        if (from == 0 && bytes > 0) Keep({buffer.data(), static_cast<size_t>(bytes)});
        const bool dropped = from == 1 && connection.deaf;
        if (bytes <= 0 || (!dropped && !WriteFully(ends[1 - from].fd, buffer.data(), bytes, "proxy").ok())) {
          shutdown(ends[0].fd, SHUT_RDWR);
          shutdown(ends[1].fd, SHUT_RDWR);
          return;
        }
      }
    }
  }

  const std::string target_;
  const FileDescriptor listener_;
  std::string address_;
  std::thread acceptor_;
  std::atomic<int> accepted_{0};
  Mutex damage_mu_;
  std::string damaged_ ABSL_GUARDED_BY(damage_mu_);  // Bytes in which a bit is to be flipped; empty: none.
  std::string sent_ ABSL_GUARDED_BY(damage_mu_);
  Mutex mu_;
  std::list<Connection> connections_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tethys

#endif  // TETHYS_TESTS_PS_TCP_PROXY_H_
