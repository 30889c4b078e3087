// Checks that every source includes the headers of the names that it uses, itself or through headers of the
// project. A compiler does not notice a missing header if that header is precompiled
// (cmake/TethysPrecompiled.cmake), so the test reads the sources. It knows the names of precompiled headers
// only; the compiler checks all other names.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/file.h"
#include "tests/testing/source_files.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Precompiled headers and the names that belong to them. A name that several standard headers declare, such
// as std::begin, is left out.
const std::map<std::string, std::string> kNames = {
    {"algorithm",
     "std::all_of std::any_of std::clamp std::copy std::copy_n std::count std::count_if std::fill "
     "std::fill_n "
     "std::find std::find_if std::is_sorted std::lower_bound std::max std::max_element std::min "
     "std::min_element std::none_of std::nth_element std::partition_point std::remove_if std::replace "
     "std::reverse std::rotate std::shuffle std::sort std::stable_sort std::transform std::unique "
     "std::upper_bound"},
    {"array", "std::array"},
    {"atomic",
     "std::atomic std::atomic_thread_fence std::memory_order_acq_rel std::memory_order_acquire "
     "std::memory_order_relaxed std::memory_order_release std::memory_order_seq_cst"},
    {"chrono", "std::chrono"},
    {"cmath",
     "std::ceil std::cos std::exp std::fabs std::floor std::isfinite std::isnan std::llround std::log "
     "std::log2 "
     "std::lround std::pow std::round std::sin std::sqrt std::tanh"},
    {"cstdint", "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t"},
    {"cstring",
     "std::memchr std::memcmp std::memcpy std::memmove std::memset std::strcmp std::strerror std::strlen "
     "std::strncmp"},
    {"deque", "std::deque"},
    {"functional", "std::function std::greater std::hash std::less std::ref std::reference_wrapper"},
    {"map", "std::map std::multimap"},
    {"memory",
     "std::enable_shared_from_this std::make_shared std::make_unique std::shared_ptr std::unique_ptr "
     "std::weak_ptr"},
    {"optional", "std::nullopt std::optional"},
    {"set", "std::multiset std::set"},
    {"sstream", "std::istringstream std::ostringstream std::stringstream"},
    {"string", "std::string std::to_string"},
    {"string_view", "std::string_view"},
    {"thread", "std::this_thread std::thread"},
    {"utility", "std::exchange std::forward std::make_pair std::move std::pair std::swap"},
    {"vector", "std::vector"},
    {"absl/status/status.h", ""},    // Included by runtime/base/status.h, and declared by generated code.
    {"absl/status/statusor.h", ""},  // Like absl/status/status.h.
    {"absl/strings/str_cat.h", "absl::AlphaNum absl::StrAppend absl::StrCat"},
    {"absl/strings/str_format.h", "absl::FPrintF absl::StrAppendFormat absl::StrFormat"},
    {"absl/strings/str_join.h", "absl::StrJoin"},
    {"absl/strings/str_split.h", "absl::StrSplit"},
    {"absl/synchronization/mutex.h", "absl::Mutex absl::MutexLock"},
    {"absl/time/clock.h", "absl::Now absl::SleepFor"},
    {"absl/types/optional.h", "absl::make_optional absl::nullopt absl::optional"},
    {"absl/types/span.h", "absl::MakeConstSpan absl::MakeSpan absl::Span"},
    {"absl/types/variant.h",
     "absl::get absl::get_if absl::holds_alternative absl::monostate absl::variant absl::visit"},
    {"google/protobuf/message.h", ""},  // Included by all generated messages.
};

// The words of the list `name` in cmake/TethysPrecompiled.cmake.
std::vector<std::string> ListOf(const std::string& name) {
  const std::string cmake = *ReadFile(TETHYS_SOURCE "/cmake/TethysPrecompiled.cmake");
  const std::string opening = absl::StrCat("set(", name, " ");
  const size_t begin = cmake.find(opening);
  if (begin == std::string::npos) return {};
  const std::string list =
      cmake.substr(begin + opening.size(), cmake.find(')', begin) - begin - opening.size());
  return absl::StrSplit(list, absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

// The C++ names of the messages, enumerations and enumerators that `proto`, a file of message definitions,
// defines outside other messages.
std::string NamesOfMessages(const std::string& proto) {
  std::vector<std::string> names;
  bool in_enum = false;
  for (absl::string_view line : absl::StrSplit(proto, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    const bool outermost = !absl::StartsWith(line, " ");
    if (outermost && words.size() > 1 && (words[0] == "message" || words[0] == "enum")) {
      names.push_back(absl::StrCat("proto::", words[1]));
      in_enum = words[0] == "enum";
    } else if (outermost && !words.empty() && words[0] == "}") {
      in_enum = false;
    } else if (in_enum && words.size() > 2 && words[1] == "=") {
      names.push_back(absl::StrCat("proto::", words[0]));
    }
  }
  return absl::StrJoin(names, " ");
}

// The includes of the header that is generated for `proto`.
std::string GeneratedIncludes(const std::string& proto) {
  std::string includes;
  for (absl::string_view line : absl::StrSplit(proto, '\n')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, '"');
    if (parts.size() < 3 || !absl::StartsWith(line, "import ")) continue;
    absl::StrAppend(&includes, "#include \"", absl::StripSuffix(parts[1], ".proto"), ".pb.h\"\n");
  }
  return includes;
}

// The names in `source`, each with its namespaces ("std::max", "int64_t"), outside comments and strings.
std::set<std::string> NamesIn(const std::string& source) {
  std::set<std::string> names;
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == ':';
  };
  for (size_t at = 0; at < source.size();) {
    const std::string two = source.substr(at, 2);
    if (two == "//") {
      at = source.find('\n', at);
    } else if (two == "/*") {
      at = source.find("*/", at);
    } else if (two == "R\"") {
      const size_t opened = source.find('(', at);
      const std::string end = absl::StrCat(")", source.substr(at + 2, opened - at - 2), "\"");
      at = source.find(end, opened);
      if (at != std::string::npos) at += end.size();
    } else if (source[at] == '"' || source[at] == '\'') {
      const char quote = source[at];
      for (++at; at < source.size() && source[at] != quote; ++at) at += source[at] == '\\';
      ++at;
    } else if (in_name(source[at])) {
      const size_t begin = at;
      // The apostrophe separates digits within a number.
      while (at < source.size() &&
             (in_name(source[at]) || (source[at] == '\'' && std::isdigit(source[begin])))) {
        ++at;
      }
      names.insert(source.substr(begin, at - begin));
    } else {
      ++at;
    }
  }
  return names;
}

class Sources {
 public:
  void Add(const std::string& path, const std::string& source) {
    File& file = files_[path];
    file.names = NamesIn(source);
    for (const std::string& include : testing::IncludesOf(source)) {
      file.includes.insert(include.substr(1, include.size() - 2));
    }
  }

  // "FILE uses NAME without <HEADER>" for every name that `names` assigns to a header that the file lacks.
  std::vector<std::string> Missing(const std::map<std::string, std::string>& names) const {
    std::vector<std::string> missing;
    for (const auto& [path, file] : files_) {
      std::set<std::string> included;
      Collect(path, included);
      for (const auto& [header, of_header] : names) {
        if (included.count(header) > 0) continue;
        for (absl::string_view name : absl::StrSplit(of_header, ' ', absl::SkipEmpty())) {
          if (NamedIn(file, std::string(name)))
            missing.push_back(absl::StrCat(path, " uses ", name, " without <", header, ">"));
        }
      }
    }
    return missing;
  }

 private:
  struct File {
    std::set<std::string> names, includes;
  };

  // True for "std::chrono" if the file has "std::chrono::seconds".
  static bool NamedIn(const File& file, const std::string& name) {
    const auto found = file.names.lower_bound(name);
    if (found != file.names.end() && *found == name) return true;
    const auto within = file.names.lower_bound(name + "::");
    return within != file.names.end() && absl::StartsWith(*within, name + "::");
  }

  // Adds the headers that `path` includes, directly or through headers of the project.
  void Collect(const std::string& path, std::set<std::string>& included) const {
    const auto file = files_.find(path);
    if (file == files_.end()) return;
    for (const std::string& header : file->second.includes) {
      if (included.insert(header).second) Collect(header, included);
    }
  }

  std::map<std::string, File> files_;
};

TEST(PrecompiledNamesTest, EverySourceIncludesTheHeadersOfTheNamesThatItUses) {
  const std::map<std::string, std::string> files = testing::SourceFiles(
      TETHYS_SOURCE, {"runtime", "collectives", "ps", "workers", "deploy", "tests", "examples"});
  EXPECT_GT(files.size(), 900);
  Sources sources;
  for (const auto& [path, source] : files) {
    if (!absl::EndsWith(path, ".cu")) sources.Add(path, source);  // CUDA's code is not precompiled.
  }
  std::map<std::string, std::string> names = kNames;
  const std::vector<std::string> messages = ListOf("precompiled_messages");
  EXPECT_GT(messages.size(), 4);
  for (const auto& entry : std::filesystem::directory_iterator(TETHYS_SOURCE "/proto")) {
    if (entry.path().extension() != ".proto") continue;
    const std::string name = entry.path().stem(), header = absl::StrCat("proto/", name, ".pb.h");
    const std::string proto = *ReadFile(entry.path());
    sources.Add(header, GeneratedIncludes(proto));
    const bool precompiled = std::find(messages.begin(), messages.end(), name) != messages.end();
    if (precompiled) names[header] = NamesOfMessages(proto);
  }
  EXPECT_THAT(sources.Missing(names), IsEmpty());
}

TEST(PrecompiledNamesTest, TheTableHasARowForEachPrecompiledHeader) {
  std::set<std::string> precompiled, rows;
  for (absl::string_view word : ListOf("precompiled_headers")) {
    precompiled.emplace(word.substr(1, word.size() - 2));
  }
  for (const auto& [header, names] : kNames) rows.insert(header);
  EXPECT_EQ(rows, precompiled);
}

TEST(PrecompiledNamesTest, NamesOfMessagesAreThoseOutsideOtherMessages) {
  EXPECT_EQ(NamesOfMessages("message Job {\n  enum Kind {\n    A = 0;\n  }\n  int32 index = 1;\n}\n"
                            "enum Role {\n  WORKER = 0;\n}\n"),
            "proto::Job proto::Role proto::WORKER");
}

TEST(PrecompiledNamesTest, GeneratedHeaderIncludesTheHeadersOfItsImports) {
  EXPECT_EQ(GeneratedIncludes("syntax = \"proto3\";\nimport \"proto/job.proto\";\n"),
            "#include \"proto/job.pb.h\"\n");
}

TEST(PrecompiledNamesTest, NamesInCommentsAndStringsAreIgnored) {
  EXPECT_THAT(
      NamesIn("int x = std::max(1'000, F('\"', \"std::min\"));  // std::sort\n"
              "/* std::map */ auto s = R\"a(std::set \" )a\"; std::chrono::seconds t;\n"),
      UnorderedElementsAre("int", "x", "std::max", "1'000", "F", "auto", "s", "std::chrono::seconds", "t"));
}

TEST(PrecompiledNamesTest, AHeaderMayBeIncludedThroughAHeaderOfTheProject) {
  Sources sources;
  sources.Add("a.h", "#include <vector>\n#include \"b.h\"\n");
  sources.Add("b.h", "#include <chrono>\n");
  sources.Add("a.cc",
              "#include \"a.h\"\nstd::vector<int> v; std::chrono::seconds s; std::map<int, int> m;\n");
  EXPECT_THAT(sources.Missing({{"vector", "std::vector"}, {"chrono", "std::chrono"}, {"map", "std::map"}}),
              ElementsAre("a.cc uses std::map without <map>"));
}

}  // namespace
}  // namespace tethys
