// Signs requests without a body to S3 and to servers that speak the protocol of S3, with AWS signature
// version 4. libcurl can sign, too, but libcurl 8.13 and later signs "%2B" in a query as a space
// (https://github.com/curl/curl/issues/20543), and the continuation tokens of S3 contain plus signs.
#ifndef TETHYS_RUNTIME_REMOTE_CURL_S3_SIGNATURE_H_
#define TETHYS_RUNTIME_REMOTE_CURL_S3_SIGNATURE_H_

#include <ctime>
#include <string>
#include <vector>

#include "runtime/remote/http_transport.h"

namespace tethys {

// The headers that sign `request` at the time `now`, each "Name: value". The credentials give the name of the
// access key, the secret key and the region. The URL is percent-encoded, and its parameters are in alphabetic
// order. The result is empty if OpenSSL is out of memory.
std::vector<std::string> S3SignatureHeaders(const HttpRequest& request, std::time_t now);

}  // namespace tethys

#endif  // TETHYS_RUNTIME_REMOTE_CURL_S3_SIGNATURE_H_
