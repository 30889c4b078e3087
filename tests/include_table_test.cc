// Checks that the program agrees with its documents: every #include must be allowed by the table in
// docs/design/folders.md, and the length of every file must be within the limits of CONTRIBUTING.md.
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/file.h"
#include "tests/testing/source_files.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IncludesOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Libraries that only some folders may use, and patterns of the names of their headers.
const std::map<std::string, std::regex> kLibraries = {
    {"gRPC", std::regex(R"(grpc/.*|grpcpp/.*|.*\.grpc\.pb\.h)")},
    {"CUDA", std::regex(R"((cuda_runtime.*|cuda_bf16|cublas.*|cudnn|nccl|math_constants)\.h)")},
    {"oneDNN", std::regex(R"(oneapi/.*|dnnl.*|omp\.h)")},
    {"OpenSSL", std::regex("openssl/.*")},
    {"libcurl", std::regex("curl/.*")},
    {"zlib", std::regex(R"(zlib\.h)")},
    {"libpng", std::regex(R"(png\.h)")},
    {"libjpeg-turbo", std::regex(R"(turbojpeg\.h)")},
    {"Gloo", std::regex("gloo/.*")},
};

// The words of a table cell that are set as code: `runtime/tensor/`, `runtime/strategy.h`, `gRPC`.
std::vector<std::string> CodeWords(const std::string& cell) {
  std::vector<std::string> words;
  const std::vector<std::string> parts = absl::StrSplit(cell, '`');
  for (size_t i = 1; i < parts.size(); i += 2) words.push_back(parts[i]);
  return words;
}

// The folder of a path: "ps/" for "ps/partitioner.h".
std::string FolderOf(const std::string& path) { return path.substr(0, path.find_last_of('/') + 1); }

class IncludeTable {
 public:
  // Reads every table row whose first cell is a folder: | `FOLDER/` | what lives there | may include |
  // libraries |
  explicit IncludeTable(const std::string& markdown) {
    std::istringstream lines(markdown);
    for (std::string line; std::getline(lines, line);) {
      const std::vector<std::string> cells = absl::StrSplit(line, '|');
      if (cells.size() != 6) continue;
      const std::vector<std::string> folder = CodeWords(cells[1]);
      if (folder.size() != 1 || !absl::EndsWith(folder[0], "/")) continue;
      rows_[folder[0]] = {CodeWords(cells[3]), CodeWords(cells[4])};
    }
  }

  size_t size() const { return rows_.size(); }

  // Returns a line for each include that the table does not allow; `source` is the contents of file `path`.
  std::vector<std::string> Violations(const std::string& path, const std::string& source) const {
    const auto row = rows_.find(FolderOf(path));
    if (row == rows_.end()) return {absl::StrCat(path, ": its folder has no row in the table")};
    std::vector<std::string> violations;
    for (const std::string& include : IncludesOf(source)) {
      const std::string header = include.substr(1, include.size() - 2);
      const bool from_root =
          include[0] == '<' || (absl::StrContains(header, "/") && !absl::StrContains(header, ".."));
      if (from_root && MayInclude(row->first, row->second, header)) continue;
      violations.push_back(absl::StrCat(path, ": ", row->first, " must not include ", include));
    }
    return violations;
  }

 private:
  struct Row {
    std::vector<std::string> may_include;
    std::vector<std::string> libraries;
  };

  bool MayInclude(const std::string& folder, const Row& row, const std::string& header) const {
    for (const auto& [library, headers] : kLibraries) {
      if (std::regex_match(header, headers)) return absl::c_linear_search(row.libraries, library);
    }
    const std::string target = FolderOf(header);
    if (rows_.count(target) == 0) return true;  // The header is not in a folder of the program.
    if (target == folder || target == "runtime/base/") return true;
    return absl::c_any_of(row.may_include, [&](const std::string& allowed) {
      const bool below =
          absl::EndsWith(allowed, "/**") && absl::StartsWith(header, allowed.substr(0, allowed.size() - 2));
      return allowed == target || allowed == header || below;
    });
  }

  std::map<std::string, Row> rows_;
};

IncludeTable DesignTable() {
  const absl::StatusOr<std::string> text = ReadFile(TETHYS_SOURCE "/docs/design/folders.md");
  EXPECT_TRUE(text.ok()) << text.status();
  return IncludeTable(text.ok() ? *text : "");
}

// The C++ files of the program; tests and examples may include anything.
const std::map<std::string, std::string>& ProgramSources() {
  static const auto& sources = *new std::map<std::string, std::string>(
      testing::SourceFiles(TETHYS_SOURCE, {"runtime", "collectives", "ps", "workers", "deploy"}));
  return sources;
}

TEST(IncludeTableTest, TableAllowsEveryIncludeOfTheProgram) {
  const IncludeTable table = DesignTable();
  EXPECT_GT(ProgramSources().size(), 100);
  for (const auto& [path, source] : ProgramSources()) {
    EXPECT_THAT(table.Violations(path, source), IsEmpty());
  }
}

// Adds to `reached` every folder that `folder` includes, directly or through others. `folder` itself is added
// if the includes form a cycle.
void Reach(const std::map<std::string, std::set<std::string>>& includes, const std::string& folder,
           std::set<std::string>& reached) {
  const auto found = includes.find(folder);
  if (found == includes.end()) return;
  for (const std::string& next : found->second) {
    if (reached.insert(next).second) Reach(includes, next, reached);
  }
}

TEST(IncludeTableTest, IncludesOfFoldersFormNoCycle) {
  std::map<std::string, std::set<std::string>> includes;
  for (const auto& [path, source] : ProgramSources()) {
    for (const std::string& include : IncludesOf(source)) {
      const std::string target = FolderOf(include.substr(1, include.size() - 2));
      if (include[0] == '"' && target != FolderOf(path)) includes[FolderOf(path)].insert(target);
    }
  }
  for (const auto& [folder, targets] : includes) {
    std::set<std::string> reached;
    Reach(includes, folder, reached);
    EXPECT_EQ(reached.count(folder), 0) << folder << " includes itself by way of another folder";
  }
}

TEST(IncludeTableTest, TableHasAtLeastSeventeenFolders) { EXPECT_GE(DesignTable().size(), 17); }

TEST(IncludeTableTest, ServersAndCollectivesMayNotIncludeEachOther) {
  const IncludeTable table = DesignTable();
  EXPECT_THAT(table.Violations("ps/planted.cc", "#include \"collectives/communicator.h\"\n"),
              ElementsAre(HasSubstr("ps/ must not include \"collectives/communicator.h\"")));
  EXPECT_THAT(table.Violations("collectives/planted.cc", "  #  include \"ps/partitioner.h\"  // why not\n"),
              SizeIs(1));
}

TEST(IncludeTableTest, LibraryUsedOutsideItsFoldersIsRefused) {
  const IncludeTable table = DesignTable();
  const std::string dnnl = "#include <oneapi/dnnl/dnnl.h>\n";
  const std::string grpc = "#include <grpcpp/grpcpp.h>\n";
  EXPECT_THAT(table.Violations("runtime/device/cpu/planted.cc", dnnl), IsEmpty());
  EXPECT_THAT(table.Violations("runtime/device/planted.h", dnnl), SizeIs(1));
  EXPECT_THAT(table.Violations("ps/planted.cc", grpc), IsEmpty());
  EXPECT_THAT(table.Violations("collectives/planted.cc", grpc), SizeIs(1));
  EXPECT_THAT(table.Violations("workers/planted.cc", "#include \"proto/chief.grpc.pb.h\"\n"), SizeIs(1));
}

TEST(IncludeTableTest, SingleHeaderOfAFolderCanBeAllowed) {
  const IncludeTable table = DesignTable();
  EXPECT_THAT(table.Violations("runtime/chief/planted.cc", "#include \"runtime/data/sharding.h\"\n"),
              IsEmpty());
  EXPECT_THAT(table.Violations("runtime/chief/planted.cc", "#include \"runtime/data/dataset.h\"\n"),
              SizeIs(1));
}

TEST(IncludeTableTest, PathNotRelativeToTheRootIsRefused) {
  const IncludeTable table = DesignTable();
  EXPECT_THAT(table.Violations("ps/planted.cc", "#include \"../collectives/communicator.h\"\n"), SizeIs(1));
  EXPECT_THAT(table.Violations("ps/planted.cc", "#include \"partitioner.h\"\n"), SizeIs(1));
}

// The text of the first group of `pattern` in every line of `text` that matches.
std::vector<std::string> FirstGroups(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  std::smatch match;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, pattern)) found.push_back(match[1]);
  }
  return found;
}

TEST(SeamTableTest, ListsEveryVirtualFunctionOfStrategyInOrder) {
  const std::string header = *ReadFile(TETHYS_SOURCE "/runtime/strategy.h");
  const std::vector<std::string> calls =
      FirstGroups(header, std::regex(R"(^  virtual [^~][^(]*[ >](\w+)\()"));
  EXPECT_THAT(calls, SizeIs(13)) << "docs/design.md and docs/reading.md say thirteen";
  EXPECT_EQ(FirstGroups(*ReadFile(TETHYS_SOURCE "/docs/design.md"), std::regex(R"(^\| `(\w+)\()")), calls);
}

// The number of lines of `source` with code: lines that are neither blank nor only a comment.
int CodeLines(const std::string& source) {
  int count = 0;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    const absl::string_view code = absl::StripLeadingAsciiWhitespace(line);
    if (!code.empty() && !absl::StartsWith(code, "//")) ++count;
  }
  return count;
}

TEST(SourceLengthTest, EveryFileOfTheProgramKeepsTheLimitOfItsKind) {
  for (const auto& [path, source] : ProgramSources()) {
    const int limit = absl::EndsWith(path, ".h") ? 150 : 400;
    EXPECT_LE(CodeLines(source), limit)
        << path << ": look for a second idea in the file, and give it a file of its own (CONTRIBUTING.md)";
  }
}

TEST(SourceLengthTest, CommentsAndBlankLinesDoNotCount) {
  EXPECT_EQ(CodeLines("// a\n\nint b;\n  // c\n  int d;  // e\n"), 2);
}

TEST(IncludeTableTest, FolderWithoutARowIsRefused) {
  EXPECT_THAT(DesignTable().Violations("runtime/serving/planted.cc", ""), ElementsAre(HasSubstr("no row")));
}

}  // namespace
}  // namespace tethys
