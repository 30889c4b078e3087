#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/cluster/host_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

std::string Roles(const HostRoles& roles) {
  std::string words;
  if (roles.chief) words += "chief,";
  if (roles.worker) words += "worker,";
  if (roles.ps) words += "ps,";
  return words.substr(0, words.size() - 1);
}

std::string Line(const HostEntry& host) {
  std::string line = absl::StrCat(host.user, host.user.empty() ? "" : "@", host.host, " slots=", host.slots);
  if (host.roles.any_named()) absl::StrAppend(&line, " role=", Roles(host.roles));
  if (host.ssh_port != 0) absl::StrAppend(&line, " port=", host.ssh_port);
  if (!host.address.empty()) absl::StrAppend(&line, " address=", host.address);
  if (!host.folder.empty()) absl::StrAppend(&line, " folder=", host.folder);
  if (!host.kind.empty()) absl::StrAppend(&line, " kind=", host.kind);
  if (host.price_per_hour) absl::StrAppend(&line, absl::StrFormat(" price=%.17g", *host.price_per_hour));
  if (host.device) absl::StrAppend(&line, " device=", DeviceKindText(*host.device));
  return line + "\n";
}

std::string Text(const std::vector<HostEntry>& hosts) {
  std::string text;
  for (const HostEntry& host : hosts) text += Line(host);
  return text;
}

}  // namespace

void FuzzHostFile(absl::string_view input) {
  const absl::StatusOr<std::vector<HostEntry>> hosts = ParseHostFile(input, "hosts");
  if (!hosts.ok()) return RequireRefusal(hosts.status(), "hosts:");
  Require(!hosts->empty() && hosts->size() <= kMaxHosts, "hosts are bounded");
  const std::string text = Text(*hosts);
  const absl::StatusOr<std::vector<HostEntry>> again = ParseHostFile(text, "again");
  Require(again.ok(), absl::StrCat("what was accepted is accepted again: ", again.status().message()));
  Require(Text(*again) == text, "what is parsed again is the same");
}

}  // namespace tethys::fuzz
