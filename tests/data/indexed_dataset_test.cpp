#include "tessera/data/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tessera/base/error.h"
#include "tessera/data/gpt_dataset.h"
#include "tests/data/token_files.h"
#include "tests/support/case_path.h"

namespace tessera {
namespace {

using test::message_of;
using test::TempDir;
using test::write_token_file;
using ::testing::HasSubstr;

std::vector<int64_t> all_of(const IndexedDataset& file, int64_t sequence) {
  std::vector<int64_t> tokens(static_cast<size_t>(file.length(sequence)));
  file.read(sequence, 0, tokens);
  return tokens;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

template <typename T>
void poke(std::string& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

TEST(IndexedDataset, ReadsBackWhatWasWrittenInEveryDtype) {
  const TempDir folder;
  const std::vector<std::vector<int32_t>> documents = {{1, 2, 3}, {}, {127}, {0, 5}};
  for (const TokenDtype dtype : {TokenDtype::kUInt8, TokenDtype::kInt8, TokenDtype::kInt16,
                                 TokenDtype::kInt32, TokenDtype::kInt64, TokenDtype::kUInt16}) {
    SCOPED_TRACE(to_string(dtype));
    const IndexedDataset file(write_token_file(folder / to_string(dtype), documents, dtype));
    EXPECT_EQ(file.dtype(), dtype);
    EXPECT_EQ(file.sequence_count(), 4);
    EXPECT_EQ(file.document_count(), 4);
    EXPECT_EQ(file.token_count(), 6);
    for (size_t i = 0; i < documents.size(); ++i) {
      const std::vector<int64_t> expected(documents[i].begin(), documents[i].end());
      EXPECT_EQ(all_of(file, static_cast<int64_t>(i)), expected);
    }
    std::vector<int64_t> part(2);
    file.read(0, 1, part);
    EXPECT_EQ(part, (std::vector<int64_t>{2, 3}));
    EXPECT_THROW(file.read(0, 2, part), InternalError);
  }
}

TEST(IndexedDataset, WritesTheBytesOfMegatronsBuilder) {
  for (const char* name : {"a", "c"}) {  // uint16, int32
    const auto original = test::case_path("blend") / "data" / name;
    const IndexedDataset file(original.string());
    const TempDir folder;
    IndexedDatasetWriter writer(folder / "copy", file.dtype());
    for (int64_t document = 0; document < file.document_count(); ++document) {
      for (int64_t i = file.document_bound(document); i < file.document_bound(document + 1); ++i) {
        const auto tokens = all_of(file, i);
        writer.add_sequence(std::vector<int32_t>(tokens.begin(), tokens.end()));
      }
      writer.end_document();
    }
    writer.finish();
    for (const char* suffix : {".bin", ".idx"}) {
      EXPECT_EQ(read_bytes(folder / (std::string("copy") + suffix)),
                read_bytes(original.string() + suffix));
    }
  }
}

TEST(IndexedDataset, RefusesTokensThatTheDtypeCannotHold) {
  const TempDir folder;
  IndexedDatasetWriter writer(folder / "small", TokenDtype::kUInt16);
  writer.add_sequence(std::vector<int32_t>{65535});
  EXPECT_THAT(message_of<ConfigError>([&] {
                writer.add_sequence(std::vector<int32_t>{1, 65536});
              }),
              HasSubstr("token 65536"));
  EXPECT_THROW(writer.add_sequence(std::vector<int32_t>{-1}), ConfigError);
  EXPECT_EQ(token_dtype_for(65499), TokenDtype::kUInt16);
  EXPECT_EQ(token_dtype_for(65500), TokenDtype::kInt32);
}

TEST(IndexedDataset, AnUnfinishedFileLeavesNothingBehind) {
  const TempDir folder;
  {
    IndexedDatasetWriter writer(folder / "part", TokenDtype::kUInt16);
    writer.add_sequence(std::vector<int32_t>{1, 2});
    writer.end_document();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(IndexedDataset, MissingFilesAreNamed) {
  const TempDir folder;
  const std::string prefix = folder / "nothing";
  EXPECT_THAT(message_of<ConfigError>([&] { IndexedDataset file(prefix); }),
              HasSubstr(prefix + ".idx: cannot open"));
  write_bytes(prefix + ".idx", "x");
  EXPECT_THAT(message_of<ConfigError>([&] { IndexedDataset file(prefix); }),
              HasSubstr(prefix + ".bin: cannot open"));
}

TEST(IndexedDataset, DamageIsRefusedWithFileAndField) {
  const TempDir folder;
  const std::string prefix = write_token_file(folder / "good", test::counting_documents({3, 4, 5}));
  const std::string idx = read_bytes(prefix + ".idx");
  const std::string bin = read_bytes(prefix + ".bin");
  // Layout: header 34, lengths 3 x 4 at 34, offsets 3 x 8 at 46, bounds 4 x 8 at 70.
  using Change = std::function<void(std::string & idx, std::string & bin)>;
  const std::vector<std::pair<Change, std::string>> damages = {
      {[](auto& i, auto&) { i.clear(); }, "the header needs 34 bytes, the file has 0"},
      {[](auto& i, auto&) { i.resize(20); }, "the file has 20"},
      {[](auto& i, auto&) { i[0] = 'X'; }, "no Megatron index"},
      {[](auto& i, auto&) { poke<uint64_t>(i, 9, 2); }, "version 2"},
      {[](auto& i, auto&) { i[17] = 7; }, "dtype code 7 is a floating-point type"},
      {[](auto& i, auto&) { i[17] = 9; }, "dtype code 9"},
      {[](auto& i, auto&) { i[17] = 5; }, ".bin: sequence 1 of the index lies at bytes [6, 38)"},
      {[](auto& i, auto&) { i.resize(i.size() - 1); }, "truncated"},
      {[](auto& i, auto&) { poke<uint64_t>(i, 18, ~uint64_t{0}); }, "truncated"},
      {[](auto& i, auto&) { poke<uint64_t>(i, 26, uint64_t{1} << 61); }, "truncated"},
      {[](auto& i, auto&) { poke<uint64_t>(i, 26, 0); }, "no document bounds"},
      {[](auto& i, auto&) { poke<uint64_t>(i, 26, 3); }, "last document bound is 2"},
      {[](auto& i, auto&) { poke<int32_t>(i, 38, -4); }, "length of sequence 1 is -4"},
      {[](auto& i, auto&) { poke<int32_t>(i, 42, 6); }, "sequence 2 of the index lies at"},
      {[](auto& i, auto&) { poke<int64_t>(i, 62, -8); }, "sequence 2 of the index lies at"},
      {[](auto& i, auto&) { poke<int64_t>(i, 62, INT64_MAX); }, "sequence 2 of the index"},
      {[](auto& i, auto&) { poke<int64_t>(i, 70, 1); }, "document bound 0 is 1, not 0"},
      {[](auto& i, auto&) { poke<int64_t>(i, 86, 0); }, "document bound 2 is 0, below"},
      {[](auto& i, auto&) { poke<int64_t>(i, 94, 4); }, "last document bound is 4"},
      {[](auto&, auto& b) { b.resize(b.size() - 1); },
       "sequence 2 of the index lies at bytes "
       "[14, 24), the file has 23"},
      {[](auto&, auto& b) { b.clear(); }, "the file has 0"},
  };
  for (const auto& [change, words] : damages) {
    std::string bad_idx = idx;
    std::string bad_bin = bin;
    change(bad_idx, bad_bin);
    write_bytes(folder / "bad.idx", bad_idx);
    write_bytes(folder / "bad.bin", bad_bin);
    const std::string prefix_of_bad = folder / "bad";
    const std::string message =
        message_of<ConfigError>([&] { IndexedDataset file(prefix_of_bad); });
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_THAT(message, HasSubstr(prefix_of_bad + "."));
  }
}

TEST(IndexedDataset, NoRandomByteMakesTheReaderCrash) {
  const TempDir folder;
  const std::string prefix = write_token_file(folder / "f", test::counting_documents({3, 4, 5}));
  const std::string idx = read_bytes(prefix + ".idx");
  int read = 0;
  for (size_t at = 0; at < idx.size(); ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string bad = idx;
      bad[at] = value;
      write_bytes(prefix + ".idx", bad);
      try {
        const IndexedDataset file(prefix);
        for (int64_t i = 0; i < file.sequence_count(); ++i) all_of(file, i);
        ++read;
      } catch (const ConfigError&) {
      }
    }
  }
  EXPECT_GT(read, 0);
}

// More than 2^31 tokens, and for int32 more than 2^32 bytes; the files are sparse.
class LargeFile : public ::testing::TestWithParam<TokenDtype> {};

TEST_P(LargeFile, TheLastTokensAreFound) {
  const TokenDtype dtype = GetParam();
  constexpr int64_t kSequences = 513;
  constexpr int64_t kLength = int64_t{1} << 22;  // 2^31 + 2^22 tokens
  const TempDir folder;
  const std::string prefix = folder / "large";
  std::string idx("MMIDIDX\0\0", 9);
  const auto put = [&idx](auto value) {
    idx.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint64_t{1});
  put(static_cast<uint8_t>(dtype));
  put(static_cast<uint64_t>(kSequences));
  put(static_cast<uint64_t>(kSequences + 1));
  for (int64_t i = 0; i < kSequences; ++i) put(static_cast<int32_t>(kLength));
  for (int64_t i = 0; i < kSequences; ++i) put(i * kLength * size_of(dtype));
  for (int64_t i = 0; i <= kSequences; ++i) put(i);
  write_bytes(prefix + ".idx", idx);
  write_bytes(prefix + ".bin", "");
  const int64_t bytes = kSequences * kLength * size_of(dtype);
  std::filesystem::resize_file(prefix + ".bin", static_cast<uintmax_t>(bytes));
  {
    std::fstream bin(prefix + ".bin", std::ios::binary | std::ios::in | std::ios::out);
    bin.seekp(bytes - 3 * size_of(dtype));
    for (const int64_t token : {11, 12, 13}) {
      bin.write(reinterpret_cast<const char*>(&token), size_of(dtype));
    }
  }

  const auto file = std::make_shared<const IndexedDataset>(prefix);
  EXPECT_EQ(file->token_count(), kSequences * kLength);
  std::vector<int64_t> end(4);
  file->read(kSequences - 1, kLength - 4, end);
  EXPECT_EQ(end, (std::vector<int64_t>{0, 11, 12, 13}));

  GptIndexSpec spec;
  spec.last_sequence = kSequences;
  spec.seq_length = 4096;
  const GptDataset samples(file, spec, 100, std::nullopt);
  EXPECT_EQ(samples.size(), (kSequences * kLength - 1) / 4096);
  // Exactly one sample holds the marks (or two, where the last one begins with the mark 13).
  const GptIndex& index = samples.index();
  int found = 0;
  std::vector<int64_t> tokens(4097);
  for (int64_t sample = 0; sample < samples.size(); ++sample) {
    const auto place = index.place(*file, index.shuffled(sample));
    ASSERT_GE(place.offset, 0);
    ASSERT_LT(place.entry, index.entries());
    if (index.sequence(place.entry) != kSequences - 1 || place.offset < kLength - 4097) continue;
    samples.read(sample, tokens);
    found += std::find(tokens.begin(), tokens.end(), 11) != tokens.end();
  }
  EXPECT_EQ(found, 1);
}

INSTANTIATE_TEST_SUITE_P(IndexedDataset, LargeFile,
                         ::testing::Values(TokenDtype::kUInt16, TokenDtype::kInt32),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace tessera
