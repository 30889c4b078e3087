#include "runtime/data/kept_scaling.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/file.h"
#include "runtime/data/host_cache.h"

namespace tethys {
namespace {

constexpr int64_t kMostBytes = 1 << 23;

std::string LineOf(absl::string_view name, const std::vector<float>& numbers) {
  std::string line(name);
  for (const float number : numbers) absl::StrAppendFormat(&line, " %.9g", number);
  return line + "\n";
}

// Takes a line, as LineOf writes it, from the front of `text`. False: the text begins with another line, or a
// number is not finite.
bool TakeLine(absl::string_view& text, absl::string_view name, int64_t count, std::vector<float>& numbers) {
  const size_t end = text.find('\n');
  absl::string_view line = text.substr(0, end);
  if (end == absl::string_view::npos || !absl::ConsumePrefix(&line, name) ||
      !absl::ConsumePrefix(&line, " ")) {
    return false;
  }
  for (const absl::string_view word : absl::StrSplit(line, ' ')) {
    float number = 0;
    if (!absl::SimpleAtof(word, &number) || !std::isfinite(number)) return false;
    numbers.push_back(number);
  }
  text.remove_prefix(end + 1);
  return static_cast<int64_t>(numbers.size()) == count;
}

std::string SumLine(absl::string_view text) { return absl::StrFormat("%08x\n", Crc32c(text)); }

std::string TextOf(const std::string& head, const InputScaling& scaling) {
  const std::string text =
      absl::StrCat(head, LineOf("mean", scaling.mean), LineOf("deviation", scaling.deviation));
  return text + SumLine(text);
}

}  // namespace

// The key is a part of the name, so that the entry is removed together with the samples.
std::string KeptScaling::Name() const {
  return absl::StrCat("scaling-", origin_.key, "-", origin_.samples, "-", origin_.channels);
}

std::string KeptScaling::Head() const {
  return absl::StrCat("samples ", origin_.key, ", the first ", origin_.samples, ", ",
                      ValueTypeText(origin_.type), ", ", origin_.channels,
                      origin_.channels == 1 ? " channel" : " channels", "\nof ",
                      origin_.data.ShortDebugString(), "\n");
}

absl::optional<InputScaling> KeptScaling::Read(const std::string& path) const {
  const absl::StatusOr<std::string> file = ReadFile(path, kMostBytes);
  if (!file.ok()) return absl::nullopt;
  absl::string_view text = *file;
  const size_t end_of_first = Head().find('\n') + 1;
  const absl::string_view first = text.substr(0, end_of_first);
  const size_t sum = text.size() - std::min(text.size(), SumLine("").size());
  if (text.substr(sum) != SumLine(text.substr(0, sum)) || first != Head().substr(0, end_of_first)) {
    return absl::nullopt;
  }
  // Skips the next line, which is only for people who read the file. The line may differ from Head(), because
  // it also shows fields of the job that do not affect the samples.
  text = text.substr(0, sum);
  text.remove_prefix(std::min(text.size(), text.find('\n', end_of_first) + 1));
  InputScaling scaling = {.mean = {}, .deviation = {}, .type = origin_.type};
  if (!TakeLine(text, "mean", origin_.channels, scaling.mean) ||
      !TakeLine(text, "deviation", origin_.channels, scaling.deviation) || !text.empty()) {
    return absl::nullopt;
  }
  for (const float deviation : scaling.deviation) {
    if (!(deviation > 0)) return absl::nullopt;
  }
  return scaling;
}

absl::optional<InputScaling> KeptScaling::Find() const {
  const absl::StatusOr<std::string> folder = HostCache::FolderOf(cache_dir_);
  return folder.ok() ? Read(absl::StrCat(*folder, "/", Name())) : absl::nullopt;
}

absl::StatusOr<InputScaling> KeptScaling::FindOrMake(Compute compute) const {
  const absl::StatusOr<HostCache> cache = HostCache::Open(cache_dir_);
  if (!cache.ok()) return compute([] {});
  absl::optional<InputScaling> found;
  absl::Status failure;  // An error of the data, not of the cache.
  const auto accept = [&](const std::string& path) {
    found = Read(path);
    return found.has_value();
  };
  const auto make = [&](const std::string& path, absl::FunctionRef<void()> progressed) -> absl::Status {
    const absl::StatusOr<InputScaling> computed = compute(progressed);
    failure = computed.status();
    TETHYS_RETURN_IF_ERROR(failure);
    found = *computed;
    return WriteFileAtomically(path, TextOf(Head(), *computed));
  };
  const absl::StatusOr<std::string> path = cache->Entry(Name(), accept, make);
  TETHYS_RETURN_IF_ERROR(failure);
  // A computed value is used even if it could not be kept.
  return found.has_value() ? *found : compute([] {});
}

}  // namespace tethys
