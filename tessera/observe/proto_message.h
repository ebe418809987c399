#pragma once

// Bytes of a protocol buffers message (protobuf.dev/programming-guides/encoding), field by field.
// Only what event files need.

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

static_assert(std::endian::native == std::endian::little);

class ProtoMessage {
 public:
  void add_varint(uint32_t field, uint64_t value) {
    put_varint(field << 3);
    put_varint(value);
  }
  void add_double(uint32_t field, double value) {
    put_varint(field << 3 | 1);
    put_fixed(value);
  }
  void add_float(uint32_t field, float value) {
    put_varint(field << 3 | 5);
    put_fixed(value);
  }
  /// Text, raw bytes, or the bytes of a message inside this one.
  void add_bytes(uint32_t field, std::string_view bytes) {
    put_varint(field << 3 | 2);
    put_varint(bytes.size());
    bytes_ += bytes;
  }
  void add_doubles(uint32_t field, const std::vector<double>& values) {
    add_bytes(field,
              {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename T>
  void put_fixed(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  std::string bytes_;
};

}  // namespace tessera
