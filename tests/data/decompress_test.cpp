#include "tessera/data/text/decompress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/data/compress.h"
#include "tests/data/token_files.h"

namespace tessera {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Gives a text in pieces of a few bytes, as a slow pipe does.
class SlowSource : public ByteSource {
 public:
  SlowSource(std::string bytes, size_t most) : bytes_(std::move(bytes)), most_(most) {}
  size_t read(std::span<char> out) override {
    const size_t count = std::min({out.size(), most_, bytes_.size() - at_});
    std::copy_n(bytes_.data() + at_, count, out.data());
    at_ += count;
    return count;
  }

 private:
  std::string bytes_;
  size_t most_;
  size_t at_ = 0;
};

struct Format {
  Compression compression;
  std::string (*compress)(const std::string&);
};
const Format kFormats[] = {{Compression::kGzip, test::gzip},
                           {Compression::kZstd, test::zstd},
                           {Compression::kXz, test::xz},
                           {Compression::kLzma, test::lzma},
                           {Compression::kBzip2, test::bzip2}};

std::string decompressed(const std::string& bytes, Compression compression, size_t most = 1000) {
  const auto source = decompress(std::make_unique<SlowSource>(bytes, most), compression, "file");
  std::string text;
  char buffer[777];
  while (const size_t got = source->read(buffer)) text.append(buffer, got);
  return text;
}

std::string sample_text() {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * 7919 % 10007) + " ";
  return text;
}

TEST(Decompress, EveryFormatIsRecognisedAndReadBack) {
  const std::string text = sample_text();
  for (const Format& format : kFormats) {
    const std::string packed = format.compress(text);
    EXPECT_EQ(compression_of(packed.substr(0, 16)), format.compression);
    for (const size_t most : {size_t{1}, size_t{1000}, packed.size()}) {
      EXPECT_TRUE(decompressed(packed, format.compression, most) == text)
          << to_string(format.compression) << " " << most;
    }
    EXPECT_EQ(decompressed(format.compress(""), format.compression), "");
  }
  EXPECT_EQ(compression_of("BZh is how this text begins"), Compression::kNone);
  EXPECT_EQ(compression_of(""), Compression::kNone);
}

TEST(Decompress, MembersFollowOneAnotherAndZerosMayEndThem) {
  for (const Format& format : kFormats) {
    if (format.compression == Compression::kLzma) continue;  // holds one member only
    const std::string packed = format.compress("one ") + format.compress("") +
                               format.compress("two") + std::string(1024, '\0');
    EXPECT_EQ(decompressed(packed, format.compression), "one two") << to_string(format.compression);
  }
  // A frame of zstd that decoders pass over.
  const std::string skippable("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(compression_of(skippable), Compression::kZstd);
  EXPECT_EQ(decompressed(skippable + test::zstd("x") + skippable, Compression::kZstd), "x");
}

TEST(Decompress, WhatIsCutOffOrDamagedIsNamedWithItsPlace) {
  const std::string text = sample_text();
  for (const Format& format : kFormats) {
    const std::string name = to_string(format.compression);
    const std::string packed = format.compress(text);
    const auto expect = [&](const std::string& bytes, const std::string& words) {
      const std::string message =
          message_of<ConfigError>([&] { decompressed(bytes, format.compression); });
      EXPECT_THAT(message, AllOf(HasSubstr("file: the " + name + " data "), HasSubstr(words),
                                 HasSubstr("at byte "), HasSubstr(" decompressed bytes")));
    };
    expect(packed.substr(0, packed.size() / 2), "is cut off");
    expect(packed.substr(0, packed.size() - 1), "is cut off");
    expect(packed.substr(0, 20), "is cut off");
    expect(packed + "more than nothing, but no data", "is followed by bytes that are no " + name);
    if (format.compression == Compression::kLzma) continue;  // has no check sum
    std::string damaged = packed;
    for (size_t i = 0; i < 40; ++i) damaged[damaged.size() / 2 + i] ^= 0x55;
    expect(damaged, "is damaged");
    expect(packed + packed.substr(0, packed.size() / 3), "is cut off");
  }
  // The place: all of the first member was read.
  const std::string first = test::gzip("12345");
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { decompressed(first + "nothing like gzip", Compression::kGzip); }),
              HasSubstr("at byte " + std::to_string(first.size()) + ", after 5 decompressed"));
}

}  // namespace
}  // namespace tessera
