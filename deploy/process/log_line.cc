#include "deploy/process/log_line.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tethys {

std::string ShownLogLine(absl::string_view process, absl::string_view line) {
  absl::ConsumeSuffix(&line, "\r");
  std::string text = absl::StrCat("[", process, "] ", line);
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c)) && c != '\t') c = '?';
  }
  return text;
}

absl::string_view LogLineTime(absl::string_view line) {
  // Severity, space, time, space (runtime/base/logging.h); 0 stands for any digit.
  constexpr absl::string_view kForm = "I 0000-00-00T00:00:00.000 ";
  if (line.size() < kForm.size()) return "";
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool fits = i == 0            ? absl::StrContains("IWE", line.substr(0, 1))
                      : kForm[i] == '0' ? absl::ascii_isdigit(static_cast<unsigned char>(line[i]))
                                        : line[i] == kForm[i];
    if (!fits) return "";
  }
  return line.substr(2, kForm.size() - 3);
}

}  // namespace tethys
