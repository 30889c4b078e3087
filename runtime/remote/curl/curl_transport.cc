#include "runtime/remote/curl/curl_transport.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "runtime/base/mutex.h"
#include "runtime/remote/curl/s3_signature.h"

namespace tethys {
namespace {

constexpr size_t kMostHeaderBytes = 1 << 16;  // Limit on the headers of one answer.
constexpr size_t kMostIdle = 16;              // Limit on idle handles, each with open connections.

struct CloseHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, CloseHandle>;

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Files in which distributions keep the certificates of the authorities that they trust. libcurl knows only
// the file of the distribution that it was built for, but an installed Tethys may run on another
// distribution.
constexpr const char* kSystemAuthorities[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, Red Hat
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Older Fedora and Red Hat
    "/etc/ssl/ca-bundle.pem",                             // SUSE
};

// An answer as it arrives.
struct Arrival {
  const HttpRequest* request;
  const std::atomic<bool>* stopped;
  HttpAnswer answer = {};
  size_t header_bytes = 0;

  bool success() const { return answer.status >= 200 && answer.status < 300; }
  int64_t room() const {
    return (success() ? request->most_bytes : HttpTransport::kMostErrorBytes) -
           static_cast<int64_t>(answer.body.size());
  }
};

// A callback of libcurl: takes a line of the head of an answer. libcurl calls this function for the heads of
// interim answers, too.
size_t TakeHeader(const char* data, size_t size, size_t count, void* to) {
  Arrival& arrival = *static_cast<Arrival*>(to);
  const absl::string_view line = absl::StripTrailingAsciiWhitespace({data, size * count});
  arrival.header_bytes += line.size();
  if (arrival.header_bytes > kMostHeaderBytes) return 0;
  if (absl::string_view rest = line; absl::ConsumePrefix(&rest, "HTTP/")) {
    arrival.answer.headers.clear();
    const size_t blank = rest.find(' ');
    const absl::string_view code = blank == absl::string_view::npos ? "" : rest.substr(blank + 1, 3);
    if (!absl::SimpleAtoi(code, &arrival.answer.status)) arrival.answer.status = 0;
    return size * count;
  }
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) return size * count;
  arrival.answer.headers.emplace_back(absl::AsciiStrToLower(line.substr(0, colon)),
                                      absl::StripAsciiWhitespace(line.substr(colon + 1)));
  return size * count;
}

size_t TakeBody(const char* data, size_t size, size_t count, void* to) {
  Arrival& arrival = *static_cast<Arrival*>(to);
  const auto bytes = static_cast<int64_t>(size * count);
  const int64_t taken = std::min(bytes, std::max<int64_t>(arrival.room(), 0));
  if (arrival.answer.body.empty()) {
    std::string* const spare = arrival.request->spare;
    if (arrival.success() && spare != nullptr) arrival.answer.body = std::move(*spare);
    int64_t announced = 0;
    const std::string* length = arrival.answer.Header("content-length");
    if (length != nullptr && absl::SimpleAtoi(*length, &announced)) {
      arrival.answer.body.reserve(std::clamp<int64_t>(announced, 0, std::max<int64_t>(arrival.room(), 0)));
    }
  }
  arrival.answer.body.append(data, static_cast<size_t>(taken));
  arrival.answer.body_is_longer = taken < bytes;
  return static_cast<size_t>(taken);  // libcurl ends the exchange if this is less than `bytes`.
}

int CheckStopped(void* to, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Arrival*>(to)->stopped->load(std::memory_order_relaxed) ? 1 : 0;
}

std::string HostOf(const std::string& url) {
  const size_t begin = url.find("://");
  return begin == std::string::npos ? url
                                    : url.substr(begin + 3, url.find_first_of("/?", begin + 3) - begin - 3);
}

// The status for an error code of libcurl; `text` is libcurl's message.
absl::Status ExchangeError(CURLcode code, const std::string& host, absl::string_view text,
                           const HttpDeadlines& deadlines) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return absl::UnavailableError(
          absl::StrCat("this machine cannot resolve the name ", host, " (", text, ")"));
    case CURLE_COULDNT_CONNECT:
      return absl::UnavailableError(absl::StrCat("no server answers at ", host, " (", text, ")"));
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(absl::StrCat(
          host, " is silent or very slow (", text, "; the limits are ", ToSeconds(deadlines.connect),
          " s for a connection, ", ToSeconds(deadlines.quiet), " s without a byte)"));
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
      return absl::UnavailableError(absl::StrCat(host, " cut the connection (", text, ")"));
    case CURLE_PEER_FAILED_VERIFICATION:
      return absl::FailedPreconditionError(absl::StrCat(
          "the certificate of ", host, " is refused (", text,
          "): it must name the host of the URL and come from a trusted authority; name an authority "
          "of your own by ca_file in the file of secrets (--secrets)"));
    case CURLE_SSL_CACERT_BADFILE:
      return absl::FailedPreconditionError(
          absl::StrCat("the certificates of authorities for ", host, " cannot be read (", text,
                       "): install the package ca-certificates, or correct ca_file in the file of secrets "
                       "(--secrets)"));
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return absl::InvalidArgumentError(absl::StrCat("the URL cannot be used (", text, ")"));
    case CURLE_WRITE_ERROR:
      return absl::FailedPreconditionError(
          absl::StrCat(host, " sent headers of more than ", kMostHeaderBytes, " bytes"));
    case CURLE_ABORTED_BY_CALLBACK:
      return absl::CancelledError("this process is ending");
    default:
      return absl::UnavailableError(absl::StrCat("the exchange with ", host, " failed (", text, ")"));
  }
}

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(const HttpDeadlines& deadlines) : deadlines_(deadlines) {
    for (const char* path : kSystemAuthorities) {
      if (system_authorities_.empty() && access(path, R_OK) == 0) system_authorities_ = path;
    }
  }

  absl::StatusOr<HttpAnswer> Exchange(const HttpRequest& request) override {
    Handle handle = TakeHandle();
    if (handle == nullptr) return absl::ResourceExhaustedError("no memory for a connection");
    Arrival arrival = {.request = &request, .stopped = &stopped_};
    std::array<char, CURL_ERROR_SIZE> text = {};
    std::unique_ptr<curl_slist, FreeList> headers;
    std::vector<std::string> lines = request.headers;
    if (!request.credentials.region.empty()) {
      for (std::string& line : S3SignatureHeaders(request, std::time(nullptr))) {
        lines.push_back(std::move(line));
      }
    }
    for (const std::string& header : lines) {
      curl_slist* longer = curl_slist_append(headers.get(), header.c_str());
      if (longer == nullptr) return absl::ResourceExhaustedError("no memory for a request");
      static_cast<void>(headers.release());
      headers.reset(longer);
    }
    SetTransfer(handle.get(), request, arrival, text.data());
    SetSecurity(handle.get(), request);
    curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
    const CURLcode code = curl_easy_perform(handle.get());
    // A body that is longer than allowed ends the exchange with an error code, but the beginning of the
    // answer was received and is returned.
    const bool answered = code == CURLE_OK || (code == CURLE_WRITE_ERROR && arrival.answer.body_is_longer);
    ReturnHandle(std::move(handle));
    if (answered) return std::move(arrival.answer);
    return ExchangeError(code, HostOf(request.url), text[0] == '\0' ? curl_easy_strerror(code) : text.data(),
                         deadlines_);
  }

  void Stop() override { stopped_ = true; }

 private:
  Handle TakeHandle() {
    const MutexLock lock(mu_);
    if (idle_.empty()) return Handle(curl_easy_init());
    // Takes the handle that was used last, because the server is least likely to have closed its connection.
    Handle handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
  }

  void ReturnHandle(Handle handle) {
    curl_easy_reset(handle.get());  // The handle's connections stay open.
    const MutexLock lock(mu_);
    if (idle_.size() < kMostIdle) idle_.push_back(std::move(handle));
  }

  void SetTransfer(CURL* handle, const HttpRequest& request, Arrival& arrival, char* text) const {
    curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_NOBODY, request.head ? 1L : 0L);
    curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(handle, CURLOPT_PROXY, "");  // Ignores proxies that environment variables name.
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_USERAGENT, "tethys");
    // HTTP/1.1 suffices, because the blocks of a file are read over several connections at once.
    curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, static_cast<long>(CURL_MAX_READ_SIZE));
    curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(deadlines_.connect / kMillisecond));
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(deadlines_.whole / kMillisecond));
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);  // In bytes per second.
    curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME,
                     std::max(static_cast<long>(deadlines_.quiet / kSecond), 1L));
    curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, text);
    curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, TakeHeader);
    curl_easy_setopt(handle, CURLOPT_HEADERDATA, &arrival);
    curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, TakeBody);
    curl_easy_setopt(handle, CURLOPT_WRITEDATA, &arrival);
    curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, CheckStopped);
    curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &arrival);
  }

  void SetSecurity(CURL* handle, const HttpRequest& request) const {
    if (!request.ca_certificates.empty()) {
      curl_blob blob = {.data = const_cast<char*>(request.ca_certificates.data()),
                        .len = request.ca_certificates.size(),
                        .flags = CURL_BLOB_COPY};
      curl_easy_setopt(handle, CURLOPT_CAINFO, nullptr);
      curl_easy_setopt(handle, CURLOPT_CAPATH, nullptr);
      curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
    } else if (!system_authorities_.empty()) {
      curl_easy_setopt(handle, CURLOPT_CAINFO, system_authorities_.c_str());
    }
    const HttpCredentials& credentials = request.credentials;
    if (!credentials.bearer_token.empty()) {
      curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, credentials.bearer_token.c_str());
    } else if (!credentials.user.empty() && credentials.region.empty()) {
      curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
      curl_easy_setopt(handle, CURLOPT_USERNAME, credentials.user.c_str());
      curl_easy_setopt(handle, CURLOPT_PASSWORD, credentials.password.c_str());
    }
  }

  const HttpDeadlines deadlines_;
  // The first readable file of kSystemAuthorities; constant after construction.
  std::string system_authorities_;
  std::atomic<bool> stopped_ = false;
  Mutex mu_;
  std::vector<Handle> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpTransport>> CreateCurlTransport(const HttpDeadlines& deadlines) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready != CURLE_OK) {
    return absl::FailedPreconditionError(absl::StrCat("libcurl cannot be used: ", curl_easy_strerror(ready)));
  }
  return std::make_unique<CurlTransport>(deadlines);
}

}  // namespace tethys
