// One call on a parameter server, from its arrival to its end: a worker's stream, a request for a challenge,
// or a stranger. Belongs to the server's loop thread; nothing blocks.
#ifndef TETHYS_PS_SERVER_CALL_H_
#define TETHYS_PS_SERVER_CALL_H_

#include <grpcpp/generic/async_generic_service.h>

#include <deque>
#include <string>

#include "ps/data_stream.h"

namespace tethys {

// Invariants: at most one read and one write are under way; the status of an ended call follows its last
// write; the owner is told of the end exactly once, after every operation has come back, and may then delete
// the call.
class ServerCall {
 public:
  class Owner {
   public:
    virtual void OnArrival(ServerCall& call) = 0;
    // An error ends the call with that status.
    virtual absl::Status OnMessage(ServerCall& call, const ReceivedMessage& message) = 0;
    virtual void OnEnd(ServerCall& call) = 0;

   protected:
    ~Owner() = default;
  };

  // Waits for a call to arrive.
  ServerCall(Owner& owner, grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue);

  const std::string& method() const { return context_.method(); }
  const std::string& peer() const { return peer_; }
  // The first value of a metadata key, or empty.
  std::string Metadata(const std::string& key) const;
  const grpc::AuthContext& auth_context() const { return *context_.auth_context(); }
  int worker() const { return worker_; }

  // What to do with an arrived call: answer once and end, or receive messages as a worker's stream.
  void AnswerAndEnd(const grpc::ByteBuffer& answer);
  void Receive(int worker);

  void Send(grpc::ByteBuffer message);
  // Later messages are dropped. May be called more than once; the first status counts.
  void End(const absl::Status& status);
  // Starts nothing any more: the queue is about to be shut down.
  void Abandon() { abandoned_ = true; }

 private:
  void StartRead();
  void StartWrite();
  void FinishWhenWritten();
  void OnArrived(bool ok);
  void OnRead(bool ok);
  // Tells the owner when the last operation is back.
  void Release();

  Owner& owner_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  std::string peer_;
  int worker_ = -1;

  Completion arrived_;
  Completion read_;
  Completion written_;
  Completion finished_;
  int operations_ = 0;  // Under way.
  bool writing_ = false;
  bool ending_ = false;
  bool finish_started_ = false;
  bool abandoned_ = false;
  absl::Status end_status_;

  grpc::ByteBuffer incoming_;
  ReceivedMessage message_;
  std::deque<grpc::ByteBuffer> outgoing_;
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVER_CALL_H_
