// A worker's connections to all parameter servers: one long-lived stream per server, all driven by one
// thread. The strategy registers the messages of a step, sends each message once its gradients are ready, and
// waits for the answers.
//
// Only WaitForAnswer and the destructor block. Send passes the caller's memory to gRPC without a copy; gRPC
// may write on the calling thread until the socket is full. All methods but Interrupt and Redirect are called
// by one thread, the training thread.
//
// Flow control: each message is sent in every step, and is sent again only after its previous answer has
// come. At most one step is therefore outstanding per worker; within a step, HTTP/2's windows limit the
// traffic. On the calling thread, Send allocates only what gRPC needs for one write (the ByteBuffer and its
// batch).
//
// If a stream breaks while its server is alive, the client opens it again and repeats the messages without an
// answer, with the same sequence numbers; the server applies each message once. It does the same when a
// server was replaced (Redirect). When `reconnect_tries` tries in a row fail, or the server refuses the
// worker, the client is permanently broken and every call returns the error.
#ifndef TETHYS_PS_PARAMETER_CLIENT_H_
#define TETHYS_PS_PARAMETER_CLIENT_H_

#include <memory>
#include <vector>

#include "ps/client_options.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/tensor/frame.h"
#include "runtime/tensor/variable.h"

namespace tethys {

// A message that this worker exchanges with one server in every step. The message is for a range of the
// parameter arena or for norms. There is at most one message for norms per server.
struct MessageRange {
  int server = 0;
  Range range = {};
  bool norms = false;  // True: sums of squares are exchanged; `range` is not used.
};

class ParameterClient {
 public:
  // Starts connecting and returns without waiting. If no thread can be started, Send and WaitForAnswer return
  // the error.
  static std::unique_ptr<ParameterClient> Create(ParameterClientOptions options);
  virtual ~ParameterClient() = default;

  // Replaces the registered messages. Requires that every message sent before has been answered.
  virtual void SetMessages(absl::Span<const MessageRange> messages) = 0;

  // Sends message `index`. Fills in range and payload length of `frame`, unless the message exchanges norms.
  // `payload` is null for a pull, for a push without samples and where the length is 0; otherwise it points
  // to the values, of type frame.dtype, which must not change until the answer has come.
  virtual absl::Status Send(int index, Frame frame, const void* payload) = 0;

  // Blocks until message `index`, sent before, is answered. DeadlineExceeded if no message at all is answered
  // for `timeout`; the error names the servers with outstanding answers, their hosts and the step.
  virtual absl::Status WaitForAnswer(int index, Nanoseconds timeout) = 0;

  // The header of the answer to message `index`.
  virtual const Frame& answer(int index) const = 0;
  // Copies the values of the answer to message `index`, if it has any, to out[0 .. answer.range_count) and
  // releases gRPC's memory.
  virtual void TakeAnswer(int index, void* out) = 0;

  // Makes every blocked or later call of Send and WaitForAnswer return `status`, or the error that broke the
  // client before, and ends all streams. Servers get only those messages of the current push that are already
  // on their way. Thread-safe; does not block. If a server takes no data, the destructor shuts down the
  // connection to this server, because gRPC reads the caller's memory until the data are sent.
  virtual void Interrupt(const absl::Status& status) = 0;

  // The servers have these addresses from now on, by index; a server whose address has changed was replaced.
  // Ignores another number of servers. Thread-safe; does not block.
  virtual void Redirect(const std::vector<ServerAddress>& servers) = 0;

  // Bytes sent and received so far, including frame headers and repeated messages.
  virtual int64_t bytes_out() const = 0;
  virtual int64_t bytes_in() const = 0;
};

}  // namespace tethys

#endif  // TETHYS_PS_PARAMETER_CLIENT_H_
