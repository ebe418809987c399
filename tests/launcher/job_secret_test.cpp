#include "tessera/launcher/job_secret.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

JobSecret read(const std::optional<std::string>& value) {
  return JobSecret::of([&](const std::string& name) -> std::optional<std::string> {
    return name == JobSecret::kVariable ? value : std::nullopt;
  });
}

TEST(JobSecret, IsReadFromItsVariable) {
  EXPECT_FALSE(read(std::nullopt).is_set());
  EXPECT_TRUE(read("x").is_set());
  EXPECT_THROW(read(""), ConfigError);
}

// RFC 4231, test case 2: HMAC-SHA256 under the key "Jefe". The message is the one part with its
// length in front, so the digest was made with another tool: printf '28:what do ya want for
// nothing?' | openssl dgst -sha256 -hmac Jefe
TEST(JobSecret, SignsAsHmacSha256) {
  EXPECT_EQ(JobSecret("Jefe").sign({"what do ya want for nothing?"}),
            "f9a7f5b9c4118c0f397a50b3a495f455c6666f75f95db0d20b32f7e7c995ee77");
}

TEST(JobSecret, ASignatureHoldsForItsPartsAndSecretOnly) {
  const JobSecret secret("one");
  const std::string signature = secret.sign({"ab", "c"});
  EXPECT_TRUE(secret.verify({"ab", "c"}, signature));
  EXPECT_FALSE(secret.verify({"a", "bc"}, signature));
  EXPECT_FALSE(secret.verify({"ab", "c", ""}, signature));
  EXPECT_FALSE(JobSecret("two").verify({"ab", "c"}, signature));
  EXPECT_FALSE(secret.verify({"ab", "c"}, ""));
  EXPECT_FALSE(secret.verify({"ab", "c"}, signature.substr(1)));
}

TEST(JobSecret, DigitsDoNotRepeat) {
  EXPECT_EQ(random_digits().size(), 32u);
  EXPECT_NE(random_digits(), random_digits());
}

}  // namespace
}  // namespace tessera
