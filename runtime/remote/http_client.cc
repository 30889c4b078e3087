#include "runtime/remote/http_client.h"

#include <algorithm>

#include "runtime/remote/http_words.h"
#include "runtime/remote/remote_secrets.h"

namespace tethys {
namespace {

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

std::string Says(const HttpAnswer& answer, const Url& from) {
  return absl::StrCat(from.authority, " answers ", answer.status, ", a redirect");
}

// The URL to which `answer`, the answer to a request for `from`, redirects. `seen` contains all URLs of this
// request so far, including `from`. Has the errors of RedirectOf; in addition FailedPrecondition: a redirect
// loop, or too many redirects.
absl::StatusOr<Url> NextUrl(const HttpAnswer& answer, const Url& from, const std::vector<std::string>& seen) {
  TETHYS_ASSIGN_OR_RETURN(Url next, RedirectOf(answer, from));
  if (std::find(seen.begin(), seen.end(), next.text()) != seen.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Says(answer, from), " to ", ShownUrl(next.text()),
                     ", which was requested before: the redirects form a circle"));
  }
  if (seen.size() > HttpClient::kMostRedirects) {
    return absl::FailedPreconditionError(absl::StrCat(Says(answer, from), " after ",
                                                      HttpClient::kMostRedirects,
                                                      " other redirects: give the URL of the file itself"));
  }
  return next;
}

}  // namespace

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

absl::StatusOr<Url> RedirectOf(const HttpAnswer& answer, const Url& from) {
  const std::string* location = answer.Header("location");
  if (location == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(Says(answer, from), " without a Location header: check the server"));
  }
  const absl::StatusOr<Url> next = ResolveLocation(from, *location);
  if (!next.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Says(answer, from), " that is not followed: ", next.status().message()));
  }
  if (from.scheme == "https" && next->scheme == "http") {
    return absl::FailedPreconditionError(absl::StrCat(
        Says(answer, from), " to http://", next->authority,
        ", which is not followed: without TLS the data could come from anyone; check the server"));
  }
  return *next;
}

absl::StatusOr<HttpReply> HttpClient::Once(const HttpCall& call) const {
  HttpReply reply = {.answer = {}, .url = call.url};
  std::vector<std::string> seen;
  while (true) {
    seen.push_back(reply.url.text());
    const proto::RemotePlace& place = PlaceOf(secrets_, seen.back());
    const bool first = seen.size() == 1;
    const HttpRequest request = {
        .url = seen.back(),
        .head = call.head,
        .headers = call.headers,
        .credentials = first && call.credentials != nullptr ? *call.credentials : WebCredentials(place),
        .ca_certificates =
            first && call.ca_certificates != nullptr ? *call.ca_certificates : place.ca_certificates(),
        .most_bytes = call.most_bytes,
        .spare = call.spare};
    absl::StatusOr<HttpAnswer> answer = transport_.Exchange(request);
    if (!answer.ok()) return Annotate(answer.status(), call.name);
    reply.answer = *std::move(answer);
    if (!call.follow || !IsRedirect(reply.answer.status)) return reply;
    const absl::StatusOr<Url> next = NextUrl(reply.answer, reply.url, seen);
    if (!next.ok()) return Annotate(next.status(), call.name);
    reply.url = *next;
  }
}

absl::StatusOr<HttpReply> HttpClient::Try(const HttpCall& call) const {
  HttpReply reply;
  TETHYS_RETURN_IF_ERROR(TryAgain([&]() -> absl::Status {
    TETHYS_ASSIGN_OR_RETURN(reply, Once(call));
    if (!MayPass(reply.answer.status)) return absl::OkStatus();
    return RefusalStatus(reply.answer, call.name, reply.url.authority);
  }));
  return reply;
}

absl::Status HttpClient::TryAgain(const std::function<absl::Status()>& once) const {
  Nanoseconds pause = patience_.first_pause;
  for (int left = patience_.tries - 1;; --left) {
    const absl::Status status = once();
    if (!IsTransient(status)) return status;
    if (left <= 0) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; tried ", patience_.tries,
                                                      " times: check the network and the server, and "
                                                      "start the job again with --resume"));
    }
    patience_.pause(pause);
    pause *= 2;
  }
}

}  // namespace tethys
