#include "deploy/predict/host_uses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/predict/computers.h"
#include "deploy/sweep/batch_curve.h"
#include "deploy/text.h"
#include "runtime/cluster/role_assignment.h"

namespace tethys {
namespace {

// Two hosts count as different if one of their values differs by at least these ratios, because measurements
// of equal hosts differ, too.
constexpr double kSpeedDiffers = 1.3;
constexpr double kRateDiffers = 1.4;
constexpr double kDelayDiffers = 2.5;
constexpr double kMemoryDiffers = 2;
constexpr double kLeastDelay = 2e-4;  // Seconds; below this delay, all links count as equally near.
// The most ways to divide the hosts into two parts by speed. The same limit applies to ways by link.
constexpr size_t kMostCuts = 3;
constexpr size_t kMostNamedHosts = 3;  // The most hosts named in the text of a use.

// The speed and the links of a host, as far as they were measured.
struct Offer {
  double step = 0;        // Seconds of a step of one rank; 0: not known.
  double throughput = 0;  // Steps per second of all slots of the host together.
  double memory = 0;      // The host's memory in bytes; 0: not known.
  double rate = 0;        // Bytes per second of the host's own link; 0: not known.
  double delay = 0;       // The delay in one direction to the nearest host, in seconds.
  std::string device;
};

bool Near(double a, double b, double ratio) {
  return (a <= 0 && b <= 0) || (a > 0 && b > 0 && a < ratio * b && b < ratio * a);
}

bool Equal(const Offer& a, const Offer& b) {
  return a.device == b.device && Near(a.step, b.step, kSpeedDiffers) &&
         Near(a.throughput, b.throughput, kSpeedDiffers) && Near(a.memory, b.memory, kMemoryDiffers) &&
         Near(a.rate, b.rate, kRateDiffers) && Near(a.delay, b.delay, kDelayDiffers);
}

Offer OfferOf(const HostEntry& host, const proto::Calibration& calibration) {
  Offer offer;
  const proto::ComputerCalibration* computer = FindComputer(calibration, host.host, host.kind);
  if (computer != nullptr && !computer->time().empty()) {
    offer.device = computer->device();
    offer.memory = static_cast<double>(computer->memory_bytes());
    const auto& times = calibration.computer(0).time();
    const auto curve = BatchCurve::Create({computer->time().begin(), computer->time().end()});
    const int64_t batch = times.empty() ? 0 : times[times.size() / 2].batch();
    if (curve.ok() && batch > 0) offer.step = curve->Step(static_cast<double>(batch));
    // Hosts that share a computer share its capacity, however many slots they have.
    const int slots = computer->host_size() > 1 ? 1 : host.slots;
    if (offer.step > 0) offer.throughput = CapacityOf(*computer, slots) / offer.step;
  }
  for (const proto::LinkCalibration& link : calibration.link()) {
    if (link.from() == link.to() || (link.from() != host.host && link.to() != host.host)) continue;
    offer.rate = std::max(offer.rate, link.bytes_per_second());
    const double delay = std::max(kLeastDelay, link.delay());
    offer.delay = offer.delay == 0 ? delay : std::min(offer.delay, delay);
  }
  return offer;
}

struct Classes {
  std::vector<int> of_host;
  std::vector<Offer> offers;  // The offer of each class, taken from its first host.
};

Classes ClassesOf(const std::vector<HostEntry>& hosts, const proto::Calibration& calibration) {
  Classes classes;
  for (const HostEntry& host : hosts) {
    const Offer offer = OfferOf(host, calibration);
    const auto known = std::find_if(classes.offers.begin(), classes.offers.end(),
                                    [&](const Offer& other) { return Equal(offer, other); });
    classes.of_host.push_back(static_cast<int>(known - classes.offers.begin()));
    if (known == classes.offers.end()) classes.offers.push_back(offer);
  }
  return classes;
}

// Sorts the classes by `better` and cuts the order wherever a class is significantly worse than the class
// before it.
class Cuts {
 public:
  Cuts(const Classes& classes, const std::function<bool(const Offer&, const Offer&)>& better) {
    std::vector<int> order(classes.offers.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return better(classes.offers[a], classes.offers[b]); });
    rank_.resize(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const bool worse = i > 0 && better(classes.offers[order[i - 1]], classes.offers[order[i]]);
      rank_[order[i]] = i == 0 ? 0 : rank_[order[i - 1]] + (worse ? 1 : 0);
      most_ = std::max(most_, rank_[order[i]]);
    }
  }
  // The ranks at which the order may be cut: classes from this rank on are the worse part. The smallest worse
  // part comes first.
  std::vector<int> cuts() const {
    std::vector<int> cuts;
    for (int cut = most_; cut > 0 && cuts.size() < kMostCuts; --cut) cuts.push_back(cut);
    return cuts;
  }
  int rank(int of_class) const { return rank_[of_class]; }

 private:
  std::vector<int> rank_;  // The rank of each class; 0 is the best.
  int most_ = 0;
};

bool Faster(const Offer& a, const Offer& b) {
  if (!Near(a.step, b.step, kSpeedDiffers)) return a.step < b.step;
  if (!Near(a.throughput, b.throughput, kSpeedDiffers)) return a.throughput > b.throughput;
  return !Near(a.memory, b.memory, kMemoryDiffers) && a.memory > b.memory;
}

bool Nearer(const Offer& a, const Offer& b) {
  if (!Near(a.rate, b.rate, kRateDiffers)) return a.rate > b.rate;
  return !Near(a.delay, b.delay, kDelayDiffers) && a.delay < b.delay;
}

std::string Names(const std::vector<HostEntry>& hosts, const std::vector<int>& chosen) {
  if (chosen.size() > kMostNamedHosts) return PluralText(static_cast<int64_t>(chosen.size()), "host");
  return absl::StrJoin(chosen, " and ", [&](std::string* out, int host) { out->append(hosts[host].host); });
}

bool MayWork(const HostEntry& host) { return host.roles.worker || !host.roles.any_named(); }
bool MayServe(const HostEntry& host) { return host.roles.ps || !host.roles.any_named(); }

std::vector<int> Joined(std::vector<int> first, const std::vector<int>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

class UseMaker {
 public:
  UseMaker(const std::vector<HostEntry>& hosts, const Classes& classes) : hosts_(hosts), classes_(classes) {
    uses_.emplace_back();
    const Cuts speed(classes, Faster), link(classes, Nearer);
    for (const Cuts* cuts : {&speed, &link}) {
      for (const int cut : cuts->cuts()) AddCut(*cuts, cut, speed);
    }
  }
  std::vector<HostUse> Take() { return std::move(uses_); }

 private:
  // Among equal hosts, the chief's host comes last, as in the assignment of roles.
  std::vector<int> Order() const {
    int chief = 0;
    for (size_t i = hosts_.size(); i-- > 0;) chief = hosts_[i].roles.chief ? static_cast<int>(i) : chief;
    std::vector<int> order;
    for (int i = 0; i < static_cast<int>(hosts_.size()); ++i) {
      if (i != chief) order.push_back(i);
    }
    order.push_back(chief);
    return order;
  }

  void AddCut(const Cuts& cuts, int cut, const Cuts& speed) {
    std::vector<int> good, odd;
    for (const int host : Order()) {
      (cuts.rank(classes_.of_host[host]) >= cut ? odd : good).push_back(host);
    }
    for (std::vector<int>* part : {&good, &odd}) {
      std::stable_sort(part->begin(), part->end(), [&](int a, int b) {
        return speed.rank(classes_.of_host[a]) < speed.rank(classes_.of_host[b]);
      });
    }
    // Servers are assigned in the reverse order, so that workers get the fast hosts.
    const std::vector<int> good_servers(good.rbegin(), good.rend());
    const std::vector<int> odd_servers(odd.rbegin(), odd.rend());
    const std::string names = Names(hosts_, odd);
    const char* s = odd.size() == 1 ? "s" : "";
    Add(absl::StrCat("without ", names), good, good_servers);
    Add(absl::StrCat(names, " run", s, " only servers"), good, Joined(odd_servers, good_servers));
    Add(absl::StrCat(names, " run", s, " only workers"), Joined(good, odd), good_servers);
  }

  void Add(std::string text, const std::vector<int>& workers, const std::vector<int>& servers) {
    HostUse use{.text = std::move(text), .workers = {}, .servers = {}};
    for (const int host : workers) {
      if (MayWork(hosts_[host])) use.workers.push_back(host);
    }
    for (const int host : servers) {
      if (MayServe(hosts_[host])) use.servers.push_back(host);
    }
    if (use.workers.empty() || static_cast<int>(uses_.size()) >= kMostHostUses) return;
    const bool known = std::any_of(uses_.begin() + 1, uses_.end(), [&](const HostUse& other) {
      return other.workers == use.workers && other.servers == use.servers;
    });
    if (!known) uses_.push_back(std::move(use));
  }

  const std::vector<HostEntry>& hosts_;
  const Classes& classes_;
  std::vector<HostUse> uses_;
};

std::string LineOf(const HostEntry& host) {
  std::string line = absl::StrCat(host.user.empty() ? "" : host.user + "@", host.host);
  if (host.slots != 1) absl::StrAppend(&line, " slots=", host.slots);
  std::vector<std::string> roles;
  if (host.roles.chief) roles.emplace_back("chief");
  if (host.roles.worker) roles.emplace_back("worker");
  if (host.roles.ps) roles.emplace_back("ps");
  if (!roles.empty()) absl::StrAppend(&line, " role=", absl::StrJoin(roles, ","));
  if (host.ssh_port > 0) absl::StrAppend(&line, " port=", host.ssh_port);
  if (!host.address.empty()) absl::StrAppend(&line, " address=", host.address);
  if (!host.folder.empty()) absl::StrAppend(&line, " folder=", host.folder);
  if (host.price_per_hour.has_value()) absl::StrAppendFormat(&line, " price=%.17g", *host.price_per_hour);
  if (!host.kind.empty()) absl::StrAppend(&line, " kind=", host.kind);
  if (host.device.has_value()) absl::StrAppend(&line, " device=", DeviceKindText(*host.device));
  return line;
}

}  // namespace

std::vector<int> HostClasses(const std::vector<HostEntry>& hosts, const proto::Calibration& calibration) {
  return ClassesOf(hosts, calibration).of_host;
}

std::vector<HostUse> UsesOfHosts(const std::vector<HostEntry>& hosts, const proto::Calibration& calibration) {
  if (hosts.size() < 2) return {HostUse()};
  return UseMaker(hosts, ClassesOf(hosts, calibration)).Take();
}

absl::StatusOr<std::vector<HostEntry>> HostsFor(const std::vector<HostEntry>& hosts, const HostUse& use,
                                                int workers, int servers) {
  const size_t count = hosts.size();
  std::vector<int> free, works(count), serves(count);
  for (const HostEntry& host : hosts) free.push_back(host.slots);
  int left = servers;
  for (bool any = true; any && left > 0;) {
    any = false;
    for (const int host : use.servers) {
      if (left == 0 || free[host] == 0) continue;
      --free[host], --left, ++serves[host];
      any = true;
    }
  }
  int workers_left = workers;
  for (const int host : use.workers) {
    const int taken = std::min(workers_left, free[host]);
    works[host] += taken, workers_left -= taken;
  }
  if (left + workers_left > 0) {
    return absl::FailedPreconditionError(absl::StrCat(use.text, ": there are slots for only ",
                                                      workers - workers_left, " workers and ", servers - left,
                                                      " servers"));
  }
  TETHYS_ASSIGN_OR_RETURN(const RoleAssignment as_it_is, AssignRoles(hosts, 0, 0));
  std::vector<HostEntry> lines;
  // For each wanted worker and each wanted server: the index of its host's line in `lines`.
  std::vector<int> wanted_workers, wanted_servers;
  for (size_t i = 0; i < count; ++i) {
    const bool chief = static_cast<int>(i) == as_it_is.chief;
    if (works[i] + serves[i] == 0 && !chief) continue;
    HostEntry line = hosts[i];
    line.slots = std::max(1, works[i] + serves[i]);
    line.roles = {.chief = chief, .worker = works[i] > 0, .ps = serves[i] > 0};
    wanted_workers.insert(wanted_workers.end(), works[i], static_cast<int>(lines.size()));
    wanted_servers.insert(wanted_servers.end(), serves[i], static_cast<int>(lines.size()));
    lines.push_back(std::move(line));
  }
  TETHYS_ASSIGN_OR_RETURN(const RoleAssignment roles, AssignRoles(lines, workers, servers));
  if (roles.workers == wanted_workers && roles.servers == wanted_servers) return lines;
  return absl::FailedPreconditionError(
      absl::StrCat(use.text, ": no host file can express this use of the hosts"));
}

std::string HostFileText(const std::vector<HostEntry>& hosts) {
  std::string text;
  for (const HostEntry& host : hosts) absl::StrAppend(&text, LineOf(host), "\n");
  return text;
}

std::vector<std::vector<int>> WorkOfClasses(const std::vector<int>& classes, const std::vector<int>& workers,
                                            const std::vector<int>& servers) {
  // For each host: the host's class, and its numbers of workers and servers.
  std::vector<std::vector<int>> work;
  for (const int of_host : classes) work.push_back({of_host, 0, 0});
  for (const int host : workers) ++work[host][1];
  for (const int host : servers) ++work[host][2];
  std::sort(work.begin(), work.end());
  return work;
}

}  // namespace tethys
