// Passes new addresses of servers (proto::Servers) from the thread that reads the chief's orders on to a
// worker's client, whose thread may be waiting for a lost server. Thread-safe; nothing blocks, except for the
// callback.
#ifndef TETHYS_PS_SERVER_MOVES_H_
#define TETHYS_PS_SERVER_MOVES_H_

#include <functional>
#include <utility>
#include <vector>

#include "ps/client_options.h"
#include "runtime/base/mutex.h"

namespace tethys {

class ServerMoves {
 public:
  using Moved = std::function<void(const std::vector<ServerAddress>& servers)>;

  // The servers are at these addresses from now on, by index.
  void Move(std::vector<ServerAddress> servers) {
    MutexLock lock(mu_);
    servers_ = std::move(servers);
    if (moved_) moved_(servers_);
  }

  // Calls `moved` for each Move, and at once if servers have moved before. `moved` must not use this object.
  // If `moves` is null, `moved` is never called. At most one watch at a time; `moves` must outlive it.
  class Watch {
   public:
    Watch(ServerMoves* moves, Moved moved) : moves_(moves) {
      if (moves_ != nullptr) moves_->Listen(std::move(moved));
    }
    // Afterwards `moved` is not called any more.
    ~Watch() {
      if (moves_ != nullptr) moves_->Listen(nullptr);
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    ServerMoves* const moves_;
  };

 private:
  void Listen(Moved moved) {
    MutexLock lock(mu_);
    moved_ = std::move(moved);
    if (moved_ && !servers_.empty()) moved_(servers_);
  }

  Mutex mu_;
  std::vector<ServerAddress> servers_ ABSL_GUARDED_BY(mu_);  // Empty until servers move.
  Moved moved_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVER_MOVES_H_
