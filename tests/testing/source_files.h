// The C++ sources of the project, for tests that read them.
#ifndef TETHYS_TESTS_TESTING_SOURCE_FILES_H_
#define TETHYS_TESTS_TESTING_SOURCE_FILES_H_

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/file.h"

namespace tethys::testing {

// The contents of each C++ file below the folders `tops` of `root`, by its path from `root`.
inline std::map<std::string, std::string> SourceFiles(const std::string& root,
                                                      const std::vector<std::string>& tops) {
  std::map<std::string, std::string> files;
  for (const std::string& top : tops) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(absl::StrCat(root, "/", top))) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      files[std::filesystem::relative(entry.path(), root)] = *ReadFile(entry.path());
    }
  }
  return files;
}

// The operand of each include directive in `source`, with its quotes or angle brackets.
inline std::vector<std::string> IncludesOf(const std::string& source) {
  static const std::regex kDirective(R"(\s*#\s*include\s*(["<][^">]+[">]).*)");
  std::vector<std::string> includes;
  std::smatch match;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, kDirective)) includes.push_back(match[1]);
  }
  return includes;
}

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_TESTING_SOURCE_FILES_H_
