#include "runtime/remote/curl/s3_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tethys {
namespace {

constexpr char kSignedHeaders[] = "host;x-amz-content-sha256;x-amz-date";

std::string Sha256(absl::string_view text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
                 EVP_sha256(), nullptr) != 1) {
    return "";
  }
  digest.resize(size);
  return digest;
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned int size = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &size) == nullptr) {
    return "";
  }
  digest.resize(size);
  return digest;
}

std::string TimeText(const std::tm& utc, const char* format) {
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), format, &utc)};
}

}  // namespace

std::vector<std::string> S3SignatureHeaders(const HttpRequest& request, std::time_t now) {
  const HttpCredentials& credentials = request.credentials;
  absl::string_view rest = request.url;
  rest.remove_prefix(rest.find("://") + 3);
  const size_t path_begin = std::min(rest.find_first_of("/?"), rest.size());
  const absl::string_view host = rest.substr(0, path_begin);
  rest.remove_prefix(path_begin);
  const size_t path_end = std::min(rest.find('?'), rest.size());
  const absl::string_view path = path_end == 0 ? "/" : rest.substr(0, path_end);
  const absl::string_view query = rest.substr(std::min(path_end + 1, rest.size()));

  std::tm utc = {};
  gmtime_r(&now, &utc);
  const std::string day = TimeText(utc, "%Y%m%d"), time = TimeText(utc, "%Y%m%dT%H%M%SZ");
  const std::string scope = absl::StrCat(day, "/", credentials.region, "/s3/aws4_request");
  const std::string body = absl::BytesToHexString(Sha256(""));
  const std::string canonical = absl::StrCat(request.head ? "HEAD\n" : "GET\n", path, "\n", query,
                                             "\nhost:", host, "\nx-amz-content-sha256:", body,
                                             "\nx-amz-date:", time, "\n\n", kSignedHeaders, "\n", body);
  const std::string text =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", absl::BytesToHexString(Sha256(canonical)));
  std::string key = absl::StrCat("AWS4", credentials.password);
  for (const absl::string_view part : {absl::string_view(day), absl::string_view(credentials.region),
                                       absl::string_view("s3"), absl::string_view("aws4_request")}) {
    key = HmacSha256(key, part);
  }
  const std::string signature = absl::BytesToHexString(HmacSha256(key, text));
  if (body.empty() || signature.empty()) return {};
  return {absl::StrCat("Host: ", host), absl::StrCat("x-amz-content-sha256: ", body),
          absl::StrCat("x-amz-date: ", time),
          absl::StrCat("Authorization: AWS4-HMAC-SHA256 Credential=", credentials.user, "/", scope,
                       ", SignedHeaders=", kSignedHeaders, ", Signature=", signature)};
}

}  // namespace tethys
