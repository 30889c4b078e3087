// One call on a parameter server, from its arrival to its end: the stream of a worker or of another server, a
// request for a challenge, or an invalid call. Used by the server's loop thread; nothing blocks.
#ifndef TETHYS_PS_SERVER_CALL_H_
#define TETHYS_PS_SERVER_CALL_H_

#include <grpcpp/generic/async_generic_service.h>

#include <deque>
#include <string>

#include "ps/data_stream.h"

namespace tethys {

// Invariants:
// 1. At most one read and one write are in flight.
// 2. When a call is ended, its status is sent after its last write.
// 3. OnEnd is called exactly once, after every operation has completed, and may delete the call.
class ServerCall {
 public:
  class Owner {
   public:
    virtual void OnArrival(ServerCall& call) = 0;
    // Handles a message of the call. An error ends the call with this status.
    virtual absl::Status OnMessage(ServerCall& call, const ReceivedMessage& message) = 0;
    virtual void OnEnd(ServerCall& call) = 0;

   protected:
    ~Owner() = default;
  };

  // Requests the next call from the service; OnArrival follows.
  ServerCall(Owner& owner, grpc::AsyncGenericService& service, grpc::ServerCompletionQueue& queue);

  const std::string& method() const { return context_.method(); }
  const std::string& peer() const { return peer_; }
  // The first value of a metadata key; empty if there is none.
  std::string Metadata(const std::string& key) const;
  const grpc::AuthContext& auth_context() const { return *context_.auth_context(); }
  int rank() const { return rank_; }
  // True if the caller is another server, whose index is rank().
  bool from_server() const { return from_server_; }

  // Sends the only answer to an arrived call and ends the call.
  void AnswerAndEnd(const grpc::ByteBuffer& answer);
  // Receives messages of an arrived call, as the stream of the worker with this rank or, with `from_server`,
  // of the server with this index.
  void Receive(int rank, bool from_server = false);

  void Send(grpc::ByteBuffer message);
  // Ends the call; later messages are dropped. May be called more than once; the first status counts.
  void End(const absl::Status& status);
  // Starts no further operation, because the queue is about to be shut down.
  void Abandon() { abandoned_ = true; }

 private:
  void StartRead();
  void StartWrite();
  void FinishWhenWritten();
  void OnArrived(bool ok);
  void OnRead(bool ok);
  // Calls OnEnd when the last operation has completed.
  void Release();

  Owner& owner_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  std::string peer_;
  int rank_ = -1;
  bool from_server_ = false;

  Completion arrived_;
  Completion read_;
  Completion written_;
  Completion finished_;
  int operations_ = 0;  // Operations in flight.
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
