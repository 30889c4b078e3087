// Serves the live view of a run on this machine: a page, its data and metrics. Called by `tethys watch`, on
// one thread. Serve blocks. The run's files are read only when a request arrives, so a view without readers
// uses no CPU time.
//
// /state.json answers with the whole state (proto::LiveState), which takes hundreds of KiB for a long run.
// Each answer has a `mark`: /state.json?since=MARK leaves out the points and epochs that the answer with this
// mark, or an earlier answer, has already given to the reader. The reader replaces its points from
// `curve_begin` on by `curve` and its epochs from `epoch_begin` on by `epoch`; all other fields are in every
// answer. If the reader's points or epochs are no longer valid (the curve was thinned, an attempt repeats
// steps, the mark is of another view), the answer is the whole state, and `curve_begin` and `epoch_begin` are
// 0.
//
// A request is answered only if it contains the secret token, either in a cookie, which the address
// /?token=TOKEN sets, or in a header "Authorization: Bearer TOKEN". The header Host must name the bound
// address, so a page of another site cannot reach the view through a host name that this site controls (DNS
// rebinding). Another address may be opened for /metrics alone, with a token of its own. Each address has its
// own limit of connections.
#ifndef TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_
#define TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "deploy/live/http_exchange.h"
#include "deploy/live/live_mark.h"
#include "deploy/live/live_state.h"
#include "deploy/live/progress_file.h"
#include "proto/live.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/socket.h"
#include "runtime/base/status.h"

namespace tethys {

// The end of a run whose launcher ended without writing a final event.
struct LeftRun {
  std::string error;
  std::string go_on;  // Tells the user how to continue the run, as in RunSummary.
};
// Called for a run that has no final event. Returns how the run ended if its launcher has ended; nullopt if
// the run is still running.
using FindLeftRun = std::function<absl::optional<LeftRun>()>;

// The state of a run, computed from the events in its directory. Reads new events on each request. Blocks on
// a local file.
class WatchedRun {
 public:
  // `job`: the job's name, for metrics.
  WatchedRun(std::string run_dir, std::string job, FindLeftRun find_left = nullptr);
  // Reads new events, and returns the state without the points and epochs that a reader with the mark `known`
  // has. If the events cannot be read, the state has a note about the error.
  proto::LiveState StateSince(const LiveMark& known);
  // StateSince as JSON. Makes the text again only if the state has changed or `known` is another mark.
  const std::string& JsonSince(const LiveMark& known);

 private:
  void Read();
  // Compares the run with the prediction in its directory from now on, if there is one.
  void ReadPrediction();
  proto::LiveState Describe(const LiveMark& known) const;

  const std::string run_dir_, job_;
  ProgressReader reader_;
  absl::Status reading_;
  LiveFold fold_;
  const FindLeftRun find_left_;
  absl::optional<LeftRun> left_;
  std::string json_;     // The state as JSON; empty if the state has changed.
  LiveMark json_known_;  // The mark for which `json_` was made.
};

// Makes the answers to valid and to refused requests. Blocks only on the run's local file.
class LivePages {
 public:
  // `metrics_token`: as in LiveServerOptions, the token of callers from other machines.
  LivePages(WatchedRun& run, std::string token, int port, std::string metrics_token);
  // The bytes of the answer to a request that came to 127.0.0.1.
  std::string Answer(const HttpParse& parse, const std::string& nonce);
  // The bytes of the answer to a request that came to the address for metrics, which serves /metrics only.
  // The header Host may name anything, because no browser sends another site's bearer token.
  std::string AnswerForMetrics(const HttpParse& parse, const std::string& nonce);

 private:
  PageAnswer AnswerRequest(const PageRequest& request, const std::string& nonce);
  PageAnswer AnswerMetrics();
  PageAnswer AnswerState(const PageRequest& request);
  bool Knows(const PageRequest& request) const;

  WatchedRun& run_;
  const std::string token_, cookie_, metrics_token_;
  const int port_;
};

struct LiveServerOptions {
  std::string run_dir = {};
  std::string job = {};    // The job's name.
  std::string token = {};  // The token that readers of the view present.
  int port = 0;            // The port on 127.0.0.1; 0: a free port.
  // /metrics is also served on this address, to callers that have `metrics_token`. The traffic is not
  // encrypted.
  absl::optional<HostPort> metrics_address = {};
  std::string metrics_token = {};  // Required if metrics_address is set.
  const Clock* clock = nullptr;    // Default: the machine's clock.
  FindLeftRun find_left = nullptr;
};

class LiveServer {
 public:
  // AlreadyExists: a port is in use. InvalidArgument: as CheckWatchable. DataLoss: as ReadExpectation.
  static absl::StatusOr<std::unique_ptr<LiveServer>> Create(const LiveServerOptions& options);
  virtual ~LiveServer() = default;
  virtual int port() const = 0;
  // The bound address for metrics; nullopt if there is none.
  virtual const absl::optional<HostPort>& metrics_address() const = 0;
  // Answers requests until the descriptor `stop` is readable.
  virtual absl::Status Serve(int stop) = 0;
};

// InvalidArgument: `run_dir` holds no run, or its events cannot be read by this version.
absl::Status CheckWatchable(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_
