// Tests written as scripts. A file is a scenario. Each of its lines is a command, " -> " and the expected
// result of the command. Lines that are empty or begin with # are comments. A failed test shows the
// difference between the script and the script with the actual results.
#ifndef TETHYS_TESTS_TESTING_SCRIPT_H_
#define TETHYS_TESTS_TESTING_SCRIPT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "runtime/base/file.h"

namespace tethys::testing {

// The names of the scripts in a folder: its files *.txt, without the ending.
inline std::vector<std::string> ScriptsIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Runs a script. `run` executes one command and returns its result.
inline void ExpectGoesAsWritten(const std::string& folder, const std::string& name,
                                const std::function<std::string(const std::string& command)>& run) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat(folder, "/", name, ".txt"));
  ASSERT_TRUE(text.ok()) << text.status();
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (line.empty() || line[0] == '#') {
      lines.emplace_back(line);
      continue;
    }
    const std::string command(line.substr(0, line.find(" -> ")));
    lines.push_back(absl::StrCat(command, " -> ", run(command)));
  }
  EXPECT_EQ(absl::StrJoin(lines, "\n"), *text);
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_SCRIPT_H_
