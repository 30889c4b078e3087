#include <google/protobuf/util/json_util.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "deploy/live/expectation_file.h"
#include "deploy/live/live_server.h"
#include "deploy/report/page_parts.h"
#include "runtime/base/file.h"
#include "runtime/cluster/handshake.h"

namespace tethys {

absl::string_view LivePage();  // The text of live_page.html, which CMakeLists.txt embeds.

namespace {

std::string Json(const proto::LiveState& state) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // Printing fails for text that is not UTF-8, which events cannot contain.
  return google::protobuf::util::MessageToJsonString(state, &json, options).ok() ? json : "{}";
}

PageAnswer TextAnswer(int status, absl::string_view text) {
  return {.status = status, .body = absl::StrCat(text, "\n")};
}

bool HasBearer(const PageRequest& request, absl::string_view token) {
  const std::string authorization = request.Header("authorization");
  absl::string_view bearer = authorization;
  return absl::ConsumePrefix(&bearer, "Bearer ") && SameSecret(bearer, token);
}

}  // namespace

absl::Status CheckWatchable(const std::string& run_dir) {
  if (!FileExists(run_dir + "/job.textproto")) {
    return absl::InvalidArgumentError(
        absl::StrCat(run_dir, " holds no run: name the run directory that `tethys train` printed"));
  }
  const std::string path = absl::StrCat(run_dir, "/", kProgressFile);
  if (!FileExists(path)) {
    // Without a summary, the run is just starting.
    if (!FileExists(run_dir + "/summary.json")) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     " is missing: the run was made by a version that did not write this file; `tethys "
                     "report ",
                     run_dir, "` shows the run's results"));
  }
  ProgressReader reader(run_dir);
  int64_t events = 0;
  TETHYS_RETURN_IF_ERROR(reader.ReadNew([] {}, [&](const proto::ProgressEvent&) { ++events; }));
  if (events > 0 || reader.unreadable() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": none of its ", reader.unreadable(),
                                                 " lines is an event that this version can read: the file is "
                                                 "damaged or of another version; watch the run with the "
                                                 "version of tethys that made it"));
}

WatchedRun::WatchedRun(std::string run_dir, std::string job, FindLeftRun find_left)
    : run_dir_(std::move(run_dir)),
      job_(std::move(job)),
      reader_(run_dir_),
      fold_(RandomNonce()),
      find_left_(std::move(find_left)) {
  ReadPrediction();
}

void WatchedRun::ReadPrediction() {
  absl::optional<proto::Expectation> expectation;
  if (auto read = ReadExpectation(run_dir_); read.ok()) expectation = *std::move(read);
  fold_.Expect(std::move(expectation));
}

void WatchedRun::Read() {
  const int64_t unreadable = reader_.unreadable();
  bool changed = false;
  const absl::Status status = reader_.ReadNew(
      [&] {
        fold_.Clear();
        changed = true;
      },
      [&](const proto::ProgressEvent& event) {
        fold_.Add(event);
        // The attempt that begins may have other numbers of processes, hence another prediction.
        if (event.has_listening()) ReadPrediction();
        changed = true;
      });
  const bool was_left = left_.has_value();
  left_.reset();
  const proto::LiveState::Phase phase = fold_.state().phase();
  const bool open = phase == proto::LiveState::STARTING || phase == proto::LiveState::TRAINING;
  if (open && find_left_ != nullptr) left_ = find_left_();
  changed = changed || left_.has_value() != was_left;
  if (changed || reader_.unreadable() != unreadable || status != reading_) json_.clear();
  reading_ = status;
}

proto::LiveState WatchedRun::Describe(const LiveMark& known) const {
  proto::LiveState state = fold_.StateSince(known);
  state.set_run(run_dir_);
  state.set_job(job_);
  state.set_unreadable(reader_.unreadable());
  if (left_.has_value()) {
    state.set_phase(proto::LiveState::STOPPED);
    state.set_error(left_->error);
    state.set_go_on(left_->go_on);
    state.clear_left();
  }
  if (!reading_.ok()) state.add_note(absl::StrCat("the events cannot be read: ", reading_.message()));
  return state;
}

proto::LiveState WatchedRun::StateSince(const LiveMark& known) {
  Read();
  return Describe(known);
}

const std::string& WatchedRun::JsonSince(const LiveMark& known) {
  Read();
  if (json_.empty() || known != json_known_) {
    json_ = Json(Describe(known));
    json_known_ = known;
  }
  return json_;
}

LivePages::LivePages(WatchedRun& run, std::string token, int port, std::string metrics_token)
    : run_(run),
      token_(std::move(token)),
      cookie_(absl::StrCat("tethys_", port)),
      metrics_token_(std::move(metrics_token)),
      port_(port) {}

std::string LivePages::Answer(const HttpParse& parse, const std::string& nonce) {
  const PageAnswer answer =
      parse.refusal != 0 ? TextAnswer(parse.refusal, parse.reason) : AnswerRequest(parse.request, nonce);
  return HttpAnswerBytes(answer, nonce, parse.request.head);
}

std::string LivePages::AnswerForMetrics(const HttpParse& parse, const std::string& nonce) {
  PageAnswer answer;
  if (parse.refusal != 0) {
    answer = TextAnswer(parse.refusal, parse.reason);
  } else if (metrics_token_.empty() || !HasBearer(parse.request, metrics_token_)) {
    answer = TextAnswer(401,
                        "The header Authorization must be: Bearer TOKEN, with the token of the file that "
                        "--metrics_token_file names.");
    answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  } else if (parse.request.path != "/metrics") {
    answer = TextAnswer(404, "This address serves only /metrics.");
  } else {
    answer = AnswerMetrics();
  }
  return HttpAnswerBytes(answer, nonce, parse.request.head);
}

PageAnswer LivePages::AnswerMetrics() {
  return {.type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
          .body = OpenMetricsText(run_.StateSince({}))};
}

PageAnswer LivePages::AnswerState(const PageRequest& request) {
  const absl::StatusOr<LiveMark> known = ParseMark(request.Parameter("since"));
  if (known.ok()) return {.type = "application/json", .body = run_.JsonSince(*known)};
  return TextAnswer(400, absl::StrCat("The parameter 'since' must be the field 'mark' of an earlier answer; "
                                      "a request without 'since' gets the whole state; ",
                                      known.status().message()));
}

bool LivePages::Knows(const PageRequest& request) const {
  return SameSecret(request.Cookie(cookie_), token_) || HasBearer(request, token_);
}

PageAnswer LivePages::AnswerRequest(const PageRequest& request, const std::string& nonce) {
  if (request.host != absl::StrCat("127.0.0.1:", port_) &&
      request.host != absl::StrCat("localhost:", port_)) {
    return TextAnswer(421,
                      absl::StrCat("This server is 127.0.0.1:", port_,
                                   ": open the address that tethys watch prints. To open the address on "
                                   "another machine, first run there: ssh -L ",
                                   port_, ":127.0.0.1:", port_, " HOST (HOST: the machine of this server)"));
  }
  if (request.path == "/" && SameSecret(request.Parameter("token"), token_)) {
    PageAnswer answer = TextAnswer(303, "The page is at /.");
    answer.headers = {
        {"Location", "/"},
        {"Set-Cookie", absl::StrCat(cookie_, "=", token_, "; Path=/; HttpOnly; SameSite=Strict")}};
    return answer;
  }
  if (!Knows(request)) {
    return TextAnswer(403,
                      "The token is missing or wrong: open the address that tethys watch prints. The file "
                      "watch.url in the run directory contains this address, too.");
  }
  if (request.path == "/state.json") return AnswerState(request);
  if (request.path == "/metrics") return AnswerMetrics();
  if (request.path != "/") return TextAnswer(404, "This address serves only /, /state.json and /metrics.");
  return {.type = "text/html; charset=utf-8",
          .body = FillPage(absl::StrReplaceAll(LivePage(), {{"/*NONCE*/", nonce}}), run_.StateSince({}))};
}

}  // namespace tethys
