// An HTTP transport that calls a function of the test to compute each answer, and a client that uses the
// transport.
#ifndef TETHYS_TESTS_RUNTIME_REMOTE_SCRIPTED_TRANSPORT_H_
#define TETHYS_TESTS_RUNTIME_REMOTE_SCRIPTED_TRANSPORT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/remote/http_client.h"
#include "runtime/remote/http_transport.h"

namespace tethys::testing {

class ScriptedTransport final : public HttpTransport {
 public:
  using Script = std::function<absl::StatusOr<HttpAnswer>(const HttpRequest&)>;
  explicit ScriptedTransport(Script script) : script_(std::move(script)) {}

  absl::StatusOr<HttpAnswer> Exchange(const HttpRequest& request) override {
    {
      const MutexLock lock(mu_);
      requests_.push_back(request);
    }
    return script_(request);
  }
  void Stop() override {}

  std::vector<HttpRequest> requests() const {
    const MutexLock lock(mu_);
    return requests_;
  }

 private:
  const Script script_;
  mutable Mutex mu_;
  std::vector<HttpRequest> requests_ ABSL_GUARDED_BY(mu_);
};

// The value of a header of a request, or "".
inline std::string HeaderOf(const HttpRequest& request, const std::string& name) {
  for (const std::string& header : request.headers) {
    if (header.rfind(name + ": ", 0) == 0) return header.substr(name.size() + 2);
  }
  return "";
}

// The answer of a correct server whose file is `content` in the version `etag`.
inline HttpAnswer Serve(const HttpRequest& request, const std::string& content, const std::string& etag) {
  if (request.head) {
    return {.status = 200, .headers = {{"content-length", absl::StrCat(content.size())}, {"etag", etag}}};
  }
  const std::string wanted = HeaderOf(request, "If-Match");
  if (!wanted.empty() && wanted != etag) return {.status = 412};
  long first = 0, last = 0;
  if (std::sscanf(HeaderOf(request, "Range").c_str(), "bytes=%ld-%ld", &first, &last) != 2) {
    return {.status = 200, .headers = {{"etag", etag}}, .body = content};
  }
  return {.status = 206,
          .headers = {{"etag", etag},
                      {"content-range", absl::StrCat("bytes ", first, "-", last, "/", content.size())}},
          .body = content.substr(first, last - first + 1)};
}

// A client whose server is a script. Pauses are recorded and take no time.
struct ScriptedClient {
  explicit ScriptedClient(ScriptedTransport::Script script, proto::RemoteSecrets own_secrets = {})
      : secrets(std::move(own_secrets)),
        transport(std::move(script)),
        client(transport, secrets, {.pause = [this](Nanoseconds pause) { pauses.push_back(pause); }}) {}

  const proto::RemoteSecrets secrets;
  mutable ScriptedTransport transport;
  mutable std::vector<Nanoseconds> pauses;
  const HttpClient client;
};

}  // namespace tethys::testing

#endif  // TETHYS_TESTS_RUNTIME_REMOTE_SCRIPTED_TRANSPORT_H_
