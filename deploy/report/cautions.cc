#include "deploy/report/cautions.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/report/comparison.h"
#include "deploy/report/cpu_use.h"
#include "deploy/report/report_value.h"
#include "deploy/report/variant_name.h"

namespace tethys {
namespace {

using proto::ReportVariant;

// A list of names that counts the names after the first kNamed: "B, C, E and 4 more".
std::string Named(std::vector<std::string> names) {
  const size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

std::string FailedRuns(const proto::Report& report) {
  int failed = 0;
  int all = 0;
  bool interrupted = false;
  for (const ReportVariant& variant : report.variant()) {
    failed += variant.failed();
    all += variant.failed() + variant.runs();
    for (const proto::RunPoint& run : variant.run())
      interrupted = interrupted || run.status() == "interrupted";
  }
  return failed == 0
             ? ""
             : absl::StrCat(failed, " of ", all, " runs failed", interrupted ? " or were interrupted" : "");
}

std::string LeftOut(const proto::Report& report) {
  std::vector<std::string> names;
  size_t repeated = 0;
  for (const ReportVariant& variant : report.variant()) {
    if (variant.runs() > 1) ++repeated;
    if (variant.runs() == 1) names.push_back(NameInText(variant));
  }
  if (repeated < 2 || names.empty()) return "";
  return absl::StrCat(Named(names), names.size() == 1 ? " has" : " have",
                      " a single successful run and cannot be recommended");
}

// Warns if all workers shared one computer. Workers on one computer share its cores even if they are in
// different network namespaces, so computers are told apart by boot id.
std::string OneComputer(const proto::Report& report) {
  std::set<std::string> computers;
  int cores = 0;
  bool several_workers = false;
  for (const ReportVariant& variant : report.variant()) {
    several_workers = several_workers || variant.workers() > 1;
    for (const proto::ResourceSummary& line : variant.summary().resources()) {
      if (line.host().empty() || !line.process().empty()) continue;
      computers.insert(line.boot_id().empty() ? line.host() : line.boot_id());
      cores = std::max(cores, line.cores());
    }
  }
  if (computers.size() != 1 || cores == 0 || !several_workers) return "";
  return absl::StrCat("all processes shared one computer with ", cores, cores == 1 ? " core" : " cores",
                      ", so the results say nothing about training on several computers");
}

// The number of machines on which the workers of a variant ran; 0: not known.
size_t WorkerMachines(const ReportVariant& variant) {
  std::set<std::string> machines;
  for (const proto::ResourceSummary& line : variant.summary().resources()) {
    if (absl::StartsWith(line.process(), "worker ")) machines.insert(line.host());
  }
  return machines.size();
}

// Warns if the same number of workers ran on different numbers of machines: a host file with several slots
// per machine fills one machine before the next, so the variants differ in more than the strategy.
std::string Machines(const proto::Report& report) {
  // The name of the first variant, by the number of workers and the number of machines.
  std::map<int64_t, std::map<size_t, std::string>> variants;
  for (const ReportVariant& variant : report.variant()) {
    const size_t machines = WorkerMachines(variant);
    if (machines > 0) variants[variant.workers()].try_emplace(machines, NameInText(variant));
  }
  for (const auto& [workers, by_machines] : variants) {
    if (by_machines.size() < 2) continue;
    const auto& [fewest, first] = *by_machines.begin();
    const auto& [most, last] = *by_machines.rbegin();
    return absl::StrCat("the ", workers, " workers of ", first, " ran on ", fewest,
                        fewest == 1 ? " machine" : " machines", ", the ", workers, " workers of ", last,
                        " on ", most);
  }
  return "";
}

// Compares the fastest variant on one machine with the fastest variant on each larger number of machines.
// Names the numbers of machines whose variant is slower, or is not shown to be faster.
std::string SlowerMachines(const proto::Report& report, const Findings& findings) {
  std::map<size_t, const ReportVariant*> fastest;
  for (const ReportVariant* variant : findings.repeated) {
    if (RankedTime(report, *variant).count() < 2) continue;
    const ReportVariant*& best = fastest[WorkerMachines(*variant)];
    const bool faster =
        best == nullptr || RankedTime(report, *variant).mean() < RankedTime(report, *best).mean();
    if (faster) best = variant;
  }
  if (fastest.count(1) == 0) return "";
  const ReportVariant& one = *fastest[1];
  std::vector<std::string> parts;
  for (const auto& [machines, variant] : fastest) {
    const proto::ReportValue& time = RankedTime(report, *variant);
    if (machines < 2 || IsShownLess(time, RankedTime(report, one))) continue;
    const bool slower = IsShownLess(RankedTime(report, one), time);
    parts.push_back(absl::StrCat(machines, " machines (", NameInText(*variant), ") are ",
                                 slower ? "slower" : "not shown to be faster"));
  }
  if (parts.empty()) return "";
  return absl::StrCat(Named(std::move(parts)), " than one machine (", NameInText(one), ")");
}

std::string HardlyLearned(const proto::Report& report, const Findings& findings) {
  const Ranking& hardly = findings.hardly_learned;
  std::vector<std::string> names;
  for (const ReportVariant& variant : report.variant()) {
    if (std::find(hardly.begin(), hardly.end(), &variant) != hardly.end())
      names.push_back(NameInText(variant));
  }
  return names.empty() ? "" : absl::StrCat(Named(std::move(names)), " hardly learned");
}

std::string OthersCpu(const proto::Report& report, const Findings& findings) {
  const double most = MostOthersCpu(report);
  // A share above kLoudOthersCpu is left out, because the headline of a comparison states it.
  if (most < kOthersCpu || (findings.others_cpu > 0 && findings.by_speed.size() > 1)) return "";
  return absl::StrFormat("other programs took up to %.0f %% of the CPU", 100 * most);
}

std::string Normalisation(const proto::Report& report) {
  const auto differ = [&report](const ReportVariant& v) {
    return v.normalised_samples() != report.variant(0).normalised_samples();
  };
  if (std::none_of(report.variant().begin(), report.variant().end(), differ)) return "";
  return "the variants compute batch-normalisation statistics over different numbers of samples, and this "
         "alone changes accuracy, whatever the strategy";
}

std::string Exchanges(const proto::Report& report) {
  std::vector<std::string> names;
  for (const ReportVariant& variant : report.variant()) {
    std::vector<std::string> exchanges;
    for (const proto::RunPoint& run : variant.run()) {
      if (run.status() == "succeeded") exchanges.push_back(run.exchange());
    }
    if (!DifferentExchanges(exchanges).empty()) names.push_back(NameInText(variant));
  }
  return names.empty() ? ""
                       : absl::StrCat("not all runs of ", Named(std::move(names)),
                                      " exchanged gradients in the same way");
}

bool WasDisturbed(const proto::RunPoint& run) { return !run.losses().empty(); }

std::string Losses(const proto::Report& report) {
  std::vector<std::string> names;
  for (const ReportVariant& variant : report.variant()) {
    if (std::any_of(variant.run().begin(), variant.run().end(), WasDisturbed))
      names.push_back(NameInText(variant));
  }
  return names.empty()
             ? ""
             : absl::StrCat("runs of ", Named(std::move(names)),
                            " lost processes or started again, and the times include the resulting delays");
}

std::string JobsDiffer(const proto::Report& report) {
  std::vector<std::string> fields;
  for (const proto::JobDifference& difference : report.difference()) {
    if (!difference.in_name()) fields.push_back(difference.field());
  }
  return fields.empty() ? "" : absl::StrCat("the jobs differ in ", Named(std::move(fields)));
}

std::string Batches(const Findings& findings) {
  return findings.batches_differ
             ? "global batches differ, and so do the numbers of updates, on which accuracy depends"
             : "";
}

}  // namespace

std::vector<std::string> Cautions(const proto::Report& report, const Findings& findings) {
  std::vector<std::string> cautions = {HardlyLearned(report, findings), OthersCpu(report, findings),
                                       Losses(report)};
  if (report.variant_size() > 1) {
    cautions = {FailedRuns(report),
                LeftOut(report),
                HardlyLearned(report, findings),
                JobsDiffer(report),
                OthersCpu(report, findings),
                Batches(findings),
                Normalisation(report),
                Exchanges(report),
                OneComputer(report),
                Machines(report),
                SlowerMachines(report, findings),
                Losses(report)};
  }
  cautions.erase(std::remove(cautions.begin(), cautions.end(), ""), cautions.end());
  return cautions;
}

}  // namespace tethys
