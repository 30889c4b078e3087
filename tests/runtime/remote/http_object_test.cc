// Tests files on HTTP servers and in S3: ranges, changed files, redirects and retries.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/remote/remote_object.h"
#include "runtime/remote/s3_list.h"
#include "tests/runtime/remote/scripted_transport.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HeaderOf;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::ScriptedClient;
using testing::Serve;
using ::testing::SizeIs;

const char kUrl[] = "https://data.example/file";
const char kContent[] = "0123456789";

absl::StatusOr<std::unique_ptr<RemoteObject>> Open(const ScriptedClient& scripted,
                                                   const std::string& url = kUrl) {
  return OpenHttpObject(scripted.client, ParseUrl(url).value());
}

// The error of reading bytes 2 to 5 from a server that answers the HEAD correctly and then as `script` says.
absl::Status FetchError(const testing::ScriptedTransport::Script& script) {
  const ScriptedClient scripted([&](const HttpRequest& request) -> absl::StatusOr<HttpAnswer> {
    if (request.head) return Serve(request, kContent, "\"1\"");
    return script(request);
  });
  const auto object = Open(scripted);
  EXPECT_TRUE(object.ok()) << object.status();
  return (*object)->Fetch(2, 4, "").status();
}

HttpAnswer Ranged(const std::string& range, const std::string& body) {
  return {.status = 206, .headers = {{"etag", "\"1\""}, {"content-range", range}}, .body = body};
}

TEST(HttpObjectTest, RangeRequestsAreConditionalOnAnUnchangedFile) {
  const ScriptedClient scripted([](const HttpRequest& request) { return Serve(request, kContent, "\"1\""); });
  const auto object = Open(scripted);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ((*object)->size(), 10);
  EXPECT_EQ((*object)->Fetch(2, 4, "").value(), "2345");
  const HttpRequest last = scripted.transport.requests().back();
  EXPECT_EQ(HeaderOf(last, "Range"), "bytes=2-5");
  EXPECT_EQ(HeaderOf(last, "If-Match"), "\"1\"");
  EXPECT_EQ(last.most_bytes, 4);
}

TEST(HttpObjectTest, AnswerReusesTheMemoryThatIsGivenToFetch) {
  const char* taken = nullptr;
  const ScriptedClient scripted([&](const HttpRequest& request) {
    HttpAnswer answer = Serve(request, kContent, "\"1\"");
    if (request.head || request.spare == nullptr) return answer;
    std::string body = std::move(*request.spare);
    taken = body.data();
    body = answer.body;
    answer.body = std::move(body);
    return answer;
  });
  std::string spare;
  spare.reserve(1000);
  const char* const given = spare.data();
  const absl::StatusOr<std::string> bytes = (*Open(scripted))->Fetch(2, 4, std::move(spare));
  EXPECT_EQ(*bytes, "2345");
  EXPECT_EQ(taken, given);
  EXPECT_EQ(bytes->data(), given);
}

TEST(HttpObjectTest, FirstByteIsRequestedIfTheServerRefusesHead) {
  const ScriptedClient scripted([](const HttpRequest& request) {
    return request.head ? HttpAnswer{.status = 405} : Serve(request, kContent, "\"1\"");
  });
  const auto object = Open(scripted);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ((*object)->size(), 10);
  EXPECT_EQ(HeaderOf(scripted.transport.requests()[1], "Range"), "bytes=0-0");
}

TEST(HttpObjectTest, EmptyRemoteFileIsRefused) {
  const ScriptedClient scripted([](const HttpRequest& request) { return Serve(request, "", "\"1\""); });
  EXPECT_THAT(StatusText(Open(scripted).status()), HasSubstr("is empty"));
}

TEST(HttpObjectTest, FileThatChangesWhileItIsReadIsAnError) {
  const auto changed = AllOf(HasSubstr(kUrl), HasSubstr("was changed while it was read"));
  EXPECT_THAT(StatusText(FetchError([](const auto&) { return HttpAnswer{.status = 412}; })), changed);
  EXPECT_THAT(StatusText(FetchError([](const auto&) { return HttpAnswer{.status = 416}; })), changed);
  EXPECT_THAT(StatusText(FetchError([](const auto&) { return Ranged("bytes 2-5/11", "2345"); })), changed);
  // This server ignores conditions, but sends the new ETag.
  EXPECT_THAT(StatusText(FetchError([](HttpRequest request) {
                request.headers.resize(1);
                return Serve(request, kContent, "\"2\"");
              })),
              changed);
}

TEST(HttpObjectTest, ServerThatIgnoresRangesIsRefused) {
  EXPECT_THAT(StatusText(FetchError([](const auto&) {
                return HttpAnswer{.status = 200, .headers = {{"etag", "\"1\""}}, .body = "0123"};
              })),
              AllOf(HasSubstr("ignores ranges"), HasSubstr("data.example")));
  const ScriptedClient scripted([](const HttpRequest&) {
    return HttpAnswer{.status = 200, .headers = {{"content-length", "10"}, {"accept-ranges", "none"}}};
  });
  EXPECT_THAT(StatusText(Open(scripted).status()), HasSubstr("does not serve ranges of bytes"));
}

TEST(HttpObjectTest, AnswerWithOtherBytesThanRequestedIsRefused) {
  for (const char* range : {"bytes 3-6/10", "bytes 2-4/10", "bytes 2-5", ""}) {
    EXPECT_THAT(StatusText(FetchError([&](const auto&) { return Ranged(range, "2345"); })),
                AllOf(HasSubstr("DATA_LOSS"), HasSubstr("bytes 2 to 5 were requested")))
        << range;
  }
  EXPECT_THAT(StatusText(FetchError([](const auto&) { return Ranged("bytes 2-5/10", "234"); })),
              HasSubstr("sent 3 bytes"));
  EXPECT_THAT(StatusText(FetchError([](const auto&) {
                HttpAnswer answer = Ranged("bytes 2-5/10", "2345");
                answer.body_is_longer = true;
                return answer;
              })),
              HasSubstr("sent more than 4 bytes"));
}

TEST(HttpObjectTest, TransientFailuresAreRetriedWithGrowingPauses) {
  int failures = 0;
  const ScriptedClient scripted([&](const HttpRequest& request) -> absl::StatusOr<HttpAnswer> {
    if (!request.head && ++failures == 1) return HttpAnswer{.status = 503};
    if (!request.head && failures == 2) return absl::UnavailableError("data.example cut the connection");
    if (!request.head && failures == 3) return absl::DeadlineExceededError("data.example is silent");
    return Serve(request, kContent, "\"1\"");
  });
  EXPECT_EQ((*Open(scripted))->Fetch(2, 4, "").value(), "2345");
  EXPECT_THAT(scripted.pauses, ElementsAre(kSecond / 2, kSecond, 2 * kSecond));
}

TEST(HttpObjectTest, ErrorAfterTheLastTryNamesTheNumberOfTries) {
  int tries = 0;
  const absl::Status failed = FetchError([&](const auto&) {
    ++tries;
    return HttpAnswer{.status = 500};
  });
  EXPECT_EQ(tries, 4);
  EXPECT_THAT(StatusText(failed), AllOf(HasSubstr(kUrl), HasSubstr("data.example answers 500"),
                                        HasSubstr("tried 4 times"), HasSubstr("--resume")));
}

TEST(HttpObjectTest, PermanentFailuresAreNotRetried) {
  for (const int status : {401, 404, 410}) {
    const ScriptedClient scripted([&](const HttpRequest&) { return HttpAnswer{.status = status}; });
    EXPECT_FALSE(Open(scripted).ok());
    EXPECT_THAT(scripted.transport.requests(), SizeIs(1)) << status;
    EXPECT_THAT(scripted.pauses, IsEmpty());
  }
}

// ------------------------------------------------------------------------------------------- redirects

absl::Status RedirectError(const std::string& location) {
  const ScriptedClient scripted([&](const HttpRequest&) {
    return HttpAnswer{.status = 302, .headers = {{"location", location}}};
  });
  return Open(scripted).status();
}

TEST(HttpRedirectTest, AfterARedirectSecretsAreSentOnlyToUrlsWithTheirPrefix) {
  proto::RemoteSecrets secrets;
  proto::RemotePlace& place = *secrets.add_place();
  place.set_url_prefix("https://data.example/");
  place.set_bearer_token("token");
  const ScriptedClient scripted(
      [](const HttpRequest& request) {
        if (request.url == kUrl) {
          return HttpAnswer{.status = 307, .headers = {{"location", "https://store.example/x"}}};
        }
        return Serve(request, kContent, "\"1\"");
      },
      secrets);
  ASSERT_TRUE(Open(scripted).ok());
  const std::vector<HttpRequest> requests = scripted.transport.requests();
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].credentials.bearer_token, "token");
  EXPECT_EQ(requests[1].url, "https://store.example/x");
  EXPECT_EQ(requests[1].credentials.bearer_token, "");
}

TEST(HttpRedirectTest, RedirectLoopsAndLongChainsAreEnded) {
  EXPECT_THAT(StatusText(RedirectError("/file")), HasSubstr("circle"));
  int next = 0;
  const ScriptedClient scripted([&](const HttpRequest&) {
    return HttpAnswer{.status = 302, .headers = {{"location", absl::StrCat("/", ++next)}}};
  });
  EXPECT_THAT(StatusText(Open(scripted).status()), HasSubstr("after 5 other redirects"));
  EXPECT_EQ(next, 6);
}

TEST(HttpRedirectTest, RedirectsToOtherSchemesAreNotFollowed) {
  EXPECT_THAT(StatusText(RedirectError("file:///etc/passwd")), HasSubstr("not followed"));
  EXPECT_THAT(StatusText(RedirectError("http://data.example/file")), HasSubstr("without TLS"));
  EXPECT_THAT(StatusText(RedirectError("")), Not(HasSubstr("OK")));
}

// -------------------------------------------------------------------------------------------------- S3

proto::RemoteSecrets Keys(const std::string& endpoint) {
  proto::RemoteSecrets secrets;
  proto::RemotePlace& place = *secrets.add_place();
  place.set_url_prefix("s3://bucket/");
  place.mutable_s3()->set_access_key("key");
  place.mutable_s3()->set_secret_key("secret");
  place.mutable_s3()->set_region("eu-central-1");
  if (!endpoint.empty()) place.mutable_s3()->set_endpoint(endpoint);
  return secrets;
}

TEST(S3Test, ObjectsAreReadFromTheRegionOrTheEndpoint) {
  for (const auto& [endpoint, url] : {std::pair{"", "https://bucket.s3.eu-central-1.amazonaws.com/a/b%20c"},
                                      {"http://minio:9000", "http://minio:9000/bucket/a/b%20c"}}) {
    const ScriptedClient scripted(
        [](const HttpRequest& request) { return Serve(request, kContent, "\"1\""); }, Keys(endpoint));
    const auto object = OpenS3Object(scripted.client, ParseUrl("s3://bucket/a/b c").value());
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ((*object)->Fetch(0, 10, "").value(), kContent);
    const HttpRequest last = scripted.transport.requests().back();
    EXPECT_EQ(last.url, url);
    EXPECT_EQ(last.credentials.user, "key");
    EXPECT_EQ(last.credentials.region, "eu-central-1");
  }
}

TEST(S3Test, PatternIsMatchedAgainstAllPagesOfTheBucketsList) {
  const ScriptedClient scripted(
      [](const HttpRequest& request) {
        const bool second = request.url.find("continuation-token=a%2Bb") != std::string::npos;
        return HttpAnswer{
            .status = 200,
            .body = absl::StrCat("<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\">",
                                 second ? "" : "<NextContinuationToken>a+b</NextContinuationToken>",
                                 "<Contents><Key>d/", second ? "1" : "2",
                                 "%20x.rec</Key><Size>1</Size></Contents>",
                                 "<Contents><Key>d/sub/3.rec</Key></Contents></ListBucketResult>")};
      },
      Keys("http://minio:9000"));
  EXPECT_THAT(ListS3(scripted.client, ParseUrl("s3://bucket/d/*.rec").value()).value(),
              ElementsAre("s3://bucket/d/1 x.rec", "s3://bucket/d/2 x.rec"));
  EXPECT_THAT(scripted.transport.requests()[0].url, HasSubstr("list-type=2&prefix=d%2F"));
  EXPECT_EQ(ListS3(scripted.client, ParseUrl("s3://bucket/e*").value()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(S3Test, AnswerThatIsNoBucketListIsRefused) {
  for (const char* bad : {"", "<Error/>", "<ListBucketResult><Contents></Contents></ListBucketResult>",
                          "<ListBucketResult><Contents>",
                          "<ListBucketResult><Contents><Key>a%2</Key></Contents></ListBucketResult>",
                          "<ListBucketResult><Contents><Key>&x;</Key></Contents></ListBucketResult>",
                          "<!DOCTYPE x><ListBucketResult></ListBucketResult>"}) {
    EXPECT_FALSE(ParseS3Page(bad).ok()) << bad;
  }
  EXPECT_THAT(ParseS3Page("<ListBucketResult><Contents><Key>a&amp;b</Key></Contents></ListBucketResult>")
                  .value()
                  .keys,
              ElementsAre("a&b"));
}

}  // namespace
}  // namespace tethys
