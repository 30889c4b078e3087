#include "runtime/cluster/secure_socket.h"

#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/socket.h"
#include "runtime/cluster/openssl.h"

namespace tethys {
namespace {

using OwnedBioMethod = std::unique_ptr<BIO_METHOD, OpenSslFree<BIO_meth_free>>;
using OwnedSslContext = std::unique_ptr<SSL_CTX, OpenSslFree<SSL_CTX_free>>;

// Bytes read by one system call; a TLS record has at most 16 KiB.
constexpr size_t kReadBufferBytes = 64 * 1024;
// The only cipher suite. It uses AES-GCM, because processors have instructions for AES-GCM.
constexpr char kCipherSuites[] = "TLS_AES_128_GCM_SHA256";

int FdOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

// Moves bytes between OpenSSL and the socket. OpenSSL's own socket functions would raise SIGPIPE on a broken
// connection.
template <typename Move>
int MoveBytes(BIO* bio, char* data, size_t size, int again, size_t* moved, Move move) {
  iovec part = {.iov_base = data, .iov_len = size};
  const absl::StatusOr<int64_t> bytes = move(FdOf(bio), {&part, 1});
  BIO_clear_retry_flags(bio);
  if (!bytes.ok()) return 0;
  if (*bytes == 0) BIO_set_flags(bio, again | BIO_FLAGS_SHOULD_RETRY);
  *moved = static_cast<size_t>(*bytes);
  return *bytes > 0 ? 1 : 0;
}

int WriteBio(BIO* bio, const char* data, size_t size, size_t* written) {
  return MoveBytes(bio, const_cast<char*>(data), size, BIO_FLAGS_WRITE, written, SendSome);
}

int ReadBio(BIO* bio, char* data, size_t size, size_t* read) {
  return MoveBytes(bio, data, size, BIO_FLAGS_READ, read, ReceiveSome);
}

long ControlBio(BIO*, int command, long, void*) {  // NOLINT(google-runtime-int): OpenSSL's types.
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

class Context final : public TlsContext {
 public:
  Context(OwnedSslContext context, OwnedBioMethod method, int64_t records_per_key)
      : context_(std::move(context)), method_(std::move(method)), records_per_key_(records_per_key) {}

  int64_t records_per_key() const { return records_per_key_; }

  // The result is never null, because the process ends if memory runs out.
  SSL* NewSsl(int fd, SecureSocket::End end) const {
    SSL* const ssl = SSL_new(context_.get());
    BIO* const bio = BIO_new(method_.get());
    TETHYS_CHECK(ssl != nullptr && bio != nullptr);
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    end == SecureSocket::End::kCaller ? SSL_set_connect_state(ssl) : SSL_set_accept_state(ssl);
    return ssl;
  }

 private:
  const OwnedSslContext context_;
  const OwnedBioMethod method_;
  const int64_t records_per_key_;
};

absl::StatusOr<OwnedBioMethod> MakeBioMethod() {
  OwnedBioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tethys socket"));
  if (method == nullptr || BIO_meth_set_write_ex(method.get(), WriteBio) != 1 ||
      BIO_meth_set_read_ex(method.get(), ReadBio) != 1 || BIO_meth_set_ctrl(method.get(), ControlBio) != 1) {
    return absl::ResourceExhaustedError("no memory for TLS");
  }
  return method;
}

bool UseIdentity(SSL_CTX* context, const TlsIdentity& identity) {
  const OwnedCertificate authority = ReadCertificate(identity.authority);
  const OwnedCertificate certificate = ReadCertificate(identity.certificate);
  const OwnedKey key = ReadKey(identity.key);
  return authority != nullptr && certificate != nullptr && key != nullptr &&
         X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1 &&
         SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
}

absl::Status Ended() { return absl::UnavailableError("the connection was closed"); }

}  // namespace

absl::StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Create(const TlsIdentity& identity,
                                                                     int64_t records_per_key) {
  OwnedSslContext context(SSL_CTX_new(TLS_method()));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context.get(), kCipherSuites) != 1 || !UseIdentity(context.get(), identity)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot set up TLS: ", OpenSslReason()));
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // No TLS session is ever resumed, so neither tickets nor a session cache are needed.
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(context.get(), 1);
  SSL_CTX_set_default_read_buffer_len(context.get(), kReadBufferBytes);
  TETHYS_ASSIGN_OR_RETURN(OwnedBioMethod method, MakeBioMethod());
  return std::shared_ptr<const TlsContext>(
      std::make_shared<Context>(std::move(context), std::move(method), records_per_key));
}

SecureSocket::SecureSocket() = default;
SecureSocket::~SecureSocket() = default;
SecureSocket::SecureSocket(SecureSocket&&) noexcept = default;
SecureSocket& SecureSocket::operator=(SecureSocket&&) noexcept = default;

void SecureSocket::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

SecureSocket::SecureSocket(FileDescriptor fd, std::shared_ptr<const TlsContext> tls, End end)
    : fd_(std::move(fd)), tls_(std::move(tls)) {
  if (tls_ == nullptr) return;
  ssl_.reset(static_cast<const Context&>(*tls_).NewSsl(fd_.get(), end));
  joined_ = std::make_unique<std::array<char, 16 * 1024>>();
  awaits_ = end == End::kCaller ? POLLOUT : POLLIN;
}

absl::StatusOr<bool> SecureSocket::Handshake() {
  if (ssl_ == nullptr) return true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return true;
  TETHYS_RETURN_IF_ERROR(ErrorOf(result));
  return false;
}

std::string SecureSocket::peer_name() const {
  if (ssl_ == nullptr) return "";
  const OwnedCertificate certificate(SSL_get1_peer_certificate(ssl_.get()));
  if (certificate == nullptr) return "";
  using Names = std::unique_ptr<GENERAL_NAMES, OpenSslFree<GENERAL_NAMES_free>>;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  if (names == nullptr || sk_GENERAL_NAME_num(names.get()) != 1) return "";
  const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), 0);
  if (name->type != GEN_DNS) return "";
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                     ASN1_STRING_length(name->d.dNSName));
}

// The error of an OpenSSL call that returned `result`. OK: the call must be repeated once the socket polls
// ready for awaits_.
absl::Status SecureSocket::ErrorOf(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      awaits_ = POLLIN;
      return absl::OkStatus();
    case SSL_ERROR_WANT_WRITE:
      awaits_ = POLLOUT;
      return absl::OkStatus();
    case SSL_ERROR_SSL: {
      const long verified = SSL_get_verify_result(ssl_.get());  // NOLINT(google-runtime-int): OpenSSL's type.
      const std::string reason = OpenSslReason();
      return absl::UnauthenticatedError(
          absl::StrCat("TLS failed: ", reason, verified == X509_V_OK ? "" : ": ",
                       verified == X509_V_OK ? "" : X509_verify_cert_error_string(verified),
                       "; both sides need unexpired certificates of the same job"));
    }
    default:
      ERR_clear_error();
      return Ended();
  }
}

absl::Span<const char> SecureSocket::NextRecord(absl::Span<const iovec> parts, size_t skip) {
  while (!parts.empty() && skip >= parts[0].iov_len) {
    skip -= parts[0].iov_len;
    parts.remove_prefix(1);
  }
  if (parts.empty()) return {};
  absl::Span<const char> first(static_cast<const char*>(parts[0].iov_base) + skip, parts[0].iov_len - skip);
  if (parts.size() == 1 || parts[1].iov_len == 0 || first.size() >= joined_->size()) return first;
  const size_t more = std::min(parts[1].iov_len, joined_->size() - first.size());
  std::memcpy(joined_->data(), first.data(), first.size());
  std::memcpy(joined_->data() + first.size(), parts[1].iov_base, more);
  return {joined_->data(), first.size() + more};
}

// OpenSSL receives nothing while a key update waits to be sent, so two ends with full buffers would wait for
// each other. So a key update is begun only if the socket polls writable: a writable socket accepts far more
// bytes than a key update has.
absl::Status SecureSocket::UpdateKey() {
  pollfd polled = {.fd = fd_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&polled, 1, 0) != 1 || (polled.revents & POLLOUT) == 0) return absl::OkStatus();
  ERR_clear_error();
  if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
    return absl::InternalError(absl::StrCat("TLS cannot change its key: ", OpenSslReason()));
  }
  records_ = 0;
  ++key_updates_;
  const int result = SSL_do_handshake(ssl_.get());
  return result == 1 ? absl::OkStatus() : ErrorOf(result);
}

absl::StatusOr<int64_t> SecureSocket::Send(absl::Span<iovec> parts) {
  if (ssl_ == nullptr) return SendSome(fd_.get(), parts);
  if (ended_) return Ended();
  size_t total = 0;
  while (true) {
    const absl::Span<const char> next = NextRecord(parts, total);
    if (next.empty()) return static_cast<int64_t>(total);
    if (!record_waits_ && records_ >= static_cast<const Context&>(*tls_).records_per_key()) {
      TETHYS_RETURN_IF_ERROR(UpdateKey());
    }
    size_t sent = 0;  // OpenSSL takes either a whole record or nothing.
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), next.data(), next.size(), &sent);
    record_waits_ = result != 1;
    if (result != 1) {
      TETHYS_RETURN_IF_ERROR(ErrorOf(result));
      return static_cast<int64_t>(total);
    }
    total += sent;
    ++records_;
  }
}

absl::StatusOr<int64_t> SecureSocket::Receive(absl::Span<iovec> parts) {
  if (ssl_ == nullptr) return ReceiveSome(fd_.get(), parts);
  if (ended_) return Ended();
  int64_t total = 0;
  for (const iovec& part : parts) {
    for (size_t at = 0; at < part.iov_len;) {
      size_t read = 0;
      ERR_clear_error();
      const int result =
          SSL_read_ex(ssl_.get(), static_cast<char*>(part.iov_base) + at, part.iov_len - at, &read);
      if (result != 1) {
        // Data that came before an error is returned first; the next call returns the error.
        const absl::Status status = ErrorOf(result);
        ended_ = absl::IsUnavailable(status);
        if (!status.ok() && total == 0) return status;
        return total;
      }
      at += read;
      total += static_cast<int64_t>(read);
    }
  }
  return total;
}

}  // namespace tethys
