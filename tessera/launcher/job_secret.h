#pragma once

// What keeps strangers out of a run: a text that all its processes have in TESSERA_JOB_SECRET. It
// is never sent. Who joins gets a number that was never used before (a challenge), and answers with
// its signature: HMAC-SHA256 (RFC 2104) under the secret.

#include <string>
#include <vector>

#include "tessera/launcher/worker_environment.h"

namespace tessera {

class JobSecret {
 public:
  /// Without a secret nobody is asked.
  JobSecret() = default;
  explicit JobSecret(std::string text) : text_(std::move(text)) {}

  static constexpr const char* kVariable = "TESSERA_JOB_SECRET";
  /// Throws ConfigError where the variable is set, but empty.
  static JobSecret of(const Environment& environment);

  bool is_set() const { return !text_.empty(); }

  /// The signature of these parts, in this order, as 64 hexadecimal digits.
  std::string sign(const std::vector<std::string>& parts) const;
  /// In a time that does not tell how much of `signature` is right.
  bool verify(const std::vector<std::string>& parts, const std::string& signature) const;

 private:
  std::string text_;
};

/// 32 hexadecimal digits that nobody can foresee.
std::string random_digits();

}  // namespace tessera
