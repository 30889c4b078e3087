// Input: lines that hosts send to the launcher over ssh.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "deploy/hosts/host_facts.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

void FuzzHostAnswers(absl::string_view input) {
  const std::vector<std::string> lines = absl::StrSplit(input, '\n');
  const HostFacts facts = ParseFacts(lines);
  Require(facts.cores >= 0 && facts.memory_bytes >= -1 && facts.disk_free_bytes >= -1, "sizes are sizes");
  Require(facts.home.empty() || facts.home[0] == '/', "a home is a folder");
  const absl::Status fits = CheckSpace(facts, int64_t{1} << 40);
  if (!fits.ok()) Require(!fits.message().empty(), "a refusal says why");
  Answer answer;
  answer.lines = lines;
  answer.heard = kSecond;
  const std::optional<ClockOffset> offset = FindClockOffset({answer});
  if (offset.has_value())
    Require(std::isfinite(offset->seconds) && offset->error >= 0, "an offset is a number");
}

}  // namespace tethys::fuzz
