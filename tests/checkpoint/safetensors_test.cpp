#include "tessera/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tessera/base/error.h"
#include "tessera/checkpoint/element_scalar.h"
#include "tests/support/temp_dir.h"

namespace tessera {
namespace {

at::Tensor numbered(const std::vector<int64_t>& shape, at::ScalarType type) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return at::arange(count, at::kDouble).sub(20).to(type).reshape(shape);
}

void write_raw(const std::filesystem::path& path, uint64_t length, const std::string& rest) {
  std::ofstream out(path, std::ios::binary);
  for (int i = 0; i < 8; ++i) out.put(static_cast<char>(length >> (8 * i) & 0xFF));
  out << rest;
}

// The message of the error that opening the file gives, or "".
std::string error_of(const std::filesystem::path& path) {
  try {
    SafetensorsFile file(path);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(Safetensors, WritesAndReadsEveryType) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  const std::vector<at::ScalarType> types{at::kDouble, at::kFloat, at::kHalf,  at::kBFloat16,
                                          at::kLong,   at::kInt,   at::kShort, at::kChar,
                                          at::kByte,   at::kBool};
  std::vector<SafetensorsEntry> entries;
  for (const auto type : types) {
    entries.push_back(
        {"t_" + std::string(name_of(element_type(type))), element_type(type), {3, 5}});
  }
  entries.push_back({"scalar", ElementType::kF32, {}});
  entries.push_back({"empty", ElementType::kF32, {0, 4}});
  {
    SafetensorsWriter writer(path, entries, {{"format", "pt"}, {"note", "Grüße \"x\""}});
    for (const auto type : types) writer.append(numbered({3, 5}, type));
    writer.append(at::scalar_tensor(2.5, at::kFloat));
    writer.close();
  }
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("note"), "Grüße \"x\"");
  EXPECT_EQ(file.entries().size(), entries.size());
  for (const auto type : types) {
    const at::Tensor got = file.read("t_" + std::string(name_of(element_type(type))));
    EXPECT_EQ(got.scalar_type(), type);
    EXPECT_TRUE(at::equal(got, numbered({3, 5}, type)));
  }
  EXPECT_EQ(file.read("scalar").item<float>(), 2.5f);
  EXPECT_EQ(file.read("empty").sizes(), (std::vector<int64_t>{0, 4}));
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".tmp"));

  // Data begin at a multiple of 8, so that a mapped file is aligned.
  std::ifstream in(path, std::ios::binary);
  uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), 8);
  EXPECT_EQ(length % 8, 0u);
}

TEST(Safetensors, BoxesAreReadExactly) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  // The last one has rows longer than what is worth reading over.
  const std::vector<std::vector<int64_t>> shapes{{17}, {9, 31}, {4, 6, 10}, {5, 20000}};
  std::vector<SafetensorsEntry> entries;
  for (const auto& shape : shapes) {
    entries.push_back({"t" + std::to_string(shape[0]), ElementType::kF32, shape});
  }
  SafetensorsWriter writer(path, entries);
  for (const auto& shape : shapes) writer.append(numbered(shape, at::kFloat));
  writer.close();
  const SafetensorsFile file(path);
  for (size_t t = 0; t < shapes.size(); ++t) {
    const at::Tensor whole = numbered(shapes[t], at::kFloat);
    for (size_t dim = 0; dim < shapes[t].size(); ++dim) {
      for (const int64_t parts : {1, 2, 3, 7}) {
        for (int64_t index = 0; index < parts; ++index) {
          const Range range = part_of(shapes[t][dim], parts, index);
          Box box{std::vector<int64_t>(shapes[t].size(), 0), shapes[t]};
          box.offsets[dim] = range.begin;
          box.sizes[dim] = range.size();
          const at::Tensor want =
              whole.narrow(static_cast<int64_t>(dim), range.begin, range.size());
          EXPECT_TRUE(at::equal(file.read_box(entries[t].name, box), want));
        }
      }
    }
  }
  EXPECT_TRUE(
      at::equal(file.read_box("t4", {{1, 2, 3}, {2, 3, 5}}),
                numbered({4, 6, 10}, at::kFloat).narrow(0, 1, 2).narrow(1, 2, 3).narrow(2, 3, 5)));
}

TEST(Safetensors, ABoxBeyondTheTensorIsRefused) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  SafetensorsWriter writer(path, {{"t", ElementType::kF32, {4, 3}}});
  writer.append(at::ones({4, 3}));
  writer.close();
  const SafetensorsFile file(path);
  for (const Box& box : {Box{{0, 0}, {5, 3}}, Box{{2, 0}, {3, 3}}, Box{{-1, 0}, {1, 3}},
                         Box{{0}, {4}}, Box{{0, INT64_MAX}, {1, 1}}}) {
    EXPECT_THROW(file.read_box("t", box), CheckpointError);
  }
  EXPECT_THROW(file.read("u"), CheckpointError);
}

TEST(Safetensors, PiecesAndCasts) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  SafetensorsWriter writer(path,
                           {{"a", ElementType::kBF16, {6, 2}}, {"b", ElementType::kF32, {2}}});
  const at::Tensor values = numbered({6, 2}, at::kDouble);
  writer.append(values.narrow(0, 0, 4));
  writer.append(values.narrow(0, 4, 2));
  writer.append(at::ones({2}, at::kDouble));
  writer.close();
  EXPECT_TRUE(at::equal(SafetensorsFile(path).read("a"), values.to(at::kBFloat16)));
}

TEST(Safetensors, AFileAppearsWholeOrNotAtAll) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  {
    SafetensorsWriter writer(path, {{"a", ElementType::kF32, {2}}, {"b", ElementType::kF32, {2}}});
    writer.append(at::ones({2}));
    EXPECT_THROW(writer.close(), InternalError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(SafetensorsWriter(folder.path() / "none" / "a", {{"a", ElementType::kF32, {2}}}),
               CheckpointError);
}

TEST(Safetensors, DamagedHeadersAreNamed) {
  const test::TempDir folder;
  const auto path = folder.path() / "bad.safetensors";
  const auto expect = [&](const std::string& json, const std::string& words,
                          const std::string& data = std::string(8, '\0')) {
    write_raw(path, json.size(), json + data);
    const std::string message = error_of(path);
    EXPECT_NE(message.find("bad.safetensors"), std::string::npos) << json << ": " << message;
    EXPECT_NE(message.find(words), std::string::npos) << json << ": " << message;
  };
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"t": {"dtype": )" + dtype + R"(, "shape": )" + shape + R"(, "data_offsets": )" +
           offsets + "}}";
  };
  expect("{", "header");
  expect("[1]", "object");
  expect("\xff\xfe{}", "header");
  expect(std::string(5000, '['), "header");
  expect(R"({"t": 3})", "'t'");
  expect(entry("\"F99\"", "[2]", "[0, 8]"), "F99");
  expect(entry("7", "[2]", "[0, 8]"), "dtype");
  expect(entry("\"F32\"", "[-2]", "[0, 8]"), "shape");
  expect(entry("\"F32\"", "[1.5]", "[0, 8]"), "shape");
  expect(entry("\"F32\"", "[2]", "[8, 0]"), "backwards");
  expect(entry("\"F32\"", "[2]", "[0]"), "data_offsets");
  expect(entry("\"F32\"", "[2]", "[-1, 7]"), "data_offsets");
  expect(entry("\"F32\"", "[3]", "[0, 8]"), "does not fill");
  expect(entry("\"F32\"", "[9223372036854775807, 9223372036854775807]", "[0, 8]"), "fill");
  expect(entry("\"F32\"", "[4]", "[0, 16]"), "cut short");
  expect(entry("\"F32\"", "[2]", "[18446744073709551608, 18446744073709551615]"), "cut short");
  expect(R"({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},)"
         R"( "u": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}})",
         "share bytes");
  expect(entry("\"F32\"", "[1]", "[0, 4]"), "bytes 4 to 8 of its data are in no tensor");
  expect(entry("\"F32\"", "[1]", "[4, 8]"), "bytes 0 to 4 of its data are in no tensor");
  expect(R"({"__metadata__": {"a": 1}})", "__metadata__");

  write_raw(path, 1u << 30, "{}");
  EXPECT_NE(error_of(path).find("header of 1073741824 bytes"), std::string::npos);
  write_raw(path, ~uint64_t{0}, "{}");
  EXPECT_NE(error_of(path), "");
  std::ofstream(path, std::ios::binary) << "abc";
  EXPECT_NE(error_of(path).find("3 bytes"), std::string::npos);
  EXPECT_NE(error_of(folder.path()).find("not a file"), std::string::npos);
  EXPECT_NE(error_of(folder.path() / "none").find("cannot be opened"), std::string::npos);
}

// Every single-byte change of a sound file is read or refused, never a crash.
TEST(Safetensors, NoByteCanCrashTheReader) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  SafetensorsWriter writer(path, {{"ab", ElementType::kF32, {2, 3}}, {"c", ElementType::kF16, {1}}},
                           {{"k", "v"}});
  writer.append(at::ones({2, 3}));
  writer.append(at::ones({1}));
  writer.close();
  std::ifstream in(path, std::ios::binary);
  const std::string sound((std::istreambuf_iterator<char>(in)), {});
  const auto changed = folder.path() / "b.safetensors";
  for (size_t i = 0; i + 26 < sound.size(); ++i) {
    for (const char c : {'\0', '\xff', '9', '}'}) {
      std::string bytes = sound;
      bytes[i] = c;
      std::ofstream(changed, std::ios::binary) << bytes;
      try {
        const SafetensorsFile file(changed);
        for (const auto& [name, entry] : file.entries()) file.read(name);
      } catch (const CheckpointError&) {
      }
    }
  }
}

TEST(Safetensors, AFileThatShrinksIsAnErrorNotASignal) {
  const test::TempDir folder;
  const auto path = folder.path() / "a.safetensors";
  SafetensorsWriter writer(path, {{"t", ElementType::kF32, {1000}}});
  writer.append(at::ones({1000}));
  writer.close();
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 500);
  EXPECT_THROW(file.read("t"), CheckpointError);
}

}  // namespace
}  // namespace tessera
