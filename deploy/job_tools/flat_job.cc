#include "deploy/job_tools/flat_job.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "runtime/base/file.h"
#include "runtime/job/commented_text.h"
#include "runtime/job/job_layers.h"
#include "runtime/job/text_format_file.h"

namespace tethys {
namespace {

bool IsComment(absl::string_view line) { return absl::StartsWith(absl::StripAsciiWhitespace(line), "#"); }

// The comment at the end of a line, with its number sign; empty if there is none. A number sign within quotes
// begins no comment.
std::string CommentAtEnd(absl::string_view line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0 && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return std::string(absl::StripAsciiWhitespace(line.substr(i)));
    }
  }
  return "";
}

// The comments of job files. Each comment is given away once.
class SourceComments {
 public:
  // The comments of a file before its first field. They are about the whole file.
  std::vector<std::string> HeadOf(const std::string& file) {
    std::vector<std::string> head;
    for (const std::string& line : Read(file).lines) {
      const absl::string_view text = absl::StripAsciiWhitespace(line);
      if (!text.empty() && text[0] != '#') break;
      head.emplace_back(text);
    }
    while (!head.empty() && head.back().empty()) head.pop_back();
    return head;
  }

  FieldComment Take(const TextPlace& place) {
    FieldComment comment;
    File& file = Read(place.file);
    const std::vector<std::string>& lines = file.lines;
    if (place.line < 1 || place.line > static_cast<int64_t>(lines.size())) return comment;
    const std::string& own = lines[place.line - 1];
    const auto before = static_cast<size_t>(place.column - 1);
    if (absl::StripAsciiWhitespace(absl::string_view(own).substr(0, before)).empty()) {
      int64_t first = place.line;
      while (first > 1 && IsComment(lines[first - 2]) && file.taken.insert(first - 1).second) --first;
      for (int64_t i = first; i < place.line; ++i) {
        comment.above.emplace_back(absl::StripAsciiWhitespace(lines[i - 1]));
      }
    }
    if (file.taken.insert(place.line).second) comment.beside = CommentAtEnd(own);
    return comment;
  }

 private:
  struct File {
    std::vector<std::string> lines;
    std::set<int64_t> taken;  // The lines whose comments were given away.
  };

  File& Read(const std::string& path) {
    const auto [found, added] = files_.try_emplace(path);
    File& file = found->second;
    if (!added) return file;
    // The job was read from this file a moment ago. If the file is gone, only its comments are missing.
    file.lines = absl::StrSplit(ReadFile(path, kMaxJobFileBytes).value_or(""), '\n');
    const auto head = static_cast<int64_t>(HeadOf(path).size());
    for (int64_t line = 1; line <= head; ++line) file.taken.insert(line);
    return file;
  }

  std::map<std::string, File> files_;
};

}  // namespace

absl::StatusOr<std::string> FlatJobTextWithComments(const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJobFileBytes));
  TETHYS_ASSIGN_OR_RETURN(const JobLayers layers, ReadJobLayers(path));
  if (ParseOnlyLayer(text, path).ok()) return text;  // The file has no base.
  SourceComments comments;
  std::string flat;
  for (const std::string& line : comments.HeadOf(path)) absl::StrAppend(&flat, line, "\n");
  return flat + CommentedText(layers.job, [&](const std::string& field) {
           return comments.Take(ParsePlace(layers.places.Find(field)));
         });
}

}  // namespace tethys
