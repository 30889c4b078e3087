// Tests files of HDFS by WebHDFS: NameNodes that are not ready, DataNodes that fail, lists of folders.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/remote/remote_object.h"
#include "runtime/remote/webhdfs_answer.h"
#include "tests/runtime/remote/scripted_transport.h"

namespace tethys {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ScriptedClient;

bool Has(const HttpRequest& request, absl::string_view text) {
  return request.url.find(std::string(text)) != std::string::npos;
}

HttpAnswer Exception(int status, const std::string& exception) {
  return {.status = status,
          .body = absl::StrCat(R"({"RemoteException":{"exception":")", exception,
                               R"(","javaClassName":"org.x","message":"some\nwords"}})")};
}

HttpAnswer Status(int64_t size, int64_t modified = 7) {
  return {.status = 200,
          .body = absl::StrCat(R"({"FileStatus":{"accessTime":1,"fileId":16385,"length":)", size,
                               R"(,"modificationTime":)", modified, R"(,"pathSuffix":"","type":"FILE"}})")};
}

HttpAnswer Redirect(const std::string& datanode) {
  return {.status = 307,
          .headers = {{"location", absl::StrCat("http://", datanode, "/webhdfs/v1/f?op=OPEN")}}};
}

// The answers of a cluster with a file of ten bytes: NameNode n1 is active, and DataNode d1 sends the
// requested bytes.
HttpAnswer Sound(const HttpRequest& request) {
  if (Has(request, "GETFILESTATUS")) return Status(10);
  if (Has(request, "//n")) return Redirect("d1:9864");
  return {.status = 200, .body = "2345"};
}

absl::StatusOr<std::string> Fetch(const ScriptedClient& scripted, const std::string& names = "n1,n2:9870") {
  const auto object =
      OpenWebhdfsObject(scripted.client, ParseUrl(absl::StrCat("webhdfs://", names, "/f")).value());
  if (!object.ok()) return object.status();
  return (*object)->Fetch(2, 4, "");
}

TEST(WebhdfsTest, ReadIsRedirectedToADatanode) {
  proto::RemoteSecrets secrets;
  secrets.add_place()->set_url_prefix("webhdfs://n1,n2:9870/");
  secrets.mutable_place(0)->set_webhdfs_user("al ice");
  const ScriptedClient scripted(Sound, secrets);
  EXPECT_EQ(Fetch(scripted).value(), "2345");
  const auto requests = scripted.transport.requests();
  EXPECT_EQ(requests[0].url, "http://n1:9870/webhdfs/v1/f?op=GETFILESTATUS&user.name=al%20ice");
  EXPECT_EQ(requests[1].url, "http://n1:9870/webhdfs/v1/f?op=OPEN&offset=2&length=4&user.name=al%20ice");
  EXPECT_EQ(requests[2].url, "http://d1:9864/webhdfs/v1/f?op=OPEN");
}

TEST(WebhdfsTest, NextNameNodeIsUsedIfOneIsNotReady) {
  for (const char* exception : {"StandbyException", "RetriableException", "SafeModeException"}) {
    const ScriptedClient scripted([&](const HttpRequest& request) {
      return Has(request, "//n1") ? Exception(403, exception) : Sound(request);
    });
    EXPECT_EQ(Fetch(scripted).value(), "2345") << exception;
    EXPECT_TRUE(scripted.pauses.empty());
  }
  const ScriptedClient refused([&](const HttpRequest& request) -> absl::StatusOr<HttpAnswer> {
    if (Has(request, "//n1")) return absl::UnavailableError("no server answers at n1:9870");
    return Sound(request);
  });
  EXPECT_EQ(Fetch(refused).value(), "2345");
}

TEST(WebhdfsTest, RequestIsRetriedWhileAllNameNodesAreInSafeMode) {
  int asked = 0;
  const ScriptedClient scripted([&](const HttpRequest& request) {
    return Has(request, "//n") && ++asked <= 6 ? Exception(403, "SafeModeException") : Sound(request);
  });
  EXPECT_EQ(Fetch(scripted).value(), "2345");
  EXPECT_THAT(scripted.pauses,
              // The client has asked both NameNodes three times, with a pause after each time.
              ElementsAre(kSecond / 2, kSecond, 2 * kSecond));
}

TEST(WebhdfsTest, WaitForNameNodesHasADeadline) {
  const ScriptedClient scripted([](const HttpRequest&) { return Exception(403, "StandbyException"); });
  EXPECT_THAT(
      StatusText(Fetch(scripted).status()),
      AllOf(HasSubstr("StandbyException"), HasSubstr("tried n1:9870, n2:9870 for"), HasSubstr("safe mode")));
  Nanoseconds waited = 0;
  for (const Nanoseconds pause : scripted.pauses) waited += pause;
  EXPECT_GE(waited, 52 * kSecond);
  EXPECT_LE(waited, 69 * kSecond);
}

TEST(WebhdfsTest, DatanodeThatDoesNotAnswerIsExcludedFromTheNextRequest) {
  const ScriptedClient scripted([](const HttpRequest& request) -> absl::StatusOr<HttpAnswer> {
    if (Has(request, "OPEN") && Has(request, "//n")) {
      return Redirect(Has(request, "excludedatanodes=d1") ? "d2:9864" : "d1:9864");
    }
    if (Has(request, "//d1")) return absl::UnavailableError("no server answers at d1:9864");
    return Sound(request);
  });
  EXPECT_EQ(Fetch(scripted).value(), "2345");
  EXPECT_EQ(scripted.pauses.size(), 1);
}

TEST(WebhdfsTest, ErrorNamesTheOnlyDatanodeIfItDoesNotAnswer) {
  const ScriptedClient scripted([](const HttpRequest& request) -> absl::StatusOr<HttpAnswer> {
    if (Has(request, "excludedatanodes")) return Exception(403, "IOException");
    if (Has(request, "//d1")) return absl::UnavailableError("no server answers at d1:9864");
    return Sound(request);
  });
  EXPECT_THAT(StatusText(Fetch(scripted).status()),
              AllOf(HasSubstr("webhdfs://n1,n2:9870/f: DataNode d1 failed, and no other DataNode has the "
                              "block (IOException: some)"),
                    HasSubstr("tried 4 times")));
}

TEST(WebhdfsTest, ReadWhoseBodyEndsEarlyIsRetried) {
  int sent = 0;
  const ScriptedClient scripted([&](const HttpRequest& request) {
    return Has(request, "//d1") && ++sent == 1 ? HttpAnswer{.status = 200, .body = "23"} : Sound(request);
  });
  EXPECT_EQ(Fetch(scripted).value(), "2345");
  EXPECT_EQ(scripted.pauses.size(), 1);
}

TEST(WebhdfsTest, FileThatChangesWhileItIsReadIsAnError) {
  int asked = 0;
  const ScriptedClient scripted([&](const HttpRequest& request) {
    return Has(request, "GETFILESTATUS") ? Status(10, ++asked) : Sound(request);
  });
  EXPECT_THAT(StatusText(Fetch(scripted).status()),
              AllOf(HasSubstr("DATA_LOSS"), HasSubstr("webhdfs://n1,n2:9870/f was changed")));
}

TEST(WebhdfsTest, ErrorsNameTheExceptionThatTheNameNodeSent) {
  const ScriptedClient missing([](const HttpRequest&) { return Exception(404, "FileNotFoundException"); });
  EXPECT_THAT(StatusText(Fetch(missing).status()),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("FileNotFoundException: some")));
  const ScriptedClient denied([](const HttpRequest&) { return Exception(403, "AccessControlException"); });
  EXPECT_THAT(StatusText(Fetch(denied).status()),
              AllOf(HasSubstr("PERMISSION_DENIED"), HasSubstr("AccessControl")));
  const ScriptedClient failed([](const HttpRequest&) { return Exception(403, "IOException"); });
  EXPECT_THAT(StatusText(Fetch(failed).status()),
              AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("logs of HDFS")));
  const ScriptedClient page([](const HttpRequest&) { return HttpAnswer{.status = 200, .body = "<html>"}; });
  EXPECT_THAT(StatusText(Fetch(page).status()), HasSubstr("is it a NameNode?"));
  const ScriptedClient folder([](const HttpRequest&) {
    return HttpAnswer{.status = 200, .body = R"({"FileStatus":{"length":0,"type":"DIRECTORY"}})"};
  });
  EXPECT_THAT(StatusText(Fetch(folder).status()), HasSubstr("DIRECTORY, not a file"));
}

// ------------------------------------------------------------------------------------------------ lists

absl::StatusOr<std::vector<std::string>> List(const std::string& pattern) {
  const ScriptedClient scripted([](const HttpRequest&) {
    return HttpAnswer{.status = 200, .body = R"({"FileStatuses":{"FileStatus":[
        {"pathSuffix":"part-2","type":"FILE","length":3}, {"pathSuffix":"part-10","type":"FILE","length":3},
        {"pathSuffix":"part-x","type":"DIRECTORY","length":0}, {"pathSuffix":".part-3","type":"FILE","length":3},
        {"pathSuffix":"_SUCCESS","type":"FILE","length":0}]}})"};
  });
  return ListWebhdfs(scripted.client, ParseUrl(absl::StrCat("webhdfs://n1:9870", pattern)).value());
}

TEST(WebhdfsTest, PatternIsMatchedAgainstTheFilesOfItsFolder) {
  EXPECT_THAT(List("/d/part-*").value(),
              ElementsAre("webhdfs://n1:9870/d/part-10", "webhdfs://n1:9870/d/part-2"));
  EXPECT_THAT(List("/part-?").value(), ElementsAre("webhdfs://n1:9870/part-2"));
  EXPECT_THAT(List("/d/file").value(), ElementsAre("webhdfs://n1:9870/d/file"));
  EXPECT_EQ(List("/d/none-*").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(StatusText(List("/*/part").status()), HasSubstr("last part of the path"));
}

TEST(WebhdfsTest, InvalidJsonAnswersOfANameNodeAreRefused) {
  for (const char* bad : {"", "[]", "{", R"({"FileStatus":3})", R"({"FileStatus":{"length":"x"}})",
                          R"({"FileStatus":{"length":-1}})", R"({"FileStatus":{"length":1.5}})",
                          R"({"FileStatuses":{"FileStatus":[{"pathSuffix":"../x"}]}})"}) {
    EXPECT_FALSE(ParseWebhdfsAnswer(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace tethys
