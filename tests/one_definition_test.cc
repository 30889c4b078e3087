// Checks that no two files define a type of the same full name, nor a function of the same name and types of
// parameters if one of the two is inline. The linker treats the two definitions as one: it keeps the
// destructor or function of one definition, and uses it in place of the other, too. Such a call can corrupt
// memory. No compiler reports the mistake, because a compiler sees one file at a time.
//
// The test ignores unnamed namespaces, members of types, and functions of tests, which may replace functions
// of the program.
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/source_files.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Returns the types in `parameters`: "const float*,int64_t" for "const float* x, int64_t count = 0".
std::string TypesOfParameters(const std::string& parameters) {
  static const std::regex kValue(" = .*$"), kName(R"(([ *&])\w+$)");
  std::vector<std::string> types;
  for (absl::string_view parameter : absl::StrSplit(parameters, ", ")) {
    const std::string declared = std::regex_replace(std::string(parameter), kValue, "");
    types.emplace_back(absl::StripSuffix(std::regex_replace(declared, kName, "$1"), " "));
  }
  return absl::StrJoin(types, ",");
}

struct Definitions {
  std::vector<std::string> types;
  std::vector<std::string> functions;         // "tethys::F(int)"
  std::vector<std::string> inline_functions;  // The functions of `functions` that are inline.
};

// The types and functions that `source` defines in named namespaces. Requires a source formatted by
// clang-format, in which definitions, and the lines that open and close namespaces, begin in the first
// column. A function is found only if its head is on one line.
Definitions DefinitionsOf(const std::string& source) {
  static const std::regex kOpened(R"(^(?:inline )?namespace(?: ([\w:]+))? \{$)");
  static const std::regex kType(
      R"(^(?:template <.*> )?(?:struct|class|union|enum|enum class) (?:\[\[.*\]\] |alignas\(.*\) )?(\w+))"
      R"((?: final)?(?: : [^;]*)?(?: :| \{.*)$)");
  static const std::regex kFunction(R"(^(inline |constexpr )*\w[\w:<>&*, ]*[ &*](\w+)\((.*)\) \{.*$)");
  Definitions definitions;
  std::vector<std::string> opened;
  std::smatch match;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, kOpened)) {
      opened.push_back(match[1]);
    } else if (absl::StartsWith(line, "}  // namespace")) {
      if (!opened.empty()) opened.pop_back();
    } else if (opened.empty() || absl::c_linear_search(opened, "")) {
      continue;
    } else if (std::regex_match(line, match, kType)) {
      definitions.types.push_back(absl::StrCat(absl::StrJoin(opened, "::"), "::", match[1].str()));
    } else if (!absl::StartsWith(line, "static ") && std::regex_match(line, match, kFunction)) {
      const std::string function = absl::StrCat(absl::StrJoin(opened, "::"), "::", match[2].str(), "(",
                                                TypesOfParameters(match[3]), ")");
      definitions.functions.push_back(function);
      if (match[1].matched) definitions.inline_functions.push_back(function);
    }
  }
  return definitions;
}

using Files = std::map<std::string, std::set<std::string>>;  // The files that define a name.

TEST(OneDefinitionTest, NoTwoFilesDefineTheSameName) {
  Files types, functions;
  std::set<std::string> inline_functions;
  for (const auto& [path, source] : testing::SourceFiles(
           TETHYS_SOURCE, {"runtime", "collectives", "ps", "workers", "deploy", "tests", "examples"})) {
    const Definitions definitions = DefinitionsOf(source);
    for (const std::string& type : definitions.types) types[type].insert(path);
    if (absl::StartsWith(path, "tests/")) continue;
    for (const std::string& function : definitions.functions) functions[function].insert(path);
    inline_functions.insert(definitions.inline_functions.begin(), definitions.inline_functions.end());
  }
  EXPECT_GT(types.size(), 500);
  EXPECT_GT(inline_functions.size(), 50);
  for (const auto& [type, paths] : types) {
    EXPECT_EQ(paths.size(), 1) << type << " is defined by each of " << absl::StrJoin(paths, ", ");
  }
  for (const std::string& function : inline_functions) {
    EXPECT_EQ(functions[function].size(), 1)
        << function << " is defined by each of " << absl::StrJoin(functions[function], ", ");
  }
}

TEST(OneDefinitionTest, TypesInNamedNamespacesAreFound) {
  EXPECT_THAT(
      DefinitionsOf("namespace tethys {\n"
                    "struct A {\n"
                    "  struct Inner {\n"
                    "class B final : public A {\n"
                    "enum class C { kOne };\n"
                    "template <typename T> class D {\n"
                    "namespace cuda {\n"
                    "union E {};\n"
                    "}  // namespace cuda\n"
                    "enum F : int {\n")
          .types,
      ElementsAre("tethys::A", "tethys::B", "tethys::C", "tethys::D", "tethys::cuda::E", "tethys::F"));
}

TEST(OneDefinitionTest, FunctionsAreNamedWithTheTypesOfTheirParameters) {
  const Definitions found = DefinitionsOf(
      "namespace tethys {\n"
      "inline double Sum(const float* x, int64_t count = 0) { return 0; }\n"
      "double Sum(const float* values, int64_t n) {\n"
      "const A& Class::Sum(int x) {\n"
      "double Sum(int x);\n");
  EXPECT_THAT(found.functions,
              ElementsAre("tethys::Sum(const float*,int64_t)", "tethys::Sum(const float*,int64_t)"));
  EXPECT_THAT(found.inline_functions, ElementsAre("tethys::Sum(const float*,int64_t)"));
}

TEST(OneDefinitionTest, DeclarationsAndUnnamedNamespacesAreIgnored) {
  const Definitions found = DefinitionsOf(
      "namespace tethys {\n"
      "class A;\n"
      "struct A::Inner {\n"
      "struct A Make();\n"
      "namespace {\n"
      "struct B {\n"
      "inline void F(int x) {\n"
      "}  // namespace\n");
  EXPECT_THAT(found.types, IsEmpty());
  EXPECT_THAT(found.functions, IsEmpty());
}

}  // namespace
}  // namespace tethys
