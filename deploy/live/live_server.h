// Serves the live view of a run on this machine: a page, its data and metrics. Called by `tethys watch`.
// Serve blocks; one thread. The run is read only when a request asks for it, so an unwatched view costs
// nothing.
//
// Only requests with the secret token are answered: in a cookie, which the address /?token=TOKEN sets, or in
// a header "Authorization: Bearer TOKEN". The header Host must name the bound address, so no page of another
// site can reach the view through a name that it controls (DNS rebinding).
#ifndef TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_
#define TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_

#include <memory>
#include <string>

#include "absl/types/optional.h"
#include "deploy/live/http_exchange.h"
#include "deploy/live/live_state.h"
#include "deploy/live/progress_file.h"
#include "proto/live.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace tethys {

// A run as the events in its directory tell it, read again when asked for. Blocks on a local file.
class WatchedRun {
 public:
  // `job`: the job's name, for metrics. `expectation`: what was predicted of the run, if anything was.
  WatchedRun(std::string run_dir, std::string job, absl::optional<proto::Expectation> expectation);
  // Reads new events. An error of the file becomes a note in the state.
  const proto::LiveState& Read();

 private:
  const std::string run_dir_, job_;
  ProgressReader reader_;
  LiveFold fold_;
  proto::LiveState state_;
};

// What a valid or refused request is answered. Nothing here waits.
class LivePages {
 public:
  LivePages(WatchedRun& run, std::string token, int port);
  // The bytes of the answer.
  std::string Answer(const HttpParse& parse, const std::string& nonce);

 private:
  HttpAnswer AnswerRequest(const HttpRequest& request, const std::string& nonce);
  bool Knows(const HttpRequest& request) const;

  WatchedRun& run_;
  const std::string token_, cookie_;
  const int port_;
};

class LiveServer {
 public:
  // Listens on 127.0.0.1; port 0: a free one. AlreadyExists: the port is taken. InvalidArgument: see
  // CheckWatchable.
  static absl::StatusOr<std::unique_ptr<LiveServer>> Create(const std::string& run_dir,
                                                            const std::string& job, const std::string& token,
                                                            int port);
  virtual ~LiveServer() = default;
  virtual int port() const = 0;
  // Answers requests until `stop` polls readable.
  virtual absl::Status Serve(int stop) = 0;
};

// InvalidArgument: `run_dir` holds no run, or its events cannot be read by this version.
absl::Status CheckWatchable(const std::string& run_dir);

}  // namespace tethys

#endif  // TETHYS_DEPLOY_LIVE_LIVE_SERVER_H_
