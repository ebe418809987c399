#include "tessera/storage/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/storage/block_sums.h"
#include "tessera/storage/checkpoint_choice.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Manifest example() {
  Manifest m;
  m.version = "0.1.0";
  m.position.step = 7;
  m.position.samples = 56;
  m.position.updates = 6;
  m.position.effective_batch = 8;
  m.position.data = {{"seed", "1"}};
  m.position.schedule = {{"type", "x"}};
  m.position.random = {{"seed", "42"}};
  m.position.layout = {{"ranks", "2"}};
  m.config = "a: \"b\"\n";
  m.optimizer = "AdamW";
  m.tokenizer = "/t";
  m.kept = {3, 7};
  m.files = {{"a.safetensors", 100, {1, 0xFFFFFFFFFFFFFFFFULL}}, {"b.safetensors", 40, {2}}};
  m.copies = {{"c.safetensors", 10, {3}}};
  m.weights["w"] = {
      ElementType::kF32, {4, 3}, {{0, 8, {{0, 0}, {2, 3}}}, {1, 16, {{2, 0}, {2, 3}}}}};
  m.state["exp_avg.w"] = {ElementType::kF64, {1}, {{0, 0, {{0}, {1}}}}};
  return m;
}

TEST(Manifest, ReadsWhatItWrote) {
  const Manifest m = example();
  const Manifest read = parse_manifest(manifest_text(m), "x");
  EXPECT_EQ(read.position, m.position);
  EXPECT_EQ(read.config, m.config);
  EXPECT_EQ(read.optimizer, m.optimizer);
  EXPECT_EQ(read.tokenizer, m.tokenizer);
  EXPECT_EQ(read.kept, m.kept);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].sums, m.files[0].sums);
  EXPECT_EQ(read.copies[0].name, "c.safetensors");
  const StoredTensor& w = read.weights.at("w");
  EXPECT_EQ(w.dtype, ElementType::kF32);
  EXPECT_EQ(w.shape, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(w.parts.at(1).file, 1u);
  EXPECT_EQ(w.parts.at(1).offset, 16u);
  EXPECT_EQ(w.parts.at(1).box, (Box{{2, 0}, {2, 3}}));
  EXPECT_EQ(manifest_text(read), manifest_text(m));
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const std::string text = manifest_text(example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      EXPECT_THROW(parse_manifest(damaged, "x"), CheckpointError) << i;
    }
  }
}

TEST(Manifest, EveryShorterTextIsFound) {
  const std::string text = manifest_text(example());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(parse_manifest(text.substr(0, size), "x"), CheckpointError) << size;
  }
}

std::string error_of(const Manifest& m) {
  try {
    parse_manifest(manifest_text(m), "folder/manifest.json");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(Manifest, PartsMustTileAndLieInTheirFiles) {
  Manifest m = example();
  m.weights["w"].parts.pop_back();
  EXPECT_THAT(error_of(m),
              HasSubstr("folder/manifest.json: damaged: 'w': its parts do not tile it"));
  m = example();
  m.weights["w"].parts[1].box.offsets[0] = 3;
  EXPECT_THAT(error_of(m), HasSubstr("a part outside"));
  m = example();
  m.weights["w"].parts[1].offset = 17;
  EXPECT_THAT(error_of(m), HasSubstr("a part outside its file"));
  m = example();
  m.weights["w"].parts[1].file = 2;
  EXPECT_THAT(error_of(m), HasSubstr("a part outside its file"));
  m = example();
  m.files[0].name = "../a";
  EXPECT_THAT(error_of(m), HasSubstr("is no name of a file"));
}

TEST(Manifest, SaysWhichCodesItsMomentsAreIn) {
  Manifest m = example();
  m.moment_dtype = "int8";
  m.moment_codec = kMomentCodec;
  const Manifest now = parse_manifest(manifest_text(m), "x");
  EXPECT_EQ(now.moment_codec, kMomentCodec);
  EXPECT_EQ(optimizer_problem(now, "AdamW", true), "");

  // A checkpoint of before codes had a version.
  std::string text = manifest_text(m);
  const std::string key = "\"moment_codec\":" + std::to_string(kMomentCodec) + ",";
  text.erase(text.find(key), key.size());
  const std::string sum_key = ",\"manifest_checksum\":\"";
  const size_t sum_at = text.rfind(sum_key);
  ASSERT_NE(sum_at, std::string::npos);
  const std::string body = text.substr(0, sum_at) + "}";
  text.replace(sum_at + sum_key.size(), 16, to_hex({block_sum(body.data(), body.size())}));
  const Manifest before = parse_manifest(text, "x");
  EXPECT_EQ(before.moment_codec, 1);
  EXPECT_THAT(optimizer_problem(before, "AdamW", true),
              AllOf(HasSubstr("int8 moments in codes of version 1"),
                    HasSubstr("this program reads version 2"),
                    HasSubstr("checkpoint.no_load_optim: true")));
  m.moment_codec = 3;  // of a later program
  EXPECT_THAT(optimizer_problem(m, "AdamW", true), HasSubstr("version 3"));
}

TEST(Manifest, FragmentsMakeOne) {
  Manifest first, second, whole = example();
  first.files = {whole.files[0]};
  first.weights["w"] = {ElementType::kF32, {4, 3}, {whole.weights["w"].parts[0]}};
  first.state = whole.state;
  second.files = {whole.files[1]};
  second.copies = whole.copies;
  second.weights["w"] = {ElementType::kF32, {4, 3}, {{0, 16, {{2, 0}, {2, 3}}}}};
  Manifest merged = whole;
  merged.files.clear();
  merged.copies.clear();
  merged.weights.clear();
  merged.state.clear();
  merge_fragment(merged, fragment_text(first));
  merge_fragment(merged, fragment_text(second));
  EXPECT_EQ(manifest_text(merged), manifest_text(whole));
}

TEST(BlockSums, DoNotDependOnThePieces) {
  std::vector<char> bytes(3 * kSumBlock + 12345);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761U >> 13);
  BlockSums once;
  once.add(bytes.data(), bytes.size());
  const std::vector<uint64_t> sums = once.finish();
  ASSERT_EQ(sums.size(), 4u);
  EXPECT_EQ(sums[3], block_sum(bytes.data() + 3 * kSumBlock, 12345));
  for (const uint64_t piece : {uint64_t{1000}, kSumBlock - 1, kSumBlock, kSumBlock + 1}) {
    BlockSums pieces;
    for (uint64_t at = 0; at < bytes.size(); at += piece) {
      pieces.add(bytes.data() + at, std::min<uint64_t>(piece, bytes.size() - at));
    }
    EXPECT_EQ(pieces.finish(), sums) << piece;
  }
  EXPECT_EQ(from_hex(to_hex(sums)), sums);
  EXPECT_TRUE(BlockSums().finish().empty());
}

}  // namespace
}  // namespace tessera
