// HTTP exchanges by libcurl. Connections are kept open and used again. Used by libtethys_remote.so only.
#ifndef TETHYS_RUNTIME_REMOTE_CURL_CURL_TRANSPORT_H_
#define TETHYS_RUNTIME_REMOTE_CURL_CURL_TRANSPORT_H_

#include <memory>

#include "runtime/remote/http_transport.h"

namespace tethys {

// FailedPrecondition: libcurl cannot be used.
absl::StatusOr<std::unique_ptr<HttpTransport>> CreateCurlTransport(const HttpDeadlines& deadlines);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_CURL_CURL_TRANSPORT_H_
