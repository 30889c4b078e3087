#include "deploy/hosts/build_in_use.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

namespace tethys {

BuildInUse::BuildInUse(std::string folder, Nanoseconds interval)
    : folder_(std::move(folder)), interval_(interval) {
  if (folder_.empty()) return;
  if (!thread_.Start([this] { Run(); }).ok()) Touch();
}

BuildInUse::~BuildInUse() {
  {
    const MutexLock lock(mu_);
    ended_ = true;
  }
  end_.NotifyAll();
  thread_.Join();
}

// Errors are ignored: at worst, the folder counts as unused.
void BuildInUse::Touch() const { utimensat(AT_FDCWD, folder_.c_str(), nullptr, 0); }

void BuildInUse::Run() {
  const MutexLock lock(mu_);
  while (!ended_) {
    Touch();
    end_.WaitFor(mu_, interval_);
  }
}

}  // namespace tethys
