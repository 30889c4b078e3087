// Files of HDFS by WebHDFS. A NameNode gives the status of a file, and redirects each read to a DataNode that
// has the block. There may be several NameNodes, of which one is active. Requests, each followed by its
// answer:
//
//   GET http://NAMENODE/webhdfs/v1/PATH?op=GETFILESTATUS
//       {"FileStatus": {...}}
//   GET http://NAMENODE/webhdfs/v1/FOLDER?op=LISTSTATUS
//       {"FileStatuses": {"FileStatus": [...]}}
//   GET http://NAMENODE/webhdfs/v1/PATH?op=OPEN&offset=BYTE&length=BYTES
//       307 to the DataNode, which sends the bytes
//
// A failure is a status of HTTP with {"RemoteException": {"exception": ..., "message": ...}}.
#include <fnmatch.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "proto/webhdfs.pb.h"
#include "runtime/base/empty_file.h"
#include "runtime/remote/http_words.h"
#include "runtime/remote/remote_object.h"
#include "runtime/remote/remote_secrets.h"
#include "runtime/remote/webhdfs_answer.h"

namespace tethys {
namespace {

constexpr int kDefaultPort = 9870;                    // Port of a NameNode's web server since Hadoop 3.
constexpr int64_t kMostListBytes = int64_t{1} << 26;  // Limit on the list of a folder: some 200,000 files.
constexpr int64_t kMostStatusBytes = 1 << 16;
constexpr Nanoseconds kLongestPause = 8 * kSecond;

// The exception in an answer: "IOException: No active nodes contain this block"; empty if the answer is no
// exception of WebHDFS.
std::string ExceptionText(const HttpAnswer& answer) {
  const absl::StatusOr<proto::WebhdfsAnswer> parsed = ParseWebhdfsAnswer(answer.body);
  if (!parsed.ok() || !parsed->has_remote_exception()) return "";
  return FirstWords(
      absl::StrCat(parsed->remote_exception().exception(), ": ", parsed->remote_exception().message()));
}

// Turns an unsuccessful answer into an error with the text of the answer's exception.
absl::Status Refusal(HttpReply reply, const std::string& name) {
  const std::string exception = ExceptionText(reply.answer);
  if (!exception.empty()) reply.answer.body = exception;
  // WebHDFS answers 403 to most failures, not only to missing permission.
  const bool denied = exception.empty() || absl::StartsWith(exception, "AccessControlException");
  if (reply.answer.status != 403 || denied) return RefusalStatus(reply.answer, name, reply.url.authority);
  return absl::FailedPreconditionError(absl::StrCat(name, ": ", reply.url.authority, " answers 403 (",
                                                    exception, "): look into the logs of HDFS"));
}

bool IsTransient(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// The NameNodes of one URL. Thread-safe.
class NameNodes {
 public:
  // The list of hosts was checked when the URL was parsed.
  NameNodes(const HttpClient& client, const Url& url)
      : client_(client),
        scheme_(url.scheme == "swebhdfs" ? "https" : "http"),
        hosts_(*HostList(url.authority, kDefaultPort)),
        place_(PlaceOf(client.secrets(), url.text())),
        credentials_(WebCredentials(place_)),
        user_(place_.webhdfs_user().empty() ? ProcessUser() : place_.webhdfs_user()) {}

  // The answer of the active NameNode to an operation. The answer may be a redirect or a refusal. Sends the
  // operation to one NameNode after the other, and after a pause to all of them again, for at most
  // HttpPatience::namenodes.
  absl::StatusOr<HttpReply> Ask(const std::string& name, absl::string_view path, absl::string_view operation,
                                int64_t most_bytes) const {
    const MonotonicClock clock;
    const HttpPatience& patience = client_.patience();
    Nanoseconds waited = 0, pause = patience.first_pause;
    while (true) {
      const Nanoseconds begin = clock.Now();
      const absl::StatusOr<HttpReply> reply = AskEach(name, path, operation, most_bytes);
      if (reply.ok() || !IsTransient(reply.status())) return reply;
      waited += clock.Now() - begin;
      if (waited >= patience.namenodes) {
        return absl::Status(
            reply.status().code(),
            absl::StrCat(reply.status().message(), "; tried ", absl::StrJoin(hosts_, ", "), " for ",
                         ToSeconds(waited), " s: check that a NameNode is active and out of safe mode"));
      }
      patience.pause(pause);
      waited += pause;
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // The certificates that are trusted for the DataNodes of this cluster, unless the secrets have a
  // RemotePlace for the DataNodes.
  const std::string& ca_certificates() const { return place_.ca_certificates(); }

 private:
  absl::StatusOr<HttpReply> AskEach(const std::string& name, absl::string_view path,
                                    absl::string_view operation, int64_t most_bytes) const {
    absl::Status last;
    const size_t first = active_.load();
    for (size_t i = 0; i < hosts_.size(); ++i) {
      const size_t host = (first + i) % hosts_.size();
      const std::string text =
          absl::StrCat(scheme_, "://", hosts_[host], "/webhdfs/v1", PercentEncode(path, "/"),
                       "?op=", operation, "&user.name=", PercentEncode(user_));
      TETHYS_ASSIGN_OR_RETURN(Url url, ParseUrl(text));
      const absl::StatusOr<HttpReply> reply = client_.Once({.name = name,
                                                            .url = std::move(url),
                                                            .most_bytes = most_bytes,
                                                            .follow = false,
                                                            .credentials = &credentials_,
                                                            .ca_certificates = &place_.ca_certificates()});
      if (reply.ok() && !IsNotReady(reply->answer)) {
        active_.store(host);
        return reply;
      }
      const absl::Status status =
          reply.ok() ? absl::UnavailableError(Refusal(*reply, name).message()) : reply.status();
      if (!IsTransient(status)) return status;
      // Prefers the error of a NameNode that did not answer, because a NameNode that answers that it is not
      // ready is healthy (it may be on standby).
      if (last.ok() || !reply.ok()) last = status;
    }
    return last;
  }

  const HttpClient& client_;
  const std::string scheme_;
  const std::vector<std::string> hosts_;
  const proto::RemotePlace& place_;
  const HttpCredentials credentials_;
  const std::string user_;
  mutable std::atomic<size_t> active_ = 0;  // The index of the NameNode that answered last.
};

absl::StatusOr<proto::WebhdfsStatus> FileStatusOf(const NameNodes& nodes, const std::string& name,
                                                  const std::string& path) {
  TETHYS_ASSIGN_OR_RETURN(const HttpReply reply, nodes.Ask(name, path, "GETFILESTATUS", kMostStatusBytes));
  if (!reply.success()) return Refusal(reply, name);
  const absl::StatusOr<proto::WebhdfsAnswer> answer = ParseWebhdfsAnswer(reply.answer.body);
  if (answer.ok() && answer->file_status().has_length() && answer->file_status().has_type()) {
    return answer->file_status();
  }
  return absl::DataLossError(absl::StrCat(
      name, ": ", reply.url.authority, " does not answer GETFILESTATUS as WebHDFS does: is it a NameNode?"));
}

std::string VersionOf(const proto::WebhdfsStatus& status) {
  return absl::StrCat(status.file_id(), "@", status.modification_time());
}

class WebhdfsObject final : public RemoteObject {
 public:
  WebhdfsObject(const HttpClient& client, const Url& url, std::unique_ptr<NameNodes> nodes,
                const proto::WebhdfsStatus& status)
      : RemoteObject(url.text(), status.length(), VersionOf(status)),
        client_(client),
        path_(url.path),
        nodes_(std::move(nodes)) {}

  // Each fetch is costly: it sends a request to the NameNode and a request to a DataNode, which takes a new
  // connection.
  int64_t blocks_a_request() const override { return 4; }

  absl::StatusOr<std::string> Fetch(int64_t offset, int64_t bytes, std::string spare) const override {
    std::string body;
    std::string failed;  // The DataNode that failed in the last try.
    TETHYS_RETURN_IF_ERROR(client_.TryAgain([&] { return FetchOnce(offset, bytes, spare, failed, body); }));
    // HDFS has no conditional reads, so the file's status is read again after each read.
    TETHYS_ASSIGN_OR_RETURN(const proto::WebhdfsStatus now, FileStatusOf(*nodes_, name(), path_));
    if (now.length() == size() && VersionOf(now) == version()) return body;
    return absl::DataLossError(absl::StrCat(
        name(), " was changed while it was read: start the job again, with files that do not change"));
  }

 private:
  absl::Status FetchOnce(int64_t offset, int64_t bytes, std::string& spare, std::string& failed,
                         std::string& body) const {
    std::string operation = absl::StrCat("OPEN&offset=", offset, "&length=", bytes);
    if (!failed.empty()) absl::StrAppend(&operation, "&excludedatanodes=", failed);
    TETHYS_ASSIGN_OR_RETURN(HttpReply reply, nodes_->Ask(name(), path_, operation, bytes));
    if (IsRedirect(reply.answer.status)) {
      const absl::StatusOr<Url> datanode = RedirectOf(reply.answer, reply.url);
      if (!datanode.ok()) return Annotate(datanode.status(), name());
      const std::string host = datanode->authority.substr(0, datanode->authority.rfind(':'));
      absl::StatusOr<HttpReply> sent = AskDatanode(*datanode, bytes, spare);
      failed = sent.ok() && sent->success() ? "" : PercentEncode(host);
      if (!sent.ok()) return Annotate(sent.status(), absl::StrCat("DataNode ", datanode->authority));
      reply = *std::move(sent);
    } else if (!reply.success() && !failed.empty()) {
      // No other DataNode has the block, so the next try no longer excludes the DataNode that failed.
      const std::string only = std::exchange(failed, "");
      return absl::UnavailableError(absl::StrCat(name(), ": DataNode ", only,
                                                 " failed, and no other DataNode has the block (",
                                                 ExceptionText(reply.answer), ")"));
    }
    if (!reply.success()) return DatanodeRefusal(reply);
    const auto received = static_cast<int64_t>(reply.answer.body.size());
    if (received == bytes && !reply.answer.body_is_longer) {
      body = std::move(reply.answer.body);
      return absl::OkStatus();
    }
    return absl::UnavailableError(absl::StrCat(
        name(), ": ", bytes, " bytes from ", offset, " on were requested, but DataNode ", reply.url.authority,
        " sent ", reply.answer.body_is_longer ? "more than " : "", received));
  }

  absl::StatusOr<HttpReply> AskDatanode(const Url& datanode, int64_t bytes, std::string& spare) const {
    const proto::RemotePlace& place = PlaceOf(client_.secrets(), datanode.text());
    return client_.Once(
        {.name = name(),
         .url = datanode,
         .most_bytes = bytes,
         .spare = &spare,
         .ca_certificates = place.has_ca_certificates() ? nullptr : &nodes_->ca_certificates()});
  }

  // The error for a refusal by a DataNode. Unavailable if this DataNode cannot read the block, because
  // another DataNode may have the block.
  absl::Status DatanodeRefusal(const HttpReply& reply) const {
    const absl::Status refusal = Refusal(reply, name());
    const bool missing = absl::StrContains(reply.answer.body, "BlockMissingException") ||
                         absl::StrContains(reply.answer.body, "Could not obtain block");
    return missing ? absl::UnavailableError(refusal.message()) : refusal;
  }

  const HttpClient& client_;
  const std::string path_;
  const std::unique_ptr<NameNodes> nodes_;
};

bool HasSpecialCharacters(absl::string_view text) { return text.find_first_of("*?[") != text.npos; }

}  // namespace

absl::StatusOr<proto::WebhdfsAnswer> ParseWebhdfsAnswer(const std::string& json) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  proto::WebhdfsAnswer answer;
  if (!google::protobuf::util::JsonStringToMessage(json, &answer, options).ok()) {
    return absl::InvalidArgumentError("not the JSON of WebHDFS");
  }
  bool sound = answer.file_status().length() >= 0;
  for (const proto::WebhdfsStatus& file : answer.file_statuses().file_status()) {
    const std::string& name = file.path_suffix();
    sound &=
        file.length() >= 0 && name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  }
  if (!sound) return absl::InvalidArgumentError("a size or a name that no file can have");
  return answer;
}

bool IsNotReady(const HttpAnswer& answer) {
  if (MayPass(answer.status)) return true;
  if (answer.status != 403) return false;
  const absl::StatusOr<proto::WebhdfsAnswer> parsed = ParseWebhdfsAnswer(answer.body);
  if (!parsed.ok()) return false;
  const std::string& exception = parsed->remote_exception().exception();
  return exception == "StandbyException" || exception == "RetriableException" ||
         exception == "SafeModeException";
}

absl::StatusOr<std::unique_ptr<RemoteObject>> OpenWebhdfsObject(const HttpClient& client, const Url& url) {
  auto nodes = std::make_unique<NameNodes>(client, url);
  const std::string name = url.text();
  TETHYS_ASSIGN_OR_RETURN(const proto::WebhdfsStatus status, FileStatusOf(*nodes, name, url.path));
  if (status.type() != "FILE") {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": a ", status.type(), ", not a file: give files, or a pattern such as part-*"));
  }
  if (status.length() == 0) {
    return EmptyFileError(name, "write it again");
  }
  return std::make_unique<WebhdfsObject>(client, url, std::move(nodes), status);
}

absl::StatusOr<std::vector<std::string>> ListWebhdfs(const HttpClient& client, const Url& pattern) {
  const std::string name = pattern.text();
  const size_t slash = pattern.path.rfind('/');
  const std::string folder = pattern.path.substr(0, std::max<size_t>(slash, 1));
  const std::string last = pattern.path.substr(slash + 1);
  if (!HasSpecialCharacters(pattern.path)) return std::vector<std::string>{name};
  if (HasSpecialCharacters(folder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": only the last part of the path may be a pattern: name the folder in full"));
  }
  const NameNodes nodes(client, pattern);
  TETHYS_ASSIGN_OR_RETURN(const HttpReply reply, nodes.Ask(name, folder, "LISTSTATUS", kMostListBytes));
  if (!reply.success()) return Refusal(reply, name);
  const absl::StatusOr<proto::WebhdfsAnswer> answer = ParseWebhdfsAnswer(reply.answer.body);
  if (reply.answer.body_is_longer || !answer.ok() || !answer->has_file_statuses()) {
    return absl::DataLossError(absl::StrCat(
        name, ": ", reply.url.authority, " does not answer LISTSTATUS as WebHDFS does, in at most ",
        kMostListBytes, " bytes: check that it is a NameNode, and that the folder is not too large"));
  }
  std::vector<std::string> urls;
  for (const proto::WebhdfsStatus& file : answer->file_statuses().file_status()) {
    if (file.type() != "FILE" || fnmatch(last.c_str(), file.path_suffix().c_str(), FNM_PERIOD) != 0) continue;
    urls.push_back(absl::StrCat(pattern.scheme, "://", pattern.authority, folder, folder == "/" ? "" : "/",
                                file.path_suffix()));
  }
  if (urls.empty()) return absl::NotFoundError(absl::StrCat("no file matches ", name));
  std::sort(urls.begin(), urls.end());
  return urls;
}

}  // namespace tethys
