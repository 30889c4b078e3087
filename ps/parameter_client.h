// A worker's connections to all parameter servers: one long-lived stream each, driven by one thread. The
// strategy registers the messages of a step, sends them as their ranges become ready and waits for the
// answers.
//
// Only WaitForAnswer and the destructor block. Send passes slices of live memory to gRPC; a write may run on
// the calling thread until the socket is full. All methods are called by one thread, the training thread.
//
// Flow control: a message is sent again only after its answer came, so at most one step is outstanding per
// worker; HTTP/2's windows do the rest. On the calling thread a Send allocates only what gRPC needs for one
// write (the ByteBuffer and its batch).
//
// A stream that breaks while its server is alive is opened again, and messages without an answer are sent
// again with the same sequence; the server applies them once. When `reconnect_tries` in a row fail, or the
// server refuses, the client is permanently broken and every call returns the error.
#ifndef TETHYS_PS_PARAMETER_CLIENT_H_
#define TETHYS_PS_PARAMETER_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/member.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct ServerAddress {
  std::string host;     // The user's name of the host, for messages.
  std::string address;  // host:port.
};

struct ParameterClientOptions {
  // Holds job, role, index, incarnation and generation; nonce and proof are added per connection.
  proto::Handshake handshake;
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // This worker's identity; absent: no TLS.
  // Payloads on streams without TLS have checksums, except on loopback. Tests set this to have them there,
  // too.
  bool checksums_on_loopback = false;
  std::vector<ServerAddress> servers;  // By server index.
  const Clock* clock = nullptr;        // Outlives the client.
  int reconnect_tries = 5;
  // Limit on the unanswered messages to one server; 0: no limit. If a message is answered once all workers
  // have sent it, the limit keeps workers level: one that is ahead leaves the server's link to those behind.
  // The limit is lifted if no answer comes for `patience`, because workers that send in different orders
  // would otherwise wait forever.
  int window = 0;
  Nanoseconds patience = 100 * kMillisecond;
  Nanoseconds reconnect_pause = 20 * kMillisecond;  // Before the second try; doubles for each further one.
  bool pushes_bring_values = true;                  // False: the answer to a push has no payload.
};

// A range of the arena that this worker exchanges with one server in every step.
struct MessageRange {
  int server = 0;
  Range range;
};

class ParameterClient {
 public:
  // Begins to connect and returns.
  static std::unique_ptr<ParameterClient> Create(ParameterClientOptions options);
  virtual ~ParameterClient() = default;

  // Replaces the messages; none may be outstanding.
  virtual void SetMessages(absl::Span<const MessageRange> messages) = 0;

  // Sends message `index`, which will be answered. Fills in range and payload length of `frame`. `payload` is
  // null (a pull, a push without samples) or the range's values, which must not change until the answer has
  // come.
  virtual absl::Status Send(int index, Frame frame, const float* payload) = 0;

  // Blocks until message `index`, which was sent, is answered. DeadlineExceeded if no message has been
  // answered for `timeout`; it names the servers with outstanding answers, their hosts and the step.
  virtual absl::Status WaitForAnswer(int index, Nanoseconds timeout) = 0;

  // The header of an answered message, and its values, if any, copied to out[0 .. range.count). The copy
  // releases gRPC's memory of the answer.
  virtual const Frame& answer(int index) const = 0;
  virtual void TakeAnswer(int index, float* out) = 0;

  // Bytes so far, including frame headers and repeated messages.
  virtual int64_t bytes_out() const = 0;
  virtual int64_t bytes_in() const = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_CLIENT_H_
