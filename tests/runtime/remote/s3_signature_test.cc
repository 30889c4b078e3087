#include "runtime/remote/curl/s3_signature.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tethys {
namespace {

using ::testing::ElementsAre;

constexpr std::time_t kTime = 1369353600;  // 2013-05-24, midnight.
constexpr char kEmptyBody[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string Authorization(const std::string& signature) {
  return "Authorization: AWS4-HMAC-SHA256 "
         "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
         "SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" +
         signature;
}

// A request of Amazon's examples of signatures.
HttpRequest Example(const std::string& query) {
  HttpRequest request;
  request.url = "https://examplebucket.s3.amazonaws.com/" + query;
  request.credentials.user = "AKIAIOSFODNN7EXAMPLE";
  request.credentials.password = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
  request.credentials.region = "us-east-1";
  return request;
}

TEST(S3SignatureTest, RequestsOfAmazonsExamplesGetThePublishedSignatures) {
  EXPECT_THAT(S3SignatureHeaders(Example("?max-keys=2&prefix=J"), kTime),
              ElementsAre("Host: examplebucket.s3.amazonaws.com",
                          std::string("x-amz-content-sha256: ") + kEmptyBody, "x-amz-date: 20130524T000000Z",
                          Authorization("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")));
  EXPECT_EQ(S3SignatureHeaders(Example("?lifecycle="), kTime).back(),
            Authorization("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(S3SignatureTest, SignatureCoversMethodPathQueryAndHost) {
  const HttpRequest request = Example("a%2Bb?prefix=d%2F");
  const std::string before = S3SignatureHeaders(request, kTime).back();
  HttpRequest head = request, path = request, host = request, plus = request;
  head.head = true;
  path.url = Example("a?prefix=d%2F").url;
  plus.url = Example("a%2Bb?prefix=d%2B").url;
  host.url = "https://other.example:9000/a%2Bb?prefix=d%2F";
  for (const HttpRequest& other : {head, path, host, plus}) {
    EXPECT_NE(S3SignatureHeaders(other, kTime).back(), before) << other.url;
  }
  EXPECT_EQ(S3SignatureHeaders(host, kTime).front(), "Host: other.example:9000");
}

}  // namespace
}  // namespace tethys
