// A worker's connections to all parameter servers: one long-lived stream each, driven by one thread. The
// strategy registers the messages a step is made of, sends them as their ranges become ready and waits for
// the answers.
//
// Nothing blocks but WaitForAnswers and the destructor. Send hands gRPC slices of live memory; a write may
// run on the calling thread up to what the socket takes. Methods are called by one thread, the training
// thread.
//
// Flow control: a message is sent again only after its answer came, so at most one step is outstanding per
// worker; the rest is HTTP/2's windows. On the calling thread a Send allocates what gRPC does for one write
// (the ByteBuffer and its batch), and nothing of ours.
//
// A stream that breaks while its server lives is opened again, and messages without an answer are sent again
// with the same sequence; the server applies them once. When `reconnect_tries` in a row fail, or the server
// refuses, the client is broken for good and every call returns the error.
#ifndef TETHYS_PS_PARAMETER_CLIENT_H_
#define TETHYS_PS_PARAMETER_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/chief.pb.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"
#include "runtime/cluster/handshake.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

struct ServerAddress {
  std::string host;     // As the user knows it, for messages.
  std::string address;  // host:port.
};

struct ParameterClientOptions {
  // Job, role, index, incarnation and generation are filled in; nonce and proof are added per connection.
  proto::Handshake handshake;
  JobToken token;
  absl::optional<TlsIdentity> tls = {};  // Of this worker; absent: streams are bare.
  // Payloads on bare streams have checksums, but for those that do not leave the machine: also these, in
  // tests.
  bool checksums_on_loopback = false;
  std::vector<ServerAddress> servers;  // By server index.
  const Clock* clock = nullptr;        // Outlives the client.
  int reconnect_tries = 5;
  // Of one server's messages at most so many are sent and not answered, until an answer has been missing for
  // `patience`. 0: no limit. Where answers come as soon as all workers have sent a message, this keeps
  // workers side by side: one that is ahead leaves the server's link to those behind. It is a courtesy and no
  // condition, so that nobody waits for ever where workers send in different orders.
  int window = 0;
  Nanoseconds patience = 100 * kMillisecond;
  Nanoseconds reconnect_pause = 20 * kMillisecond;  // Before the second try; doubled for each further one.
  bool pushes_bring_values = true;                  // False: the answer to a push has no payload.
};

// A range of the arena that travels between this worker and one server, again and again.
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

  // Sends message `index` and expects an answer. Range and payload length of `frame` are filled in here.
  // `payload` is null (a pull, a push without samples) or the range's values, unchanged until the answer is
  // here.
  virtual absl::Status Send(int index, Frame frame, const float* payload) = 0;

  // Blocks until message `index`, which was sent, is answered. DeadlineExceeded when no answer to any message
  // came for `timeout`: names the servers that owe one, their hosts and the step.
  virtual absl::Status WaitForAnswer(int index, Nanoseconds timeout) = 0;

  // Of an answered message: its header, and its values, if it has any, copied to out[0 .. range.count). The
  // memory gRPC holds for the answer is released by the copy.
  virtual const Frame& answer(int index) const = 0;
  virtual void TakeAnswer(int index, float* out) = 0;

  // So far, frames included; repeats count.
  virtual int64_t bytes_out() const = 0;
  virtual int64_t bytes_in() const = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_CLIENT_H_
