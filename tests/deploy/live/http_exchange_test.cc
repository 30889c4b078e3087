// Tests which requests the live view accepts and refuses, and the answers of the live view.
#include "deploy/live/http_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace tethys {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int Refusal(const std::string& text) {
  const HttpParse parse = ParseHttpRequest(text);
  EXPECT_TRUE(parse.complete);
  return parse.refusal;
}
std::string With(const std::string& headers) {
  return absl::StrCat("GET / HTTP/1.1\r\nHost: a\r\n", headers, "\r\n");
}

TEST(HttpExchangeTest, RequestIsParsedWithQueryAndCookies) {
  const HttpParse parse = ParseHttpRequest(
      "HEAD /state.json?a=1&token=xy HTTP/1.1\r\nHOST:  localhost:80 \r\nCookie: c=1; "
      "tethys=t=2\r\n\r\nmore");
  ASSERT_TRUE(parse.complete);
  EXPECT_EQ(parse.refusal, 0);
  EXPECT_TRUE(parse.request.head);
  EXPECT_EQ(parse.request.path, "/state.json");
  EXPECT_EQ(parse.request.host, "localhost:80");
  EXPECT_EQ(parse.request.Parameter("token"), "xy");
  EXPECT_EQ(parse.request.Parameter("toke"), "");
  EXPECT_EQ(parse.request.Cookie("tethys"), "t=2");
  EXPECT_EQ(parse.request.Cookie("d"), "");
}

TEST(HttpExchangeTest, EveryProperPrefixOfARequestIsIncomplete) {
  const std::string request = With("A: b\r\n");
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(ParseHttpRequest(request.substr(0, size)).complete) << size;
  }
  EXPECT_TRUE(ParseHttpRequest(request).complete);
}

TEST(HttpExchangeTest, HeadersWithoutEndAreRefusedAtEightKib) {
  const std::string endless = absl::StrCat("GET / HTTP/1.1\r\nHost: a\r\nX: ", std::string(9000, 'x'));
  EXPECT_FALSE(ParseHttpRequest(endless.substr(0, kMostRequestBytes - 1)).complete);
  EXPECT_EQ(Refusal(endless.substr(0, kMostRequestBytes)), 431);
  EXPECT_EQ(Refusal(endless + "\r\n\r\n"), 431);
}

TEST(HttpExchangeTest, UnusualRequestsAreRefused) {
  EXPECT_EQ(Refusal("POST / HTTP/1.1\r\nHost: a\r\n\r\n"), 405);
  EXPECT_EQ(Refusal("GET / HTTP/1.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(Refusal("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("\r\n\r\n"), 400);
  EXPECT_EQ(Refusal(With("Host: a\r\n")), 400);
  EXPECT_EQ(Refusal(With("A: b\r\n folded\r\n")), 400);
  EXPECT_EQ(Refusal(With("A : b\r\n")), 400);
  EXPECT_EQ(Refusal(With("A: b\nC: d\r\n")), 400);
  EXPECT_EQ(Refusal(With("Transfer-Encoding: chunked\r\n")), 400);
  EXPECT_EQ(Refusal(With("Content-Length: 5\r\n")), 413);
  EXPECT_EQ(Refusal(With("Content-Length: 0\r\n")), 0);
  std::string many;
  for (int i = 0; i < 65; ++i) many += "A: b\r\n";
  EXPECT_EQ(Refusal(With(many)), 431);
}

TEST(HttpExchangeTest, AnswerForbidsCachingAndScriptsWithoutNonce) {
  const PageAnswer answer = {.body = "text", .headers = {{"Set-Cookie", "a=b"}}};
  const std::string bytes = HttpAnswerBytes(answer, "n0", false);
  EXPECT_THAT(bytes, HasSubstr("script-src 'nonce-n0'; style-src 'nonce-n0'"));
  EXPECT_THAT(bytes, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(bytes, HasSubstr("Set-Cookie: a=b\r\n\r\ntext"));
  const std::string head = HttpAnswerBytes(answer, "n0", true);
  EXPECT_THAT(head, HasSubstr("Content-Length: 4\r\n"));
  EXPECT_THAT(head, ::testing::EndsWith("\r\n\r\n"));
}

TEST(HttpExchangeTest, SecretsAreEqualOnlyIfAllBytesAre) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
}

}  // namespace
}  // namespace tethys
