#include "runtime/cluster/certificates.h"

#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>

#include "absl/strings/ascii.h"
#include "runtime/cluster/handshake.h"
#include "runtime/cluster/openssl.h"

namespace tethys {
namespace {

using SystemTime = std::chrono::system_clock::time_point;

constexpr std::chrono::hours kClockTolerance(24);
constexpr std::chrono::hours kYear(365 * 24);
constexpr std::chrono::hours kLifetime = 10 * kYear;
constexpr std::chrono::hours kAuthorityLifetime = 20 * kYear;
constexpr int kSerialBytes = 16;

absl::Status OpenSslError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", OpenSslReason()));
}

// Makes a key on the curve P-256, which both gRPC and plain OpenSSL accept by default.
absl::StatusOr<OwnedKey> MakeKey() {
  OwnedKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot make a key");
  return key;
}

template <typename Write>
absl::StatusOr<std::string> ToPem(Write write) {
  const OwnedBio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || write(bio.get()) != 1) return OpenSslError("cannot write PEM");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);  // NOLINT(google-runtime-int): OpenSSL's type.
  return std::string(data, size);
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  return ToPem([certificate](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

absl::StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  return ToPem(
      [key](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

bool SetTime(ASN1_TIME* time, SystemTime value) {
  return ASN1_TIME_set(time, std::chrono::system_clock::to_time_t(value)) != nullptr;
}

bool SetSerial(X509* certificate) {
  unsigned char bytes[kSerialBytes];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) return false;
  bytes[0] &= 0x7f;  // Serial numbers are positive (RFC 5280).
  const std::unique_ptr<BIGNUM, OpenSslFree<BN_free>> number(BN_bin2bn(bytes, sizeof(bytes), nullptr));
  return number != nullptr && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool SetCommonName(X509_NAME* name, const std::string& value) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                    reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, OpenSslFree<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// An unsigned certificate with the fields that the authority's certificate and the certificates of processes
// have in common.
absl::StatusOr<OwnedCertificate> Draft(const std::string& name, EVP_PKEY* key, SystemTime now,
                                       std::chrono::hours lifetime) {
  OwnedCertificate certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !SetSerial(certificate.get()) ||
      !SetTime(X509_getm_notBefore(certificate.get()), now - kClockTolerance) ||
      !SetTime(X509_getm_notAfter(certificate.get()), now + lifetime) ||
      !SetCommonName(X509_get_subject_name(certificate.get()), name) ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return OpenSslError("cannot make a certificate");
  }
  return certificate;
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1 &&
      X509_sign(certificate, issuer_key, EVP_sha256()) > 0) {
    return absl::OkStatus();
  }
  return OpenSslError("cannot sign a certificate");
}

class Authority final : public JobAuthority {
 public:
  Authority(std::function<SystemTime()> now, OwnedKey key, OwnedCertificate certificate)
      : now_(std::move(now)), key_(std::move(key)), certificate_(std::move(certificate)) {}

  absl::StatusOr<TlsIdentity> Issue(proto::Role role, int index) const override {
    const std::string name = CertificateName(role, index);
    TETHYS_ASSIGN_OR_RETURN(const OwnedKey key, MakeKey());
    TETHYS_ASSIGN_OR_RETURN(const OwnedCertificate certificate, Draft(name, key.get(), now_(), kLifetime));
    X509* const own = certificate.get();
    X509* const issuer = certificate_.get();
    // Workers accept and make connections, so every certificate is valid for servers and clients.
    if (!AddExtension(own, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
        !AddExtension(own, issuer, NID_key_usage, "critical,digitalSignature") ||
        !AddExtension(own, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
        !AddExtension(own, issuer, NID_subject_alt_name, absl::StrCat("DNS:", name))) {
      return OpenSslError("cannot make the certificate of " + name);
    }
    TETHYS_RETURN_IF_ERROR(Sign(own, issuer, key_.get()));
    TlsIdentity identity;
    TETHYS_ASSIGN_OR_RETURN(identity.authority, CertificatePem(issuer));
    TETHYS_ASSIGN_OR_RETURN(identity.certificate, CertificatePem(own));
    TETHYS_ASSIGN_OR_RETURN(identity.key, KeyPem(key.get()));
    return identity;
  }

 private:
  const std::function<SystemTime()> now_;
  const OwnedKey key_;
  const OwnedCertificate certificate_;
};

absl::Status CheckTime(const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return absl::FailedPreconditionError(
        "the certificate is not valid yet: the clock of this machine is more than a day behind the clock of "
        "the launcher's machine; set the clock of this machine");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return absl::FailedPreconditionError(
        "the certificate has expired: start the job again, or set this machine's clock");
  }
  return absl::OkStatus();
}

}  // namespace

std::string CertificateName(proto::Role role, int index) {
  return absl::StrCat(absl::AsciiStrToLower(proto::Role_Name(role)), "-", index, ".tethys");
}

absl::Status CheckIdentity(const TlsIdentity& identity) {
  const OwnedCertificate authority = ReadCertificate(identity.authority);
  const OwnedCertificate certificate = ReadCertificate(identity.certificate);
  const OwnedKey key = ReadKey(identity.key);
  const char* unreadable = authority == nullptr     ? "certificate of the job's authority"
                           : certificate == nullptr ? "process's certificate"
                           : key == nullptr         ? "process's key"
                                                    : nullptr;
  if (unreadable != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the ", unreadable, " is damaged or cut short (",
                                                   OpenSslReason(),
                                                   "): it must come from the job's launcher unchanged"));
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the process's key does not belong to its certificate");
  }
  if (X509_verify(certificate.get(), X509_get0_pubkey(authority.get())) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the process's certificate was not issued by the job's authority");
  }
  return CheckTime(certificate.get());
}

absl::StatusOr<std::unique_ptr<JobAuthority>> JobAuthority::Create(std::function<SystemTime()> now) {
  TETHYS_ASSIGN_OR_RETURN(OwnedKey key, MakeKey());
  // The name is unique to the job, so that another job's certificate is refused for its unknown issuer.
  const std::string name = absl::StrCat("Tethys job authority ", absl::Hex(RandomNonce(), absl::kZeroPad16));
  TETHYS_ASSIGN_OR_RETURN(OwnedCertificate certificate, Draft(name, key.get(), now(), kAuthorityLifetime));
  X509* const own = certificate.get();
  if (!AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(own, own, NID_key_usage, "critical,keyCertSign")) {
    return OpenSslError("cannot make the job's authority");
  }
  TETHYS_RETURN_IF_ERROR(Sign(own, own, key.get()));
  return std::unique_ptr<JobAuthority>(
      std::make_unique<Authority>(std::move(now), std::move(key), std::move(certificate)));
}

}  // namespace tethys
