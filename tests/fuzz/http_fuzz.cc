// The input has three sections (TakeSection): the bytes that a browser or another program sends to the live
// view; the events of a run, a JSON object a line; and the prediction for the run, as JSON.
#include <google/protobuf/util/json_util.h>

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "deploy/live/expectation_file.h"
#include "deploy/live/http_exchange.h"
#include "deploy/live/live_state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/targets.h"

namespace tethys::fuzz {
namespace {

void CheckRefusal(const HttpParse& parse) {
  const std::string answer =
      HttpAnswerBytes({.status = parse.refusal, .body = parse.reason}, "nonce", /*head=*/false);
  Require(absl::StartsWith(answer, "HTTP/1.1 4") || absl::StartsWith(answer, "HTTP/1.1 5"), "it is an error");
  Require(answer.size() - (answer.find("\r\n\r\n") + 4) == parse.reason.size(), "the body is the reason");
}

// Checks a mark that may come from any text: the mark is the same after it is written and parsed again, and
// the live view of a run without points answers it with the whole curve.
void CheckMark(absl::string_view text) {
  if (const auto mark = ParseMark(text); mark.ok()) {
    Require(*ParseMark(MarkText(*mark)) == *mark, "a mark's text is parsed back");
    Require(LiveFold(mark->generation).StateSince(*mark).curve_begin() == 0,
            "nothing is left out of nothing");
  }
}

// Requires that each of the two secrets, the cookie `token` and the parameter `token`, is found in one piece
// in the request.
void CheckSecrets(const PageRequest& request) {
  const std::string cookie = request.Cookie("token");
  Require(absl::StrContains(request.Header("cookie"), cookie) && !absl::StrContains(cookie, ';'),
          "a cookie is a part of its header");
  const std::string parameter = request.Parameter("token");
  Require(absl::StrContains(request.query, parameter) && !absl::StrContains(parameter, '&'),
          "a parameter is a part of the query");
}

void CheckRequest(absl::string_view received) {
  const HttpParse parse = ParseHttpRequest(received);
  if (!parse.complete) {
    Require(received.size() < kMostRequestBytes, "a request of 8 KiB is answered");
    return;
  }
  Require((parse.refusal == 0) == parse.reason.empty(), "a refusal has a reason");
  if (parse.refusal != 0) return CheckRefusal(parse);
  const PageRequest& request = parse.request;
  Require(absl::StartsWith(request.path, "/"), "a path begins with a slash");
  Require(!absl::StrContains(request.path, '?'), "a path has no query");
  Require(request.Header("host") == request.host && !request.host.empty(), "there is one host");
  Require(request.Header("transfer-encoding").empty(), "there is no body");
  for (const auto& [name, value] : request.headers) {
    Require(absl::c_all_of(value, [](char c) { return (c >= ' ' && c < 0x7f) || c == '\t'; }), "no controls");
  }
  CheckSecrets(request);
  CheckMark(request.Parameter("since"));
  // Requires that bytes after the request change nothing, and that a request without its last byte is
  // incomplete.
  const size_t end = received.find("\r\n\r\n") + 4;
  Require(ParseHttpRequest(received.substr(0, end)).refusal == 0, "what follows is ignored");
  Require(!ParseHttpRequest(received.substr(0, end - 1)).complete, "a part is not whole");
}

void CheckEstimate(const proto::Estimate& estimate) {
  Require(estimate.low() >= 0 && estimate.low() <= estimate.value() && estimate.value() <= estimate.high(),
          "an interval holds its value");
}

// Requires that a reader who polls after each event gets the whole curve and all epochs. `known` is the part
// that the reader has.
void CheckCourse(const LiveFold& fold, proto::LiveState& known) {
  const proto::LiveState whole = fold.StateSince({}), part = fold.StateSince(*ParseMark(known.mark()));
  for (int i = 1; i < whole.curve_size(); ++i) {
    Require(whole.curve(i - 1).step() < whole.curve(i).step(), "steps of the curve rise");
  }
  const auto take = [](const auto& added, int begin, auto& list) {
    Require(begin >= 0 && begin <= list.size(), "the reader has what is left out");
    list.DeleteSubrange(begin, list.size() - begin);
    list.MergeFrom(added);
  };
  take(part.curve(), part.curve_begin(), *known.mutable_curve());
  take(part.epoch(), part.epoch_begin(), *known.mutable_epoch());
  known.set_mark(part.mark());
  proto::LiveState expected;
  expected.set_mark(whole.mark());
  *expected.mutable_curve() = whole.curve();
  *expected.mutable_epoch() = whole.epoch();
  Require(known.SerializeAsString() == expected.SerializeAsString(), "the reader has the whole course");
}

void CheckEvents(absl::string_view events, absl::string_view expected) {
  LiveFold fold;
  proto::LiveState course;
  if (const auto expectation = ParseExpectation(expected); expectation.ok()) fold.Expect(*expectation);
  google::protobuf::util::JsonParseOptions json;
  json.ignore_unknown_fields = true;
  for (const absl::string_view line : absl::StrSplit(events, '\n')) {
    proto::ProgressEvent event;
    if (!google::protobuf::util::JsonStringToMessage(std::string(line), &event, json).ok()) continue;
    fold.Add(event);
    const proto::LiveState& state = fold.state();
    Require(state.note_size() <= LiveFold::kMostNotes, "notes are bounded");
    CheckCourse(fold, course);
    if (state.has_left()) CheckEstimate(state.left());
    if (state.has_comparison()) {
      CheckEstimate(state.comparison().predicted());
      Require(!state.comparison().text().empty(), "a comparison has words");
    }
    for (const proto::LiveTask& task : state.task()) Require(!task.health().empty(), "a task has a health");
  }
  Require(absl::EndsWith(OpenMetricsText(fold.state()), "\n# EOF\n"), "metrics have an end");
}

}  // namespace

void FuzzHttp(absl::string_view input) {
  CheckRequest(TakeSection(input));
  const absl::string_view events = TakeSection(input);
  CheckEvents(events, input);
}

}  // namespace tethys::fuzz
