// A connection to one parameter server, of a worker (parameter_client.cc) or of another server
// (copy_sender.cc): requests a challenge, opens a stream with a handshake, and starts again when the stream
// breaks. All methods and all callbacks of the owner are called with the owner's lock held.
//
//   Connect -> challenge -> opening -> open -> closing -> (pause) -> Connect ...
//           or, after too many tries, broken
#ifndef TETHYS_PS_SERVER_LINK_H_
#define TETHYS_PS_SERVER_LINK_H_

#include <grpcpp/alarm.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "ps/client_options.h"
#include "ps/data_stream.h"
#include "runtime/base/mutex.h"

namespace tethys {

class ServerLink {
 public:
  class Owner {
   public:
    // A new stream is open: all messages without an answer must be sent again.
    virtual void OnOpen(int server) = 0;
    // Sets the next message to write; returns false if there is none.
    virtual bool NextMessage(int server, grpc::ByteBuffer* message) = 0;
    // Handles an answer and may take its contents. An error breaks the link.
    virtual absl::Status OnAnswer(int server, ReceivedMessage& message) = 0;
    // The server has refused the caller, or all tries have failed. The link is unusable from now on.
    virtual void OnBroken(int server, const absl::Status& status) = 0;

   protected:
    ~Owner() = default;
  };

  // All arguments must outlive the link. Operations complete on the thread that runs `queue`, which locks
  // `mu`.
  ServerLink(Owner& owner, Mutex& mu, grpc::CompletionQueue& queue, const ParameterClientOptions& options,
             int server);

  void Connect();
  // Writes the owner's next message unless the stream is not open or a write is in flight.
  void WriteNext();
  // The options have another address of the server: connects to it at once.
  void Redirect();
  // Cancels operations in flight and starts no more.
  void Stop();

 private:
  Completion Locked(void (ServerLink::*handler)(bool ok));
  void OnChallenge(bool ok);
  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  void OnPauseOver(bool ok);
  void OpenStream(uint64_t nonce);
  void FinishWhenIdle();
  void TryAgain(const absl::Status& status);

  Owner& owner_;
  Mutex& mu_;
  grpc::CompletionQueue& queue_;
  const ParameterClientOptions& options_;
  const int server_;

  bool open_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool stopped_ = false;
  bool redirected_ = false;  // The next try is due at once, because the address has changed.
  int failures_ = 0;         // Failed tries since the last answer.

  Completion challenged_;
  Completion started_;
  Completion read_;
  Completion written_;
  Completion finished_;
  Completion pause_over_;
  grpc::Alarm pause_;

  // Objects of the current try, in the order of creation.
  std::unique_ptr<grpc::GenericStub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> challenge_call_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer challenge_;
  grpc::Status status_;
  grpc::ByteBuffer incoming_;
  ReceivedMessage message_;
};

}  // namespace tethys

#endif  // TETHYS_PS_SERVER_LINK_H_
