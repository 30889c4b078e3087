// The one function that libtethys_remote.so exports (exports.map).
#include "runtime/remote/curl/curl_transport.h"
#include "runtime/remote/remote_fingerprint.h"
#include "runtime/remote/remote_library.h"

extern "C" __attribute__((visibility("default"))) const void* tethys_remote_library() {
  static constexpr tethys::RemoteLibrary kLibrary = {TETHYS_REMOTE_FINGERPRINT, tethys::CreateCurlTransport};
  return &kLibrary;
}
