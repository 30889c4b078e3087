#include "deploy/predict/computers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

// Two links count as equally fast if the slower one has more than this share of the other one's rate, because
// measurements of equal links differ, too.
constexpr double kEquallyFast = 0.75;

// The quantile at `level`, in (0, 1), interpolated between the measured quantiles; for a level beyond the
// outermost measured quantile, that quantile.
double RatioAt(const google::protobuf::RepeatedField<double>& ratio, double level) {
  if (ratio.empty()) return 1;
  const double position = level * (ratio.size() + 1) - 1;
  const auto below = static_cast<int>(std::clamp(std::floor(position), 0.0, ratio.size() - 1.0));
  const int above = std::min(below + 1, ratio.size() - 1);
  const double part = std::clamp(position - below, 0.0, 1.0);
  return ratio[below] * (1 - part) + ratio[above] * part;
}

bool HasLowerRate(const LinkOffer& a, const LinkOffer& b) { return a.rate < b.rate; }
// Of two links with nearly the same rate, the one with a much longer delay is the slower.
bool IsSlower(const proto::LinkCalibration& a, const proto::LinkCalibration& b) {
  const double rate = a.bytes_per_second() / b.bytes_per_second();
  const bool same_rate = rate > kEquallyFast && rate * kEquallyFast < 1;
  const bool same_delay = a.delay() > kEquallyFast * b.delay() && b.delay() > kEquallyFast * a.delay();
  return same_rate && !same_delay ? a.delay() > b.delay() : rate < 1;
}

// The time of a step of `computer` at the median of the batch sizes that were measured on the calibration's
// first computer; 0: the calibration has no times.
double MiddleStep(const proto::Calibration& calibration, const proto::ComputerCalibration& computer) {
  if (computer.time().empty() || calibration.computer(0).time().empty()) return 0;
  const auto& times = calibration.computer(0).time();
  const auto batch = static_cast<double>(times[times.size() / 2].batch());
  const absl::StatusOr<BatchCurve> curve =
      BatchCurve::Create({computer.time().begin(), computer.time().end()});
  return curve.ok() ? curve->Step(batch) : 0;
}

}  // namespace

double CapacityOf(const proto::ComputerCalibration& computer, int k) {
  if (k <= 1) return 1;
  const int count = std::min(computer.capacity_size(), computer.capacity_ranks_size());
  double below_ranks = 1, below = 1;
  for (int i = 0; i < count; ++i) {
    const double ranks = computer.capacity_ranks(i);
    const double capacity = std::max(1e-3, computer.capacity(i));
    if (ranks >= k && ranks > below_ranks) {
      return below + (capacity - below) * (k - below_ranks) / (ranks - below_ranks);
    }
    if (ranks >= below_ranks) below_ranks = ranks, below = capacity;
  }
  return count > 0 ? below : std::clamp(computer.cores(), 1, k);
}

const proto::ComputerCalibration* FindComputer(const proto::Calibration& calibration, const std::string& host,
                                               const std::string& kind) {
  const proto::ComputerCalibration* of_kind = nullptr;
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    if (std::find(computer.host().begin(), computer.host().end(), host) != computer.host().end()) {
      return &computer;
    }
    if (!kind.empty() && computer.kind() == kind) of_kind = &computer;
  }
  return of_kind;
}

double StragglerQuantile(const google::protobuf::RepeatedField<double>& ratio, double n, double level) {
  return RatioAt(ratio, std::pow(level, 1 / std::max(1.0, n)));
}

absl::StatusOr<JobComputers> JobComputers::Create(const JobMachines& machines,
                                                  const proto::Calibration& calibration) {
  JobComputers found(machines, calibration);
  found.of_host_.assign(machines.hosts.size(), -1);
  std::set<std::string> linked;
  for (const proto::LinkCalibration& link : calibration.link()) {
    linked.insert(link.from());
    linked.insert(link.to());
  }
  for (const std::string& host : machines.hosts) found.linked_.push_back(linked.count(host) > 0 ? 1 : 0);
  double fastest = 0;  // The seconds of a step on the fastest computer.
  for (const proto::ComputerCalibration& computer : calibration.computer()) {
    const double step = MiddleStep(calibration, computer);
    if (step > 0) fastest = fastest > 0 ? std::min(fastest, step) : step;
  }
  std::map<const proto::ComputerCalibration*, int> index;
  const auto place = [&](int host, int JobComputer::*count) -> absl::Status {
    if (found.of_host_[host] < 0) {
      const std::string& name = machines.hosts[host];
      const proto::ComputerCalibration* computer = FindComputer(calibration, name, machines.kinds[host]);
      if (computer == nullptr) {
        return absl::NotFoundError(absl::StrCat("the calibration knows neither host '", name,
                                                "' nor its kind: calibrate with this host file"));
      }
      // A host that the calibration does not list gets the times of a computer of its kind, but counts as a
      // computer of its own.
      const bool listed =
          std::find(computer->host().begin(), computer->host().end(), name) != computer->host().end();
      if (const auto known = index.find(computer); listed && known != index.end()) {
        found.of_host_[host] = known->second;
      } else {
        absl::StatusOr<BatchCurve> curve =
            BatchCurve::Create({computer->time().begin(), computer->time().end()});
        if (!curve.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat("the calibration's step times of host '", name, "': ", curve.status().message()));
        }
        found.of_host_[host] = static_cast<int>(found.computers_.size());
        if (listed) index[computer] = found.of_host_[host];
        found.computers_.push_back({name, computer, *std::move(curve)});
        const double step = MiddleStep(calibration, *computer);
        if (step > 0) found.computers_.back().slowness = step / fastest;
      }
      found.used_hosts_.push_back(host);
    }
    ++(found.computers_[found.of_host_[host]].*count);
    return absl::OkStatus();
  };
  for (const int host : machines.workers) TETHYS_RETURN_IF_ERROR(place(host, &JobComputer::workers));
  for (const int host : machines.servers) TETHYS_RETURN_IF_ERROR(place(host, &JobComputer::servers));
  return found;
}

const proto::LinkCalibration* JobComputers::FindLink(const std::string& from, const std::string& to) const {
  // Not every pair of hosts is measured. For an unmeasured pair, each host's own link is taken as its fastest
  // measured link, and the slower of the two stands for the pair. If neither host has a measured link, the
  // slowest measured link stands for the pair.
  const proto::LinkCalibration *of_from = nullptr, *of_to = nullptr, *slowest = nullptr;
  for (const proto::LinkCalibration& link : calibration_->link()) {
    if (link.from() == link.to() || link.bytes_per_second() <= 0) continue;
    if (link.from() == from && link.to() == to) return &link;
    if (slowest == nullptr || IsSlower(link, *slowest)) slowest = &link;
    const auto keep_faster = [&](const std::string& host, const proto::LinkCalibration*& own) {
      if (link.from() != host && link.to() != host) return;
      if (own == nullptr || IsSlower(*own, link)) own = &link;
    };
    keep_faster(from, of_from);
    keep_faster(to, of_to);
  }
  if (of_from == nullptr && of_to == nullptr) return slowest;
  if (of_from == nullptr || of_to == nullptr) return of_from == nullptr ? of_to : of_from;
  return IsSlower(*of_from, *of_to) ? of_from : of_to;
}

absl::StatusOr<std::vector<LinkOffer>> JobComputers::LinksOf(int host, const std::vector<int>& peers) const {
  std::vector<LinkOffer> offers;
  bool unlinked = false;
  for (const int peer : peers) {
    if (peer == host) continue;
    // All peers without a listed link have the same default link, so only the first such peer is looked up.
    // With --what_if there may be thousands of such peers.
    if (linked_[peer] == 0 && std::exchange(unlinked, true)) continue;
    LinkOffer offer;
    for (const auto& [from, to] : {std::pair{host, peer}, {peer, host}}) {
      const proto::LinkCalibration* link = FindLink(machines_->hosts[from], machines_->hosts[to]);
      if (link == nullptr) {
        return absl::NotFoundError(absl::StrCat("the calibration has no link between '",
                                                machines_->hosts[from], "' and '", machines_->hosts[to],
                                                "': calibrate with this host file"));
      }
      if (offer.rate > 0 && offer.rate <= link->bytes_per_second()) continue;
      offer = {.delay = link->delay(), .rate = link->bytes_per_second(), .burst = link->burst_bytes()};
    }
    offers.push_back(offer);
  }
  return offers;
}

absl::StatusOr<LinkOffer> JobComputers::LinkOf(int host, const std::vector<int>& peers) const {
  TETHYS_ASSIGN_OR_RETURN(const std::vector<LinkOffer> offers, LinksOf(host, peers));
  return offers.empty() ? LinkOffer() : *std::min_element(offers.begin(), offers.end(), HasLowerRate);
}

absl::StatusOr<std::vector<LinkOffer>> JobComputers::OwnLinks() const {
  std::vector<double> fastest;  // The rate of each used host's fastest link.
  for (const int host : used_hosts_) {
    TETHYS_ASSIGN_OR_RETURN(const std::vector<LinkOffer> offers, LinksOf(host, used_hosts_));
    const auto best = std::max_element(offers.begin(), offers.end(), HasLowerRate);
    fastest.push_back(best == offers.end() ? 0 : best->rate);
  }
  std::vector<LinkOffer> links;
  for (size_t i = 0; i < used_hosts_.size(); ++i) {
    std::vector<int> peers;
    for (size_t j = 0; j < used_hosts_.size(); ++j) {
      if (fastest[j] >= kEquallyFast * fastest[i]) peers.push_back(used_hosts_[j]);
    }
    TETHYS_ASSIGN_OR_RETURN(const LinkOffer link, LinkOf(used_hosts_[i], peers));
    links.push_back(link);
  }
  return links;
}

}  // namespace tethys
