// A file on an HTTP server. Every request but the first requests a range, on the condition (If-Match or
// If-Unmodified-Since) that the file has not changed since it was opened. Not every server heeds conditions,
// so each answer is checked for a change of the file, too.
#include <utility>

#include "absl/strings/match.h"
#include "runtime/base/empty_file.h"
#include "runtime/remote/http_words.h"
#include "runtime/remote/remote_object.h"

namespace tethys {
namespace {

// The facts that a server's answer states about a file.
struct Facts {
  absl::optional<int64_t> size;
  std::string etag, modified;
  bool no_ranges = false;  // The server says that it serves no ranges.
};

std::string ValueOf(const HttpAnswer& answer, absl::string_view name) {
  const std::string* value = answer.Header(name);
  return value == nullptr ? "" : *value;
}

// Whether both strings name a version, and the versions differ.
bool Differ(const std::string& one, const std::string& other) {
  return !one.empty() && !other.empty() && one != other;
}

class HttpObject final : public RemoteObject {
 public:
  HttpObject(const HttpClient& client, HttpCall call, std::shared_ptr<const void> keep, const Facts& facts)
      : RemoteObject(call.name, *facts.size, facts.etag.empty() ? facts.modified : facts.etag),
        client_(client),
        call_(std::move(call)),
        keep_(std::move(keep)),
        etag_(facts.etag),
        modified_(facts.modified) {}

  absl::StatusOr<std::string> Fetch(int64_t offset, int64_t bytes, std::string spare) const override {
    HttpCall call = call_;
    call.most_bytes = bytes;
    call.spare = &spare;
    call.headers.push_back(absl::StrCat("Range: bytes=", offset, "-", offset + bytes - 1));
    // A weak ETag ("W/...") never matches in a condition.
    if (!etag_.empty() && !absl::StartsWith(etag_, "W/")) {
      call.headers.push_back(absl::StrCat("If-Match: ", etag_));
    } else if (!modified_.empty()) {
      call.headers.push_back(absl::StrCat("If-Unmodified-Since: ", modified_));
    }
    std::string body;
    TETHYS_RETURN_IF_ERROR(client_.TryAgain([&]() -> absl::Status {
      TETHYS_ASSIGN_OR_RETURN(HttpReply reply, client_.Once(call));
      TETHYS_RETURN_IF_ERROR(Check(reply, offset, bytes));
      body = std::move(reply.answer.body);
      return absl::OkStatus();
    }));
    return body;
  }

 private:
  absl::Status Changed() const {
    return absl::DataLossError(absl::StrCat(
        name(), " was changed while it was read: start the job again, with files that do not change"));
  }

  absl::Status Check(const HttpReply& reply, int64_t offset, int64_t bytes) const {
    const HttpAnswer& answer = reply.answer;
    if (answer.status == 412 || answer.status == 416) return Changed();
    if (!reply.success()) return RefusalStatus(answer, name(), reply.url.authority);
    if (Differ(ValueOf(answer, "etag"), etag_) || Differ(ValueOf(answer, "last-modified"), modified_)) {
      return Changed();
    }
    if (answer.status != 206) {
      return absl::FailedPreconditionError(
          absl::StrCat(name(), ": ", reply.url.authority, " answers ", answer.status,
                       " to a request for a range: the server ignores ranges, which are needed to read data; "
                       "use a server that serves "
                       "ranges (nginx, Apache), or copy the file"));
    }
    const auto range = ParseContentRange(ValueOf(answer, "content-range"));
    if (range && range->size >= 0 && range->size != size()) return Changed();
    const auto received = static_cast<int64_t>(answer.body.size());
    if (range && range->first == offset && range->last == offset + bytes - 1 && received == bytes &&
        !answer.body_is_longer) {
      return absl::OkStatus();
    }
    return absl::DataLossError(absl::StrCat(
        name(), ": bytes ", offset, " to ", offset + bytes - 1, " were requested, but ", reply.url.authority,
        " sent ", answer.body_is_longer ? "more than " : "", received, " bytes as '",
        FirstWords(ValueOf(answer, "content-range")), "': check the server and any proxy before it"));
  }

  const HttpClient& client_;
  const HttpCall call_;
  const std::shared_ptr<const void> keep_;
  const std::string etag_, modified_;
};

Facts FactsOf(const HttpAnswer& answer) {
  return {.size = ParseByteCount(ValueOf(answer, "content-length")),
          .etag = ValueOf(answer, "etag"),
          .modified = ValueOf(answer, "last-modified"),
          .no_ranges = ValueOf(answer, "accept-ranges") == "none"};
}

// Requests the first byte of the file; the answer also states the size of the whole file.
absl::StatusOr<Facts> AskByRange(const HttpClient& client, HttpCall call) {
  call.most_bytes = 1;
  call.headers.push_back("Range: bytes=0-0");
  TETHYS_ASSIGN_OR_RETURN(const HttpReply reply, client.Try(call));
  Facts facts = FactsOf(reply.answer);
  if (reply.answer.status == 416) {  // The file has no first byte: it is empty.
    facts.size = 0;
    return facts;
  }
  if (!reply.success()) return RefusalStatus(reply.answer, call.name, reply.url.authority);
  const auto range = ParseContentRange(ValueOf(reply.answer, "content-range"));
  facts.no_ranges = reply.answer.status != 206;
  facts.size = range && range->size >= 0 ? absl::optional<int64_t>(range->size) : absl::nullopt;
  return facts;
}

// Servers and signed URLs that allow only GET answer HEAD with one of these statuses.
bool MayRefuseHeadOnly(int status) {
  return status == 400 || status == 403 || status == 405 || status == 501;
}

absl::StatusOr<Facts> Ask(const HttpClient& client, const HttpCall& call) {
  HttpCall head = call;
  head.head = true;
  TETHYS_ASSIGN_OR_RETURN(const HttpReply reply, client.Try(head));
  if (MayRefuseHeadOnly(reply.answer.status)) return AskByRange(client, call);
  if (!reply.success()) return RefusalStatus(reply.answer, call.name, reply.url.authority);
  Facts facts = FactsOf(reply.answer);
  if (facts.size) return facts;
  return AskByRange(client, call);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteObject>> OpenByRanges(const HttpClient& client, HttpCall call,
                                                           std::shared_ptr<const void> keep) {
  TETHYS_ASSIGN_OR_RETURN(const Facts facts, Ask(client, call));
  if (facts.no_ranges) {
    return absl::FailedPreconditionError(
        absl::StrCat(call.name, ": ", call.url.authority,
                     " does not serve ranges of bytes, which are needed to read data; "
                     "use a server that serves ranges (nginx, Apache), or "
                     "copy the file"));
  }
  if (!facts.size) {
    return absl::FailedPreconditionError(absl::StrCat(
        call.name, ": ", call.url.authority,
        " does not say how long the file is (Content-Length, Content-Range): is this the URL of a file?"));
  }
  if (*facts.size == 0) {
    return EmptyFileError(call.name, "check the server");
  }
  return std::make_unique<HttpObject>(client, std::move(call), std::move(keep), facts);
}

absl::StatusOr<std::unique_ptr<RemoteObject>> OpenHttpObject(const HttpClient& client, const Url& url) {
  return OpenByRanges(client, {.name = ShownUrl(url.text()), .url = url}, nullptr);
}

}  // namespace tethys
