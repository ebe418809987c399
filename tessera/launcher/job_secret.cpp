#include "tessera/launcher/job_secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "tessera/base/error.h"

namespace tessera {
namespace {

std::string hexadecimal(const unsigned char* bytes, size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

JobSecret JobSecret::of(const Environment& environment) {
  const std::optional<std::string> text = environment(kVariable);
  if (text && text->empty()) {
    throw ConfigError(std::string("environment variable ") + kVariable +
                      " is empty: give it a text that only this run's processes know, or unset it");
  }
  return JobSecret(text.value_or(""));
}

std::string JobSecret::sign(const std::vector<std::string>& parts) const {
  std::string message;  // each part with its length: "ab", "c" is not "a", "bc"
  for (const std::string& part : parts) message += std::to_string(part.size()) + ":" + part;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const unsigned char* done = ::HMAC(::EVP_sha256(), text_.data(), static_cast<int>(text_.size()),
                                     reinterpret_cast<const unsigned char*>(message.data()),
                                     message.size(), digest.data(), &length);
  TESSERA_CHECK(done != nullptr && length == 32, "HMAC-SHA256");
  return hexadecimal(digest.data(), length);
}

bool JobSecret::verify(const std::vector<std::string>& parts, const std::string& signature) const {
  const std::string right = sign(parts);
  return signature.size() == right.size() &&
         ::CRYPTO_memcmp(signature.data(), right.data(), right.size()) == 0;
}

std::string random_digits() {
  std::array<unsigned char, 16> bytes{};
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::getrandom(bytes.data() + done, bytes.size() - done, 0);
    TESSERA_CHECK(got > 0 || errno == EINTR, "getrandom");
    if (got > 0) done += static_cast<size_t>(got);
  }
  return hexadecimal(bytes.data(), bytes.size());
}

}  // namespace tessera
