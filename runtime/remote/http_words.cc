#include "runtime/remote/http_words.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace tethys {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 62;
constexpr size_t kMostWords = 200;

}  // namespace

absl::optional<int64_t> ParseByteCount(absl::string_view text) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  int64_t count = 0;
  if (!digits || !absl::SimpleAtoi(text, &count) || count > kMostBytes) return absl::nullopt;
  return count;
}

absl::optional<ContentRange> ParseContentRange(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "bytes ")) return absl::nullopt;
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == absl::string_view::npos || slash == absl::string_view::npos || slash < dash)
    return absl::nullopt;
  const auto first = ParseByteCount(text.substr(0, dash));
  const auto last = ParseByteCount(text.substr(dash + 1, slash - dash - 1));
  if (!first || !last || *last < *first) return absl::nullopt;
  const absl::string_view whole = text.substr(slash + 1);
  if (whole == "*") return ContentRange{.first = *first, .last = *last, .size = -1};
  const auto size = ParseByteCount(whole);
  if (!size || *last >= *size) return absl::nullopt;
  return ContentRange{.first = *first, .last = *last, .size = *size};
}

bool MayPass(int status) { return status == 408 || status == 429 || (status >= 500 && status != 501); }

std::string FirstWords(absl::string_view body) {
  body = absl::StripLeadingAsciiWhitespace(body);
  body = body.substr(0, std::min({body.find('\n'), body.find('\r'), kMostWords}));
  const bool text = std::all_of(body.begin(), body.end(), absl::ascii_isprint);
  // The text of an HTML page is not shown, because it usually adds nothing to the status.
  return text && !body.empty() && body[0] != '<' ? std::string(body) : "";
}

absl::Status RefusalStatus(const HttpAnswer& answer, const std::string& name, const std::string& host) {
  const std::string words = FirstWords(answer.body);
  const std::string says = absl::StrCat(name, ": ", host, " answers ", answer.status,
                                        words.empty() ? "" : absl::StrCat(" (", words, ")"));
  switch (answer.status) {
    case 401:
      return absl::PermissionDeniedError(absl::StrCat(
          says,
          ", unauthorized: write a user name and password or a token for this URL into the file of secrets "
          "(--secrets)"));
    case 403:
      return absl::PermissionDeniedError(absl::StrCat(says,
                                                      ", forbidden: this user may not read the file; ask the "
                                                      "owner of the file, or correct the file of secrets "
                                                      "(--secrets)"));
    case 404:
    case 410:
      return absl::NotFoundError(absl::StrCat(says, ", not found: correct the URL in the job"));
    default:
      break;
  }
  if (MayPass(answer.status)) {
    return absl::UnavailableError(absl::StrCat(says, ": the server is overloaded or has failed"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(says, ", which is no answer to a request for data: check the URL and the server"));
}

}  // namespace tethys
