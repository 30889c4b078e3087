// Input, in four sections: a Content-Range header, a Location header, an answer of WebHDFS in JSON, and a
// list of S3's keys in XML, all as servers of data send them.
#include "absl/strings/match.h"
#include "runtime/remote/http_words.h"
#include "runtime/remote/s3_list.h"
#include "runtime/remote/url.h"
#include "runtime/remote/webhdfs_answer.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

void CheckRange(absl::string_view header) {
  const auto range = ParseContentRange(header);
  if (!range) return;
  Require(range->first >= 0 && range->first <= range->last, "a range has a byte");
  Require(range->size == -1 || range->last < range->size, "a range lies within the file");
}

void CheckLocation(absl::string_view header) {
  const Url base = *ParseUrl("https://host:1/folder/file?query");
  const absl::StatusOr<Url> url = ResolveLocation(base, header);
  if (!url.ok()) return Require(!url.status().message().empty(), "a refusal says why");
  Require(url->scheme == "http" || url->scheme == "https", "only HTTP is followed");
  Require(!absl::StrContains(url->authority, "@"), "no user comes from a server");
  const std::string text = url->text();
  Require(text.find_first_of("\r\n \t#") == std::string::npos, "a URL fits into a request's line");
  const absl::StatusOr<Url> again = ParseUrl(text);
  Require(again.ok() && again->text() == text, "a URL means the same when it is written again");
}

void CheckWebhdfs(absl::string_view body) {
  const absl::StatusOr<proto::WebhdfsAnswer> answer = ParseWebhdfsAnswer(std::string(body));
  if (!answer.ok()) return;
  Require(answer->file_status().length() >= 0, "no file has less than nothing");
  for (const proto::WebhdfsStatus& file : answer->file_statuses().file_status()) {
    Require(file.length() >= 0 && !absl::StrContains(file.path_suffix(), "/"),
            "a list names files of its folder");
  }
}

void CheckS3(absl::string_view body) {
  const absl::StatusOr<S3Page> page = ParseS3Page(body);
  if (!page.ok()) return;
  size_t bytes = page->next.size();
  for (const std::string& key : page->keys) bytes += key.size();
  Require(bytes <= body.size(), "keys are no longer than the list");
}

}  // namespace

void FuzzRemoteAnswers(absl::string_view input) {
  CheckRange(TakeSection(input));
  CheckLocation(TakeSection(input));
  CheckWebhdfs(TakeSection(input));
  CheckS3(input);
}

}  // namespace tethys::fuzz
