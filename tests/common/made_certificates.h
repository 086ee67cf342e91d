// Authority makes certificates for tests: of servers, of clients, and expired ones. They are signed
// with keys of elliptic curves, which take no time to make.
#ifndef FOLIO_TESTS_COMMON_MADE_CERTIFICATES_H_
#define FOLIO_TESTS_COMMON_MADE_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <fstream>
#include <memory>
#include <string>

namespace folio::testing {

// Both as PEM.
struct MadeCertificate {
  std::string certificate;
  std::string key;
};

inline void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

// The key as PEM with a password.
std::string EncryptedKey(const MadeCertificate& made);

class Authority {
 public:
  explicit Authority(const std::string& name);

  // Its own certificate as PEM.
  const std::string& pem() const { return pem_; }

  // `names` as OpenSSL writes them, such as "DNS:localhost,IP:127.0.0.1". It ends after so many
  // seconds from now, which may be negative.
  // With `rsa_bits` the key is one of RSA.
  MadeCertificate Make(const std::string& names, int ends = 3600, int rsa_bits = 0) const;

 private:
  std::shared_ptr<EVP_PKEY> key_;
  std::shared_ptr<X509> certificate_;
  std::string pem_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_COMMON_MADE_CERTIFICATES_H_
