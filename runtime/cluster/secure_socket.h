// A TCP socket between two processes of a job: with TLS 1.3 if the job has certificates, otherwise bare
// (without TLS). Used for data that is not sent over gRPC. Never blocks.
//
//   SecureSocket socket(std::move(fd), tls, SecureSocket::End::kCaller);
//   while (!*socket.Handshake()) { poll(socket.fd(), socket.awaits()); }
//   CertificateName(proto::WORKER, 3) == socket.peer_name()
//
// A socket is used by one thread at a time; a context by any number of sockets and threads.
#ifndef TETHYS_RUNTIME_CLUSTER_SECURE_SOCKET_H_
#define TETHYS_RUNTIME_CLUSTER_SECURE_SOCKET_H_

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/cluster/certificates.h"

struct ssl_st;

namespace tethys {

// The most records that are encrypted with one key. A key of AES-GCM may encrypt 2^24.5 records (RFC 8446,
// 5.5), which takes minutes at 10 Gbit/s; the limit is lower, because a full socket delays the change to a
// new key.
constexpr int64_t kRecordsPerKey = int64_t{1} << 24;

// The trusted authority and this process's identity, ready for connections.
class TlsContext {
 public:
  // After `records_per_key` records, each direction gets a new key. InvalidArgument: the identity cannot be
  // used.
  static absl::StatusOr<std::shared_ptr<const TlsContext>> Create(const TlsIdentity& identity,
                                                                  int64_t records_per_key = kRecordsPerKey);
  virtual ~TlsContext() = default;

 protected:
  TlsContext() = default;
};

class SecureSocket {
 public:
  enum class End { kCaller, kCalled };

  SecureSocket();  // An invalid socket.
  // `fd` must be non-blocking. If `tls` is null, the socket is bare.
  SecureSocket(FileDescriptor fd, std::shared_ptr<const TlsContext> tls, End end);
  ~SecureSocket();
  SecureSocket(SecureSocket&&) noexcept;
  SecureSocket& operator=(SecureSocket&&) noexcept;

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }

  // Continues the TLS handshake of a connected socket. Returns true when the handshake is complete; on a bare
  // socket it is complete at once. Otherwise call Handshake again when the socket polls ready for awaits().
  // Unauthenticated: the other side has no certificate of this job, or refuses this process's certificate.
  // Unavailable: the other side is gone.
  absl::StatusOr<bool> Handshake();
  short awaits() const { return awaits_; }
  // The name in the other side's certificate, after the handshake; empty on a bare socket.
  std::string peer_name() const;

  // The number of times that this end has changed the key with which it sends.
  int64_t key_updates() const { return key_updates_; }

  // Send and receive like SendSome and ReceiveSome (runtime/base/socket.h). Require that the handshake is
  // complete. Bytes that Send did not take must be offered again unchanged; Send may return 0 while an
  // earlier record is being sent. Call Receive until it returns 0 before polling: data may already be
  // buffered.
  absl::StatusOr<int64_t> Send(absl::Span<iovec> parts);
  absl::StatusOr<int64_t> Receive(absl::Span<iovec> parts);

 private:
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };

  absl::Status ErrorOf(int result);
  // Starts a new key for the records to come, unless the socket is full.
  absl::Status UpdateKey();
  // The data of the next record, after the first `skip` bytes of `parts`: one part, or a short part joined
  // with the next part, so that a header takes no record of its own.
  absl::Span<const char> NextRecord(absl::Span<const iovec> parts, size_t skip);

  FileDescriptor fd_;
  std::shared_ptr<const TlsContext> tls_;  // Must outlive ssl_.
  std::unique_ptr<ssl_st, FreeSsl> ssl_;
  short awaits_ = 0;
  int64_t records_ = 0;        // Records sent with the current key.
  bool record_waits_ = false;  // True if a record is encrypted but not fully sent.
  int64_t key_updates_ = 0;
  // True once Receive has reached the end of the stream. Versions of OpenSSL differ in what later calls
  // return.
  bool ended_ = false;
  // Memory in which NextRecord joins two parts to a record.
  std::unique_ptr<std::array<char, 16 * 1024>> joined_;
};

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_SECURE_SOCKET_H_
