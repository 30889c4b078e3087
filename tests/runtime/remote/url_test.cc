// Tests of URLs, headers of ranges and the file of secrets.
#include "runtime/remote/url.h"

#include <sys/stat.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/remote/http_words.h"
#include "runtime/remote/remote_secrets.h"
#include "tests/testing/temp_directory.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Refusal(absl::string_view url) { return StatusText(ParseUrl(url).status()); }

TEST(UrlTest, UrlIsSplitIntoSchemeAuthorityAndPath) {
  const Url url = ParseUrl("HTTPS://Data.Example:8443/a/B%20c?key=V").value();
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.authority, "data.example:8443");
  EXPECT_EQ(url.path, "/a/B%20c?key=V");
  EXPECT_EQ(ParseUrl("http://h").value().text(), "http://h/");
  EXPECT_EQ(ParseUrl("http://h?q").value().text(), "http://h/?q");
  EXPECT_EQ(ParseUrl("http://[::1]:80/x").value().authority, "[::1]:80");
}

TEST(UrlTest, WebhdfsPathsAndS3KeysAreTakenUnchanged) {
  EXPECT_EQ(ParseUrl("webhdfs://n1,n2:9870/data/part-??[0-9]*").value().path, "/data/part-??[0-9]*");
  const Url s3 = ParseUrl("s3://Bucket/a b#c%20").value();
  EXPECT_EQ(s3.authority, "Bucket");
  EXPECT_EQ(s3.path, "/a b#c%20");
}

TEST(UrlTest, PathsWithoutASchemeAreLocal) {
  EXPECT_TRUE(IsUrl("chief://data"));
  for (const char* path : {"data/a", "/a://b", "C:/x", "://a", "1http://a", ""})
    EXPECT_FALSE(IsUrl(path)) << path;
}

TEST(UrlTest, UserAndPasswordAreRefusedAndNotShown) {
  EXPECT_THAT(Refusal("https://alice:s3cret@data.example/a?token=t0ken"),
              AllOf(HasSubstr("file of secrets"), Not(HasSubstr("s3cret")), Not(HasSubstr("t0ken"))));
}

TEST(UrlTest, InvalidUrlsAreRefused) {
  EXPECT_THAT(Refusal("ftp://host/a"), HasSubstr("ftp:// is not read: the supported schemes are http"));
  EXPECT_THAT(Refusal("http:///a"), HasSubstr("no host"));
  EXPECT_THAT(Refusal("http://host:99999/a"), HasSubstr("'99999' is no port"));
  EXPECT_THAT(Refusal("http://ho st/a"), HasSubstr("not a host name"));
  EXPECT_THAT(Refusal("http://host/a b"), HasSubstr("0x20 cannot be in a URL: write it as %20"));
  EXPECT_THAT(Refusal("http://host/a#b"), HasSubstr("0x23"));
  EXPECT_THAT(Refusal("http://host/\r\nX: y"), HasSubstr("0x0D"));
  EXPECT_THAT(Refusal("webhdfs://a,,b:1/x"), HasSubstr("empty"));
  EXPECT_THAT(Refusal(absl::StrCat("http://h/", std::string(10000, 'a'))), HasSubstr("more than"));
}

TEST(UrlTest, RedirectLocationsAreResolvedAgainstTheUrlThatAnswered) {
  const Url base = ParseUrl("https://host:1/folder/file?q=1").value();
  const auto resolved = [&](absl::string_view location) {
    return ResolveLocation(base, location).value().text();
  };
  EXPECT_EQ(resolved("other"), "https://host:1/folder/other");
  EXPECT_EQ(resolved("/other#part"), "https://host:1/other");
  EXPECT_EQ(resolved("?q=2"), "https://host:1/folder/file?q=2");
  EXPECT_EQ(resolved("//else/x"), "https://else/x");
  EXPECT_EQ(resolved("http://else:2/x?a=b:c"), "http://else:2/x?a=b:c");
  for (const char* bad : {"file:///etc/passwd", "ftp://a/b", "s3://a/b", "javascript:x", "http://u:p@h/"}) {
    EXPECT_FALSE(ResolveLocation(base, bad).ok()) << bad;
  }
}

TEST(UrlTest, HostWithoutAPortGetsThePortOfTheNextHostThatHasOne) {
  EXPECT_THAT(HostList("a,b:1,c,d:2", 9).value(), ElementsAre("a:2", "b:1", "c:2", "d:2"));
  EXPECT_THAT(HostList("a,[::1]", 9).value(), ElementsAre("a:9", "[::1]:9"));
}

TEST(UrlTest, UrlEncodingKeepsOnlyUnreservedBytes) {
  EXPECT_EQ(PercentEncode("/a b/\xc3\xa4%?~", "/"), "/a%20b/%C3%A4%25%3F~");
}

TEST(HttpWordsTest, ContentRangeIsParsedStrictly) {
  const auto range = ParseContentRange("bytes 5-9/10");
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->first, 5);
  EXPECT_EQ(range->last, 9);
  EXPECT_EQ(range->size, 10);
  EXPECT_EQ(ParseContentRange("bytes 0-0/*")->size, -1);
  for (const char* bad :
       {"", "bytes", "bytes 5-4/10", "bytes 5-10/10", "bytes -1-4/10", "items 1-2/3", "bytes 1-2",
        "bytes 1-2/", "bytes +1-2/9", "bytes 1-2/99999999999999999999", "bytes 1 -2/9"}) {
    EXPECT_FALSE(ParseContentRange(bad).has_value()) << bad;
  }
}

TEST(HttpWordsTest, ErrorForARefusedRequestSaysWhatToDo) {
  const auto text = [](int status) {
    return StatusText(RefusalStatus({.status = status}, "http://h/a", "h"));
  };
  EXPECT_THAT(text(401), AllOf(HasSubstr("http://h/a: h answers 401"), HasSubstr("file of secrets")));
  EXPECT_THAT(text(403), AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("forbidden")));
  EXPECT_THAT(text(404), AllOf(HasSubstr("NOT_FOUND"), HasSubstr("correct the URL")));
  EXPECT_THAT(text(503), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("503")));
  EXPECT_THAT(text(418), HasSubstr("FAILED_PRECONDITION"));
}

// ---------------------------------------------------------------------------------------------- secrets

class SecretsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0600) {
    const std::string path = folder_.Write("secrets", text);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string RefusalOf(const std::string& text) {
    return StatusText(ReadRemoteSecrets(Write(text)).status());
  }

  testing::TempDirectory folder_;
};

TEST_F(SecretsTest, SecretsOfTheLongestMatchingUrlPrefixAreUsed) {
  const auto secrets = ReadRemoteSecrets(Write(R"(
      place { url_prefix: "https://Data.example" bearer_token: "all" }
      place { url_prefix: "https://data.example/private/" password { user: "u" password: "p" } }
      place { url_prefix: "webhdfs://n1,n2:9870/" webhdfs_user: "alice" })"));
  ASSERT_TRUE(secrets.ok()) << secrets.status();
  EXPECT_EQ(PlaceOf(*secrets, "https://data.example/a").bearer_token(), "all");
  EXPECT_EQ(PlaceOf(*secrets, "https://data.example/private/a").password().user(), "u");
  EXPECT_EQ(PlaceOf(*secrets, "webhdfs://n1,n2:9870/data/a").webhdfs_user(), "alice");
  EXPECT_FALSE(PlaceOf(*secrets, "https://data.example.evil.com/a").has_bearer_token());
  EXPECT_FALSE(PlaceOf(*secrets, "http://data.example/a").has_bearer_token());
}

TEST_F(SecretsTest, CertificatesAreReadFromTheFolderOfTheSecrets) {
  folder_.Write("ca.pem", "PEM");
  const auto secrets = ReadRemoteSecrets(Write("place { url_prefix: \"https://h/\" ca_file: \"ca.pem\" }"));
  EXPECT_EQ(secrets.value().place(0).ca_certificates(), "PEM");
  EXPECT_THAT(RefusalOf("place { url_prefix: \"https://h/\" ca_file: \"none.pem\" }"), HasSubstr("none.pem"));
}

TEST_F(SecretsTest, SecretsFileThatOtherUsersCanReadIsRefused) {
  const absl::Status refused = ReadRemoteSecrets(Write("", 0640)).status();
  EXPECT_THAT(StatusText(refused),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("mode 0640"), HasSubstr("chmod")));
}

TEST_F(SecretsTest, ErrorNamesTheLineOfTheSecretsFileButDoesNotQuoteIt) {
  EXPECT_THAT(RefusalOf("place {\n pasword: \"hunter2\" }"),
              AllOf(HasSubstr("/secrets:2:"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(RefusalOf("place { url_prefix: \"data.example\" }"), HasSubstr("place 1: url_prefix"));
  EXPECT_THAT(RefusalOf("place { url_prefix: \"s3://b/\" s3 { access_key: \"a\" } }"),
              HasSubstr("give both"));
  EXPECT_THAT(RefusalOf("place { url_prefix: \"s3://b/\" s3 { endpoint: \"host:9000\" } }"),
              HasSubstr("endpoint"));
  EXPECT_THAT(RefusalOf("place { url_prefix: \"https://h/\" bearer_token: \"t\" password { user: \"u\" } }"),
              HasSubstr("more than one"));
}

}  // namespace
}  // namespace tethys
