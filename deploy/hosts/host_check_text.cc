#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/hosts/host_check.h"
#include "deploy/text.h"

namespace tethys {
namespace {

constexpr size_t kMaxLinkNotes = 10;
constexpr char kUnknown[] = "?";

std::string BytesOrUnknown(int64_t bytes) { return bytes < 0 ? kUnknown : BytesText(bytes); }

std::string GpuText(const std::vector<std::string>& gpus) {
  if (gpus.empty()) return "none";
  const bool alike = std::all_of(gpus.begin(), gpus.end(), [&](const auto& gpu) { return gpu == gpus[0]; });
  return absl::StrCat(gpus.size(), " × ", alike ? gpus[0] : "several kinds");
}

std::string ClockText(const CheckedHost& host) {
  if (host.here) return "reference";
  if (!host.clock.has_value()) return kUnknown;
  const double seconds = host.clock->seconds;
  if (std::abs(seconds) >= 1) return absl::StrFormat("%+.1f ± %.1f s", seconds, host.clock->error);
  return absl::StrFormat("%+.1f ± %.1f ms", seconds * 1e3, host.clock->error * 1e3);
}

std::vector<std::string> HostRow(const CheckedHost& host, size_t number) {
  std::vector<std::string> row = {absl::StrCat(number), host.host, host.address.empty() ? "-" : host.address};
  if (!host.reached.ok()) {
    row.push_back("no");
    row.resize(10, "-");
    return row;
  }
  const HostFacts& facts = host.facts;
  row.insert(
      row.end(),
      {host.here ? "is here" : "yes", facts.architecture.empty() ? kUnknown : facts.architecture,
       facts.cores == 0 ? kUnknown : absl::StrCat(facts.cores),
       absl::StrCat(BytesOrUnknown(facts.memory_free_bytes), " of ", BytesOrUnknown(facts.memory_bytes)),
       BytesOrUnknown(facts.disk_free_bytes), GpuText(facts.gpus), ClockText(host)});
  return row;
}

// A rate in Mbit/s: "94.2", "941", "9,410".
std::string MegabitsText(double bytes_per_second) {
  const double megabits = bytes_per_second * 8 / 1e6;
  return megabits < 100 ? absl::StrFormat("%.1f", megabits) : CountText(std::llround(megabits));
}

// A table whose rows and columns are hosts, numbered from 1.
class Matrix {
 public:
  explicit Matrix(const std::vector<CheckedHost>& hosts) {
    columns_ = {{{""}}, {{"host"}, true}};
    for (size_t i = 0; i < hosts.size(); ++i) {
      columns_.push_back({{absl::StrCat(i + 1)}});
      rows_.push_back({absl::StrCat(i + 1), hosts[i].host});
      rows_.back().resize(hosts.size() + 2, "-");
      rows_.back()[i + 2] = "";
    }
  }
  void Set(int from, int to, const std::string& text) { rows_[from][to + 2] = text; }
  std::string Text() const { return Table(columns_, rows_); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string LinkTables(const ClusterCheck& check) {
  Matrix rates(check.hosts);
  Matrix round_trips(check.hosts);
  bool any = false;
  for (const CheckedLink& link : check.links) {
    if (!link.speed.ok()) continue;
    any = true;
    rates.Set(link.from, link.to, MegabitsText(link.speed->there));
    rates.Set(link.to, link.from, MegabitsText(link.speed->back));
    const std::string round_trip = CountText(std::llround(link.speed->round_trip * 1e6));
    round_trips.Set(link.from, link.to, round_trip);
    round_trips.Set(link.to, link.from, round_trip);
  }
  if (!any) return "";
  return absl::StrCat("\nBandwidth in Mbit/s, from the host of the row to the host of the column\n",
                      rates.Text(), "\nRound trip in µs, the least of twenty\n", round_trips.Text());
}

// True if the host's links were not measured only because the host lacks this build.
bool WaitsForBuild(const CheckedHost& host) {
  return host.lacks_build && !host.address.empty() && absl::IsNotFound(host.links);
}

void AppendHostNotes(const ClusterCheck& check, const CheckedHost& host, std::vector<std::string>& notes) {
  const auto note = [&](absl::string_view text) { notes.push_back(absl::StrCat(host.host, ": ", text)); };
  if (!host.reached.ok()) {
    // If the name of the host has no address (NotFound), ssh fails for the same reason, so the missing
    // address is not reported a second time. Any other reason for a missing address is added.
    const bool other_reason = host.address.empty() && !host.links.ok() && !absl::IsNotFound(host.links);
    note(absl::StrCat("not reached: ", host.reached.message(), " (try: ", host.trial, ")",
                      other_reason ? absl::StrCat("; ", host.links.message()) : ""));
    return;
  }
  if (const absl::Status runs = CheckArchitecture(host.facts, check.architecture); !runs.ok()) {
    note(runs.message());
  }
  if (const std::string warning = ClockWarning(host.clock); !warning.empty()) note(warning);
  // Hosts that lack this build share one note.
  if (!host.links.ok() && !WaitsForBuild(host))
    note(absl::StrCat("the links of this host were not measured: ", host.links.message()));
}

void AppendNoteOfLackingHosts(const ClusterCheck& check, std::vector<std::string>& notes) {
  std::vector<std::string> lacking;
  for (const CheckedHost& host : check.hosts) {
    if (WaitsForBuild(host)) lacking.push_back(host.host);
  }
  if (lacking.empty()) return;
  notes.push_back(absl::StrCat(absl::StrJoin(lacking, ", "), ": ",
                               lacking.size() == 1 ? "its links were" : "their links were",
                               " not measured, because this build is not installed there yet: install it "
                               "with --install, or by starting a job there"));
}

std::vector<std::string> Notes(const ClusterCheck& check) {
  std::vector<std::string> notes;
  for (const CheckedHost& host : check.hosts) AppendHostNotes(check, host, notes);
  AppendNoteOfLackingHosts(check, notes);
  size_t failed = 0;
  for (const CheckedLink& link : check.links) {
    if (link.speed.ok() || ++failed > kMaxLinkNotes) continue;
    notes.push_back(absl::StrCat(check.hosts[link.from].host, " to ", check.hosts[link.to].host, ": ",
                                 link.speed.status().message()));
  }
  if (failed > kMaxLinkNotes)
    notes.push_back(absl::StrCat("and ", failed - kMaxLinkNotes, " more links failed"));
  return notes;
}

}  // namespace

std::string ClusterCheckText(const ClusterCheck& check) {
  std::vector<std::vector<std::string>> rows;
  for (const CheckedHost& host : check.hosts) rows.push_back(HostRow(host, rows.size() + 1));
  std::string text = Table({{{""}},
                            {{"host"}, true},
                            {{"address"}, true},
                            {{"reached"}, true},
                            {{"architecture"}, true},
                            {{"cores"}},
                            {{"memory free"}},
                            {{"disk free"}},
                            {{"GPUs"}, true},
                            {{"clock"}}},
                           rows);
  absl::StrAppend(&text, LinkTables(check));
  const std::vector<std::string> notes = Notes(check);
  if (!notes.empty()) absl::StrAppend(&text, "\n");
  for (const std::string& note : notes) absl::StrAppend(&text, note, "\n");
  return text;
}

}  // namespace tethys
