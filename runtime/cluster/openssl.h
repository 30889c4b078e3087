// Smart pointers for OpenSSL's objects, and OpenSSL's errors as text. Used by the sources in this folder that
// use TLS.
#ifndef TETHYS_RUNTIME_CLUSTER_OPENSSL_H_
#define TETHYS_RUNTIME_CLUSTER_OPENSSL_H_

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace tethys {

template <auto kFree>
struct OpenSslFree {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using OwnedBio = std::unique_ptr<BIO, OpenSslFree<BIO_free>>;
using OwnedKey = std::unique_ptr<EVP_PKEY, OpenSslFree<EVP_PKEY_free>>;
using OwnedCertificate = std::unique_ptr<X509, OpenSslFree<X509_free>>;

// The reason of OpenSSL's last error on this thread; clears this thread's errors.
inline std::string OpenSslReason() {
  const unsigned long code = ERR_peek_last_error();  // NOLINT(google-runtime-int): OpenSSL's type.
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "no reason given" : reason;
}

// The certificate in a PEM text; null if it cannot be read.
inline OwnedCertificate ReadCertificate(const std::string& pem) {
  const OwnedBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return OwnedCertificate(bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

inline OwnedKey ReadKey(const std::string& pem) {
  const OwnedBio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return OwnedKey(bio == nullptr ? nullptr : PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
}

}  // namespace tethys

#endif  // TETHYS_RUNTIME_CLUSTER_OPENSSL_H_
