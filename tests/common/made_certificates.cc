#include "tests/common/made_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <functional>

namespace folio::testing {
namespace {

std::shared_ptr<EVP_PKEY> MakeKey() { return {EVP_EC_gen("P-256"), EVP_PKEY_free}; }

std::string ToText(const std::function<void(BIO*)>& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), BIO_free);
  write(bio.get());
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

void Extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), X509_EXTENSION_free);
  X509_add_ext(certificate, extension.get(), -1);
}

std::shared_ptr<X509> MakeX509(const std::string& name, EVP_PKEY* key, int ends) {
  static std::atomic<int> number = 1;
  std::shared_ptr<X509> made(X509_new(), X509_free);
  X509_set_version(made.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++number);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -24 * 3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), ends);
  X509_set_pubkey(made.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return made;
}

}  // namespace

std::string EncryptedKey(const MadeCertificate& made) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(made.key.data(), static_cast<int>(made.key.size())), BIO_free);
  const std::shared_ptr<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr),
                                      EVP_PKEY_free);
  const unsigned char password[] = "secret";
  return ToText([&](BIO* to) {
    PEM_write_bio_PrivateKey(to, key.get(), EVP_aes_128_cbc(), password, sizeof(password) - 1,
                             nullptr, nullptr);
  });
}

Authority::Authority(const std::string& name)
    : key_(MakeKey()), certificate_(MakeX509(name, key_.get(), 24 * 3600)) {
  X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
  Extend(certificate_.get(), certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
  X509_sign(certificate_.get(), key_.get(), EVP_sha256());
  pem_ = ToText([this](BIO* bio) { PEM_write_bio_X509(bio, certificate_.get()); });
}

MadeCertificate Authority::Make(const std::string& names, int ends, int rsa_bits) const {
  const auto key = rsa_bits == 0 ? MakeKey()
                                 : std::shared_ptr<EVP_PKEY>(
                                       EVP_RSA_gen(static_cast<unsigned>(rsa_bits)), EVP_PKEY_free);
  const auto made = MakeX509("test", key.get(), ends);
  X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.get()));
  Extend(made.get(), certificate_.get(), NID_subject_alt_name, names);
  X509_sign(made.get(), key_.get(), EVP_sha256());
  return {ToText([&](BIO* bio) { PEM_write_bio_X509(bio, made.get()); }), ToText([&](BIO* bio) {
            PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

}  // namespace folio::testing
