// Input: bytes that hosts send to the launcher over ssh: output of start-up files, the mark kOutputMark, and
// lines of the answer.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "deploy/hosts/host_facts.h"
#include "deploy/process/remote_shell.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {

namespace {

std::string Behind(absl::string_view input, size_t piece) {
  MarkSkipper skipper(kOutputMark);
  std::string behind;
  for (size_t i = 0; i < input.size(); i += piece)
    absl::StrAppend(&behind, skipper.Skip(input.substr(i, piece)));
  return behind;
}

}  // namespace

void FuzzHostAnswers(absl::string_view input) {
  const size_t mark = input.find(kOutputMark);
  const absl::string_view answer_bytes =
      mark == absl::string_view::npos ? absl::string_view() : input.substr(mark + sizeof(kOutputMark) - 1);
  for (const size_t piece : {size_t{1}, size_t{7}, input.size() + 1})
    Require(Behind(input, piece) == answer_bytes, "the answer is what stands behind the first mark");
  const std::vector<std::string> lines = absl::StrSplit(input, '\n');
  const HostFacts facts = ParseFacts(lines);
  Require(facts.cores >= 0 && facts.memory_bytes >= -1 && facts.disk_free_bytes >= -1, "sizes are sizes");
  Require(facts.folder.empty() || facts.folder[0] == '/', "a folder is absolute");
  for (const std::string& address : facts.addresses) Require(address.size() < 46, "an address is one");
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
