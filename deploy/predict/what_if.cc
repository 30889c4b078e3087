#include "deploy/predict/what_if.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "deploy/predict/computers.h"
#include "deploy/predict/machines.h"
#include "deploy/predict/step_model.h"
#include "deploy/sweep/batch_curve.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr char kWords[] =
    "hosts=N, kind=NAME, slots=N, cores=N, speed=FACTOR, link=RATE, delay=TIME and price=AMOUNT";
constexpr int kMaxCores = 4096;
constexpr double kMaxSpeed = 1000;  // The largest factor of speed=; the smallest factor is 1 / kMaxSpeed.
constexpr double kMinBits = 1e3;    // The least rate of link=, in bits per second.
constexpr double kMaxBits = 1e14;
constexpr double kMaxDelay = 10;  // The largest delay of delay=, in seconds.
constexpr double kMaxPrice = 1e9;

using Units = std::vector<std::pair<absl::string_view, double>>;

// Parses a number directly followed by one of the units; the result is in the unit with factor 1. Returns
// false if the text has another form.
bool ParseWithUnit(absl::string_view text, const Units& units, double& value) {
  for (const auto& [unit, factor] : units) {
    absl::string_view number = text;
    if (!absl::ConsumeSuffix(&number, unit) || number.empty() || !absl::ascii_isdigit(number.back()))
      continue;
    if (!absl::SimpleAtod(number, &value)) return false;
    value *= factor;
    return std::isfinite(value);
  }
  return false;
}

absl::Status Wrong(absl::string_view name, absl::string_view value, absl::string_view instead) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is '", value, "'; write ", instead));
}

absl::Status TakeCount(absl::string_view name, absl::string_view value, int most, absl::optional<int>& into) {
  int number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < 1 || number > most) {
    return Wrong(name, value, absl::StrCat("a whole number from 1 to ", most));
  }
  into = number;
  return absl::OkStatus();
}

absl::Status TakeRate(absl::string_view name, absl::string_view value, absl::optional<double>& into) {
  std::string lower = absl::AsciiStrToLower(value);
  if (absl::EndsWith(lower, "/s")) lower.resize(lower.size() - 2);
  double bits = 0;
  if (!ParseWithUnit(lower, {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}}, bits) || bits < kMinBits ||
      bits > kMaxBits) {
    return Wrong(name, value, "a rate with its unit, from 1kbit to 100000gbit, such as 940mbit or 10gbit");
  }
  into = bits / 8;
  return absl::OkStatus();
}

absl::Status TakeDelay(absl::string_view name, absl::string_view value, absl::optional<double>& into) {
  double seconds = 0;
  if (!ParseWithUnit(value, {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}, seconds) || seconds <= 0 ||
      seconds > kMaxDelay) {
    return Wrong(name, value,
                 "the delay in one direction with its unit, above 0 and up to 10s, such as 50us or 1.5ms");
  }
  into = seconds;
  return absl::OkStatus();
}

absl::Status TakeNumber(absl::string_view name, absl::string_view value, double least, double most,
                        absl::string_view example, absl::optional<double>& into) {
  double number = 0;
  if (!absl::SimpleAtod(value, &number) || !(number >= least && number <= most)) {
    return Wrong(name, value,
                 absl::StrFormat("a number from %g to %g without a unit, such as %s", least, most, example));
  }
  into = number;
  return absl::OkStatus();
}

absl::Status TakeWord(absl::string_view name, absl::string_view value, WhatIf& what_if) {
  if (name == "hosts") return TakeCount(name, value, kMaxHosts, what_if.hosts);
  if (name == "slots") return TakeCount(name, value, kMaxSlots, what_if.slots);
  if (name == "cores") return TakeCount(name, value, kMaxCores, what_if.cores);
  if (name == "speed") return TakeNumber(name, value, 1 / kMaxSpeed, kMaxSpeed, "1.5", what_if.speed);
  if (name == "link") return TakeRate(name, value, what_if.link);
  if (name == "delay") return TakeDelay(name, value, what_if.delay);
  if (name == "price") return TakeNumber(name, value, 0, kMaxPrice, "0.25", what_if.price);
  if (name != "kind") {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no setting '", name, "'; the settings are ", kWords));
  }
  if (value.empty()) return Wrong(name, value, "a kind of the host file, or the name of a host in it");
  what_if.kind = std::string(value);
  return absl::OkStatus();
}

// Builds a Supposition: applies the supposed properties one after the other to its hosts, calibration, half
// width and text.
class Supposing {
 public:
  Supposing(const WhatIf& what_if, const std::vector<HostEntry>& hosts, const proto::Calibration& calibration)
      : what_if_(what_if) {
    made_.hosts = hosts;
    made_.calibration = calibration;
  }

  absl::StatusOr<Supposition> Make() {
    if (what_if_.cores.has_value()) made_.slots_here = std::min(*what_if_.cores, kMaxSlots);
    TETHYS_RETURN_IF_ERROR(ChangeHosts());
    TETHYS_RETURN_IF_ERROR(ChangeCores());
    if (what_if_.speed.has_value()) {
      ScaleSpeed(*what_if_.speed, made_.calibration);
      AddDistance(*what_if_.speed);
      parts_.push_back(absl::StrFormat("computing %.3g times as fast", *what_if_.speed));
    }
    TETHYS_RETURN_IF_ERROR(ChangeLinks());
    if (what_if_.price.has_value()) {
      for (HostEntry& host : made_.hosts) host.price_per_hour = *what_if_.price;
      made_.price_here = *what_if_.price;
      parts_.push_back(absl::StrCat(DigitsText(*what_if_.price, 4), " per hour for each host"));
    }
    made_.text = absl::StrJoin(parts_, ", ");
    return std::move(made_);
  }

 private:
  // Widens the intervals because a property is `ratio` times the measured value.
  void AddDistance(double ratio) { made_.half_width += kWidthPerDoubling * std::abs(std::log2(ratio)); }

  absl::Status ChangeHosts() {
    std::vector<HostEntry>& hosts = made_.hosts;
    const int there = std::max<int>(1, static_cast<int>(hosts.size()));
    const int wanted = what_if_.hosts.value_or(there);
    if (hosts.empty() && wanted > 1) {
      TETHYS_ASSIGN_OR_RETURN(const proto::ComputerCalibration* here, ComputerOf(kThisMachine, ""));
      hosts.emplace_back();
      hosts[0].host = kThisMachine;
      hosts[0].slots = std::clamp(what_if_.cores.value_or(here->cores()), 1, kMaxSlots);
    }
    if (what_if_.hosts.has_value()) parts_.push_back(PluralText(wanted, "host"));
    if (wanted > there) {
      TETHYS_RETURN_IF_ERROR(AddHosts(wanted - there));
    } else if (!what_if_.kind.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "kind=", what_if_.kind, " describes additional hosts: add hosts=N, where N is more than the ",
          there, " hosts of the host file"));
    } else if (!hosts.empty()) {
      hosts.resize(wanted);
    }
    if (what_if_.slots.has_value()) {
      for (HostEntry& host : hosts) host.slots = *what_if_.slots;
      made_.slots_here = *what_if_.slots;
      parts_.push_back(PluralText(*what_if_.slots, "slot") + " on each");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const proto::ComputerCalibration*> ComputerOf(const std::string& host,
                                                               const std::string& kind) const {
    const proto::ComputerCalibration* computer = FindComputer(made_.calibration, host, kind);
    if (computer != nullptr) return computer;
    return absl::NotFoundError(absl::StrCat("the calibration knows neither host '", host,
                                            "' nor its kind: calibrate with this host file"));
  }

  // The existing hosts that an added host may be like: the hosts of the kind or of the name that kind= gives.
  // Without kind=, these are the hosts that may run workers.
  std::vector<int> Patterns() const {
    std::vector<int> found;
    for (size_t i = 0; i < made_.hosts.size(); ++i) {
      const HostEntry& host = made_.hosts[i];
      const bool fits = what_if_.kind.empty() ? host.roles.worker || !host.roles.any_named()
                                              : host.kind == what_if_.kind || host.host == what_if_.kind;
      if (fits) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  // The host of median speed among `patterns`, compared at the median of the batches measured on the first
  // pattern.
  absl::StatusOr<int> MedianOf(const std::vector<int>& patterns) const {
    double batch = 0;
    std::vector<std::pair<double, int>> steps;
    for (const int index : patterns) {
      const HostEntry& host = made_.hosts[index];
      TETHYS_ASSIGN_OR_RETURN(const proto::ComputerCalibration* computer, ComputerOf(host.host, host.kind));
      const absl::StatusOr<BatchCurve> curve =
          BatchCurve::Create({computer->time().begin(), computer->time().end()});
      if (!curve.ok()) {
        return Annotate(curve.status(),
                        absl::StrCat("the calibration's step times of host '", host.host, "'"));
      }
      if (batch == 0) batch = static_cast<double>(computer->time(computer->time_size() / 2).batch());
      steps.emplace_back(curve->Step(batch), index);
    }
    std::sort(steps.begin(), steps.end());
    return steps[(steps.size() - 1) / 2].second;
  }

  absl::Status AddHosts(int count) {
    const std::vector<int> patterns = Patterns();
    if (patterns.empty()) {
      std::set<std::string> known;
      for (const HostEntry& host : made_.hosts) known.insert(host.kind.empty() ? host.host : host.kind);
      return absl::InvalidArgumentError(
          what_if_.kind.empty() ? "no host of the host file may run workers, so it is not known what "
                                  "additional hosts are like: add kind=NAME"
                                : absl::StrCat("no host has the kind or the name '", what_if_.kind,
                                               "'; the kinds and names are ", absl::StrJoin(known, ", ")));
    }
    TETHYS_ASSIGN_OR_RETURN(const int index, MedianOf(patterns));
    HostEntry added = made_.hosts[index];
    const std::string pattern = added.host;
    TETHYS_ASSIGN_OR_RETURN(const proto::ComputerCalibration* like, ComputerOf(pattern, added.kind));
    // The further hosts get a new kind. So each of them counts as a computer of its own (JobComputers), even
    // if measured hosts share a computer.
    added.kind = absl::StrCat("like ", pattern);
    added.address.clear();
    proto::ComputerCalibration computer = *like;
    computer.clear_host();
    computer.clear_boot_id();
    computer.set_kind(added.kind);
    *made_.calibration.add_computer() = std::move(computer);
    std::set<std::string> names;
    for (const HostEntry& host : made_.hosts) names.insert(host.host);
    for (int number = static_cast<int>(names.size()) + 1; count > 0; ++number) {
      added.host = absl::StrCat("what-if-", number);
      if (!names.insert(added.host).second) continue;
      made_.hosts.push_back(added);
      --count;
    }
    absl::StrAppend(&parts_.back(), " (the additional hosts like ", pattern, ")");
    return absl::OkStatus();
  }

  absl::Status ChangeCores() {
    if (!what_if_.cores.has_value()) return absl::OkStatus();
    const int cores = *what_if_.cores;
    double farthest = 1;
    for (proto::ComputerCalibration& computer : *made_.calibration.mutable_computer()) {
      const std::string name = computer.host_size() > 0 ? computer.host(0) : computer.kind();
      // The device text of a CPU begins like this: "cpu, oneDNN 2.6.3, AVX2, 1 thread".
      if (!computer.device().empty() && !absl::StartsWith(computer.device(), "cpu")) {
        return absl::InvalidArgumentError(
            absl::StrCat("cores=", cores, " says nothing about workers on GPUs, and ", name, " computes on ",
                         computer.device(), ": leave cores= out"));
      }
      if (computer.cores() < 1) {
        return absl::FailedPreconditionError(
            absl::StrCat("the calibration does not say how many cores ", name,
                         " has: run tethys calibrate again, or leave out cores="));
      }
      const double ratio = static_cast<double>(cores) / computer.cores();
      if (std::abs(std::log2(ratio)) > std::abs(std::log2(farthest))) farthest = ratio;
      ScaleCapacity(ratio, computer);
      computer.set_cores(cores);
    }
    AddDistance(farthest);
    parts_.push_back(PluralText(cores, "core") + " in each");
    return absl::OkStatus();
  }

  // With `ratio` times as many cores, `ratio` times as many ranks share the cores at the same speed.
  static void ScaleCapacity(double ratio, proto::ComputerCalibration& computer) {
    const int count = std::min(computer.capacity_size(), computer.capacity_ranks_size());
    std::vector<std::pair<int, double>> scaled;
    for (int i = 0; i < count; ++i) {
      const int ranks = computer.capacity_ranks(i);
      const auto more = static_cast<int>(std::lround(ranks * ratio));
      if (ranks < 1 || more <= (scaled.empty() ? 1 : scaled.back().first)) continue;
      scaled.emplace_back(more, more * computer.capacity(i) / ranks);
    }
    computer.clear_capacity_ranks();
    computer.clear_capacity();
    for (const auto& [ranks, capacity] : scaled) {
      computer.add_capacity_ranks(ranks);
      computer.add_capacity(capacity);
    }
  }

  absl::Status ChangeLinks() {
    const bool named = what_if_.link.has_value() || what_if_.delay.has_value();
    if (made_.hosts.size() < 2) {
      if (!named) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "link= and delay= describe links between hosts, but there is only one host: add hosts=N");
    }
    auto& links = *made_.calibration.mutable_link();
    if (links.empty()) {
      if (!what_if_.link.has_value() || !what_if_.delay.has_value()) {
        return absl::InvalidArgumentError(
            "no link was measured, because there is only one host: describe the links by link=RATE and "
            "delay=TIME, such as link=940mbit,delay=50us");
      }
      proto::LinkCalibration& link = *links.Add();
      link.set_from(made_.hosts[0].host);
      link.set_to(made_.hosts[1].host);
      made_.half_width += kWidthPerDoubling;
    } else {
      double rate = 0, delay = 0;  // The rate and delay of the slowest link.
      for (const proto::LinkCalibration& link : links) {
        if (rate == 0 || link.bytes_per_second() < rate) rate = link.bytes_per_second();
        delay = std::max(delay, link.delay());
      }
      if (what_if_.link.has_value() && rate > 0) AddDistance(*what_if_.link / rate);
      if (what_if_.delay.has_value() && delay > 0) AddDistance(*what_if_.delay / delay);
    }
    for (proto::LinkCalibration& link : links) {
      if (what_if_.link.has_value()) {
        link.set_bytes_per_second(*what_if_.link);
        link.set_burst_bytes(0);  // A burst comes from a traffic shaper; supposed links have none.
      }
      if (what_if_.delay.has_value()) link.set_delay(*what_if_.delay);
    }
    if (what_if_.link.has_value()) parts_.push_back("links of " + LinkRateText(*what_if_.link));
    if (what_if_.delay.has_value()) parts_.push_back(TimeText(*what_if_.delay) + " from host to host");
    return absl::OkStatus();
  }

  const WhatIf& what_if_;
  Supposition made_;
  std::vector<std::string> parts_;  // The parts of the text that lists the supposed properties.
};

void Widen(double half, proto::Estimate& estimate) {
  if (estimate.low() == estimate.high()) return;  // An exact value is not widened.
  estimate.set_low(estimate.low() * std::exp(-half));
  estimate.set_high(estimate.high() * std::exp(half));
}

}  // namespace

absl::StatusOr<WhatIf> ParseWhatIf(const std::vector<std::string>& values) {
  WhatIf what_if;
  std::set<std::string> seen;
  for (const std::string& value : values) {
    for (const absl::string_view word : absl::StrSplit(value, ',')) {
      const std::vector<absl::string_view> sides = absl::StrSplit(word, absl::MaxSplits('=', 1));
      if (sides.size() != 2) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--what_if=", value, ": '", word, "' is not of the form NAME=VALUE; the settings are ", kWords));
      }
      if (!seen.emplace(sides[0]).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("--what_if=", value, ": ", sides[0], " is given twice"));
      }
      const absl::Status taken = TakeWord(sides[0], sides[1], what_if);
      if (!taken.ok()) return Annotate(taken, absl::StrCat("--what_if=", value));
    }
  }
  return what_if;
}

absl::StatusOr<Supposition> Suppose(const WhatIf& what_if, const std::vector<HostEntry>& hosts,
                                    const proto::Calibration& calibration) {
  absl::StatusOr<Supposition> made = Supposing(what_if, hosts, calibration).Make();
  if (!made.ok()) return Annotate(made.status(), "--what_if");
  return made;
}

void MarkSupposed(const Supposition& supposition, proto::Prediction& prediction) {
  const double half = supposition.half_width;
  if (prediction.has_step()) Widen(half, *prediction.mutable_step());
  if (prediction.has_epoch()) Widen(half, *prediction.mutable_epoch());
  if (prediction.has_total()) Widen(half, *prediction.mutable_total());
  if (prediction.has_cost()) Widen(half, *prediction.mutable_cost());
  if (prediction.has_startup()) Widen(half, *prediction.mutable_startup());
  if (prediction.has_first_iteration()) Widen(half, *prediction.mutable_first_iteration());
  if (prediction.has_samples_per_second()) Widen(half, *prediction.mutable_samples_per_second());
  if (prediction.has_staleness()) Widen(half, *prediction.mutable_staleness());
  prediction.set_validity(proto::NO_MACHINE);
  const std::string before = prediction.remark();
  prediction.set_remark(absl::StrCat("predicted by the model alone, not verified by any run, for ",
                                     supposition.text, before.empty() ? "" : "; ", before));
}

void ScaleLinks(double factor, proto::Calibration& calibration) {
  for (proto::LinkCalibration& link : *calibration.mutable_link()) {
    link.set_bytes_per_second(link.bytes_per_second() * factor);
  }
}

void ScaleSpeed(double factor, proto::Calibration& calibration) {
  for (proto::ComputerCalibration& computer : *calibration.mutable_computer()) {
    for (proto::BatchTime& time : *computer.mutable_time()) {
      time.set_step(time.step() / factor);
      time.set_forward(time.forward() / factor);
      time.set_backward(time.backward() / factor);
      time.set_update(time.update() / factor);
      for (double& ready : *time.mutable_ready()) ready /= factor;
    }
  }
  // The times of a sample, of an evaluation and of the first step are times of computing, too.
  for (proto::ExchangeCost& cost : *calibration.mutable_exchange()) {
    cost.set_sample_overhead(cost.sample_overhead() / factor);
  }
  if (!calibration.has_overheads()) return;
  proto::Overheads& overheads = *calibration.mutable_overheads();
  overheads.set_first_cpu(overheads.first_cpu() / factor);
  overheads.set_plan(overheads.plan() / factor);
  overheads.set_evaluate_per_sample(overheads.evaluate_per_sample() / factor);
}

std::string LinkRateText(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  // The rounded rate decides on the unit.
  if (bits >= 999.5e6) return absl::StrCat(DigitsText(bits / 1e9, 3), " Gbit/s");
  if (bits >= 999.5e3) return absl::StrCat(DigitsText(bits / 1e6, 3), " Mbit/s");
  return absl::StrCat(DigitsText(bits / 1e3, 3), " kbit/s");
}

}  // namespace tethys
